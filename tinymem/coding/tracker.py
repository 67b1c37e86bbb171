"""The tracker of changes for coding agents: what later calls of theirs took back of files and failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinymem.coding.acts import LONGEST_PATH
from tinymem.coding.changes import FileChanges
from tinymem.coding.progress import progress_block
from tinymem.coding.rules import rules_of
from tinymem.coding.tools import acts_of_call, calls_in, calls_of
from tinymem.errors import InputError
from tinymem.protocols import Changes, NoteSource, StepNote
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

__all__ = ["CodingTracker"]


class CodingTracker:
    """Keeps track of files and commands; see `tinymem.protocols.ChangeTracker`."""

    name = "coding"
    progress_of = staticmethod(progress_block)

    @classmethod
    def from_name(cls, argument: str) -> CodingTracker:
        """Return it; raise InputError for an argument, which it does not take."""
        if argument:
            raise InputError(f'the tracker "coding" takes no argument, but {argument!r} was given')
        return cls()

    def notes_of(self, steps: Sequence[Step], before: Callable[[], Sequence[Step]]) -> list[StepNote]:
        """Return the notes of numbered steps, which are in order; `before` gives some steps before the first."""
        known, notes = calls_in(steps), list[StepNote]()
        for index, step in enumerate(steps):
            if isinstance(step, MessageStep) and step.tool_call_id and step.tool_call_id not in known:
                known = {**calls_in(before()), **known}
            acts = [(0, act) for act in rules_of(step, steps[:index], before)]
            for place, call in enumerate(calls_of(step, known)):
                acts += [(place, act) for act in acts_of_call(call, step.session)]
            for place, act in acts:
                if len(act.path) <= LONGEST_PATH:
                    notes.append(StepNote(step.step_number or 0, len(notes), act.path, act.packed(place)))
        return notes

    def changes(self, notes: NoteSource, last: int) -> Changes:
        """Return the changes that the steps up to the `last` made."""
        return FileChanges(notes, last)
