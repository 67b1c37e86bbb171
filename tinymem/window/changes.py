"""Lines of files that a window shows and that a later step of it took away: they go, or a mark takes their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from threading import Lock

from tinymem.protocols import FileNote
from tinymem.recall.files.changes import Changes, Span
from tinymem.recall.files.notes import NoteTaker
from tinymem.recall.render import leave_out, without_gone
from tinymem.steps.step import Step
from tinymem.window.excerpts import replace_texts
from tinymem.window.strategy import Group

__all__ = ["WindowChanges"]

KEPT = 8_192  # steps whose notes are kept


class WindowChanges:
    """The changes that the steps of windows made to files. Any number of threads may ask.

    Args:
        price: Counts the tokens of a step.
    """

    def __init__(self, price: Callable[[Step], int]) -> None:
        self._price, self._lock = price, Lock()
        self._taker = NoteTaker()
        self._notes: dict[str, list[FileNote]] = {}  # by the id of a step, of its text before it was shortened

    def apply(self, window: Sequence[Step], groups: Iterable[Group]) -> list[Group]:
        """Return groups of a window without the lines that a later step of the window took away."""
        changes = Changes(_WindowNotes(self._notes_of(window)))
        changes.read(window)
        current = partial(self._current, changes)
        return [[*map(current, group)] for group in groups]

    def _notes_of(self, window: Sequence[Step]) -> list[FileNote]:
        with self._lock:
            if len(self._notes) > KEPT:
                self._notes.clear()
            for step in window:
                if step.step_number is not None and step.id not in self._notes:
                    self._notes[step.id] = self._taker.notes_of(step)
            return [*chain.from_iterable(self._notes.get(step.id, ()) for step in window)]

    def _current(self, changes: Changes, step: Step) -> Step:
        parts, gone = step.parts(), dict[str, Sequence[Span]]()
        for place, part in enumerate(parts):
            spans = changes.since(step, parts, place, 0, len(part.text)).spans
            if spans and part.kind == "observation" and not step.pinned:
                gone[part.text] = spans
        if not gone:
            return step
        marked = replace_texts(step, {text: without_gone(text, 0, len(text), spans) for text, spans in gone.items()})
        if self._price(marked) <= self._price(step):
            return marked
        shorter: dict[str, str] = {}
        for text, taken in gone.items():
            shorter[text] = leave_out(text, [span[:2] for span in taken])
        return replace_texts(step, shorter)


class _WindowNotes:
    """Notes of files as `Changes` asks a journal for them."""

    def __init__(self, notes: Sequence[FileNote]) -> None:
        self._notes = sorted(notes)

    def next_number(self) -> int:
        """Return the number behind the last one."""
        return self._notes[-1].step + 1 if self._notes else 1

    def file_notes(self, numbers: Sequence[int]) -> list[FileNote]:
        """Return all notes, where some of them are of these steps."""
        return self._notes if {note.step for note in self._notes}.intersection(numbers) else []

    def file_notes_after(self, number: int) -> list[FileNote]:
        """Return the notes of later steps."""
        return [note for note in self._notes if note.step > number]
