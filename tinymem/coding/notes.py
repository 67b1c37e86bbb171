"""Notes for the journal: of what steps did to files, and of how commands ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tinymem.coding.acts import FileNote, in_scope, scope_of, told_elsewhere
from tinymem.coding.commands import FAILURES
from tinymem.coding.lines import pack_codes
from tinymem.coding.tools import acts_of, run_of_call, server_of
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.content import clean
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

__all__ = ["NoteTaker"]

LONGEST_PATH = 1_000  # characters
FindCall = Callable[[str], ToolCall | None]


class NoteTaker:
    """Takes notes of steps in their order; `find` finds the call, by its id, whose result comes with a later step."""

    def __init__(self, find: FindCall = lambda id: None) -> None:
        self._find = find
        self._open: dict[str, ToolCall] = {}

    def notes_of(self, step: Step) -> list[FileNote]:
        """Return the notes of a numbered step."""
        number, notes = step.step_number or 0, list[FileNote]()
        for place, call in enumerate(self._calls(step)):
            server = server_of(call.name)
            scope = scope_of(step.session, server)
            for act in acts_of(call):
                told = [in_scope(act, scope)]
                if act.path.startswith("/") and not server:  # elsewhere, too, as far as may be
                    told.append(told_elsewhere(act))
                for path, kind, lines, gone in told:
                    if len(path) <= LONGEST_PATH:
                        codes = pack_codes(lines), pack_codes(gone)
                        notes.append(FileNote(number, len(notes), place, clean(path), kind, *codes))
            run = run_of_call(call, step.session)
            if run is not None:
                shown = b"" if run.outcome in FAILURES else run.text.encode("utf-8", "replace")
                notes.append(FileNote(number, len(notes), place, run.key, run.outcome, shown, b""))
        return notes

    def _calls(self, step: Step) -> tuple[ToolCall, ...]:
        """Return the calls of a step; of a result that came later, the call that it answers."""
        if isinstance(step, ActionStep):
            self._open |= {call.id: call for call in step.tool_calls if not call.answered}
            return step.tool_calls
        if not isinstance(step, MessageStep) or not step.tool_call_id:
            return ()
        call = self._open.pop(step.tool_call_id, None) or self._find(step.tool_call_id)
        return () if call is None else (replace(call, observation=step.content or "", error=None),)
