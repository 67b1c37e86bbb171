"""The scratchpad that a memory keeps in its journal."""

from __future__ import annotations

from tinymem.archive.archive import Archive
from tinymem.archive.scratchpad_format import redacted_dump
from tinymem.memory.scratchpad.scratchpad import AgentMemory, Archiver
from tinymem.protocols.settings import SCRATCHPAD
from tinymem.steps.redaction import Redact

__all__ = ["KeptScratchpad"]

NOTED = 100  # observations, and failed approaches; older ones are archived


class KeptScratchpad:
    """A scratchpad, `memory`, written to the journal at every update and by `keep`, after `redact`."""

    def __init__(self, archive: Archive, archiver: Archiver, redact: Redact | None = None) -> None:
        self._journal, self._redact = archive.journal, redact
        kept = self._journal.setting(SCRATCHPAD)
        self._kept = AgentMemory().dump() if kept is None else kept
        self.memory = AgentMemory.load(
            self._kept,
            max_observations=NOTED,
            max_failed_approaches=NOTED,
            archive=archiver,
            on_change=self.keep,
            counter=archive.counter,
        )

    def keep(self) -> None:
        """Write down what changed; values are held by reference, so that needs no update."""
        text = redacted_dump(self.memory.dump(), self._redact)
        if text != self._kept:
            self._journal.keep({SCRATCHPAD: text})
            self._kept = text
