"""The tracking of changes in a memory, by the adapter that it was made with."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.archive.rows import step_of
from tinymem.errors import InputError
from tinymem.protocols import Changes, ChangeTracker, Journal, StepNote
from tinymem.protocols.settings import CHANGES
from tinymem.registry import DEFAULT_TRACKER, NO_TRACKER, tracker_from
from tinymem.steps.step import Step

__all__ = ["Tracking"]

BEFORE = 50  # steps before new ones in which calls are looked for whose results come with these


class Tracking:
    """The tracking of the changes in a journal by the adapter that is `given`, or that the memory remembers.

    Raises InputError where the memory was made with another one.

    Attributes:
        tracker: The adapter; None where nobody keeps track.
    """

    def __init__(self, journal: Journal, given: str | ChangeTracker | None) -> None:
        self._journal = journal
        name = given if given is None or isinstance(given, str) else tracker_from(given).name
        if journal.setting(CHANGES) is None:
            journal.keep({CHANGES: name or DEFAULT_TRACKER}, replace=False)
        kept = journal.setting(CHANGES) or NO_TRACKER
        if name not in (None, kept):
            raise InputError(f"this memory was made with changes={kept!r}, not {name!r}")
        self.tracker = None if kept == NO_TRACKER else tracker_from(given or kept)

    def notes_of(self, steps: Sequence[Step]) -> list[StepNote]:
        """Return the notes of new steps, which are in order."""
        return [] if self.tracker is None else self.tracker.notes_of(steps, lambda: self._before(steps[0]))

    def _before(self, step: Step) -> list[Step]:
        number = step.step_number or 0
        rows = self._journal.rows(max(0, number - 1 - BEFORE), before=number)
        return [step_of(self._journal, row.record) for row in rows]

    def changes(self, last: int) -> Changes | None:
        """Return the changes that the steps up to the `last` made; None where nobody keeps track."""
        return None if self.tracker is None else self.tracker.changes(self._journal, last)

    def marks_of(self, step: Step) -> list[str]:
        """Return what says which later steps changed what a step shows."""
        changes, parts = self.changes(self._journal.next_number()), step.parts()
        if changes is None:
            return []
        changes.expect([step])
        marks: dict[str, None] = {}
        for place, part in enumerate(parts):
            spans = changes.since(step, parts, place, 0, len(part.text)).spans
            marks |= dict.fromkeys(mark for _, _, mark in spans)
        return [mark for mark in marks if not mark.endswith(f"#{step.step_number}")]  # what it took away itself
