"""The tracker of changes for coding agents: what later calls of theirs took back of files and failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from tinymem.protocols import Changes, NoteSource, StepNote
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

__all__ = ["CodingTracker", "has_calls"]


def has_calls(step: Step) -> bool:
    """Return whether a step calls tools, or is a result of one."""
    if isinstance(step, ActionStep):
        return bool(step.tool_calls)
    return isinstance(step, MessageStep) and bool(step.tool_call_id)


class CodingTracker:
    """Keeps track of files and commands; see `tinymem.protocols.ChangeTracker`."""

    name = "coding"

    @classmethod
    def from_name(cls, argument: str) -> CodingTracker:
        """Return it; it takes no argument."""
        return cls()

    def notes_of(self, steps: Sequence[Step], before: Callable[[], Sequence[Step]]) -> list[StepNote]:
        """Return the notes of numbered steps, which are in order; `before` gives some steps before the first."""
        if not any(map(has_calls, steps)):
            return []
        from tinymem.coding.notes import NoteTaker  # only where there are calls

        def find(id: str) -> ToolCall | None:
            acted = [step.tool_calls for step in before() if isinstance(step, ActionStep)]
            return next((call for call in chain.from_iterable(reversed(acted)) if call.id == id), None)

        taker = NoteTaker(find)
        return [note.packed() for note in chain.from_iterable(map(taker.notes_of, steps))]

    def changes(self, notes: NoteSource, last: int) -> Changes:
        """Return the changes that the steps up to the `last` made."""
        from tinymem.coding.changes import FileChanges

        return FileChanges(notes, last)
