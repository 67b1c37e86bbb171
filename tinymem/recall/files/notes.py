"""Notes for the journal: of what steps did to files, and of how commands ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tinymem.protocols import FileNote, Journal
from tinymem.recall.files.acts import in_scope, scope_of, told_elsewhere
from tinymem.recall.files.commands import FAILURES, path_of_run
from tinymem.recall.files.lines import pack_codes
from tinymem.recall.files.tools import acts_of, run_of_call, server_of
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.content import clean
from tinymem.steps.serialization import load_step
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

__all__ = ["NoteTaker", "renew_notes"]

LONGEST_PATH = 1_000  # characters
READ_BATCH = 100  # steps
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
            run = run_of_call(call)
            if run is not None:
                shown = b"" if run.outcome in FAILURES else run.text.encode("utf-8", "replace")
                path = path_of_run(run, step.session)
                notes.append(FileNote(number, len(notes), place, path, run.outcome, shown, b""))
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


def renew_notes(journal: Journal) -> None:
    """Take the notes of all steps of a journal again."""
    journal.maintenance.renew_file_notes(_all_notes(journal))


def _all_notes(journal: Journal) -> Iterator[FileNote]:
    taker, after = NoteTaker(), 0
    while rows := journal.rows(after, READ_BATCH):
        for row in rows:
            yield from taker.notes_of(load_step(row.record))
        after = rows[-1].number
