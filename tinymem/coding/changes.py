"""Changes since: which lines of a passage stand in its file no more, and which command failed that passed later."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, partial

from tinymem.coding.acts import READ, SCOPE, FileNote, folders_of
from tinymem.coding.commands import mark_of_pass
from tinymem.coding.lines import ShownLine, lines_in_json, lines_in_text
from tinymem.coding.versions import Version, version_of
from tinymem.protocols import NOTHING, NoteSource, PassageChange, Span
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Part, Step

__all__ = ["FileChanges"]

SHOWING = ("call", "observation", "error")  # kinds of parts that show files and failures
MOST = 0.8  # share of a passage's lines that may be gone: the rest must say something
_NOTHING = re.compile(r"(?:\s|\\[ntr]|[^\w\s\"\\])*")  # between two lines: nothing that says something


class FileChanges:
    """The changes of the files that steps show, up to the `last` step, by the notes that a journal has."""

    def __init__(self, notes: NoteSource, last: int) -> None:
        self._source, self._last = notes, last
        self._expected: set[int] = set()
        self._touched: dict[int, list[tuple[int, str]]] = {}  # by step: calls and the paths that they touch
        self._notes: dict[str, list[FileNote]] = {}
        self._version = cache(partial(version_of, notes=self._notes))

    def expect(self, steps: Iterable[Step]) -> None:
        """Take note of steps that may be asked of: what is known of them is read at once, when one of them is."""
        self._expected.update(step.step_number or 0 for step in steps)

    def _read(self, unread: Collection[int]) -> None:
        self._touched |= {number: [] for number in unread}
        notes = [*map(FileNote.of, self._source.notes_of([*unread]))]
        for note in notes:
            self._touched[note.step].append((note.call, note.act.path))
        paths = {note.act.path for note in notes}
        new = paths and {*folders_of(paths)} - self._notes.keys()
        self._notes |= {path: [] for path in new}
        for note in map(FileNote.of, self._source.notes_with(new)):
            if note.step <= self._last:
                self._notes[note.act.path].append(note)

    def since(self, step: Step, parts: Sequence[Part], place: int, start: int, end: int) -> PassageChange:
        """Return what changed since of `[start, end)` in the part at a `place` of the `parts` of a step."""
        if parts[place].kind not in SHOWING:
            return NOTHING
        if unread := self._expected - self._touched.keys():
            self._read(unread)
        part, number, call = parts[place], step.step_number or 0, _call_of(step, parts, place)
        is_call = part.kind == "call"
        paths = {path for its_call, path in self._touched.get(number, ()) if its_call == call}
        marks = (mark_of_pass(self._notes[path], number) for path in paths if not is_call)
        later = [(start, start, mark) for mark in marks if mark][:1]
        versions = [self._version(path) for path in paths if path.startswith(SCOPE)]
        shown = [*_shown(part, start, end)] if versions else []
        before = number - is_call  # a call shows what it took away itself, too
        gone = [(first, last, note) for first, last, code in shown if (note := _gone_since(code, versions, before))]
        newest = max((note.step for _, _, note in gone), default=0)
        return PassageChange((*later, *_marked(gone, part.text)), newest, _length(gone) > MOST * _length(shown))


def _shown(part: Part, start: int, end: int) -> Iterator[ShownLine]:
    """Yield the lines of a file that a part shows in `[start, end)`, less the indent of one that goes on behind it."""
    lines = lines_in_json if part.kind == "call" else lines_in_text
    for begin, stop, code in lines(part.text, start, end):
        first, last = max(begin, start), min(stop, end)
        if not part.text[first:last].isspace():
            yield first, last, code


def _length(spans: Iterable[tuple[int, int, object]]) -> int:
    return sum(last - first for first, last, _ in spans)


def _gone_since(code: int, versions: Iterable[Version], before: int) -> FileNote | None:
    """Return the note, behind the step `before`, since which a line is gone from all files of its call; else None."""
    sinces = [version.gone_since(code) for version in versions if version.knows(code)]
    if not sinces or None in sinces:
        return None
    newest = max(filter(None, sinces))
    return newest if newest.step > before else None


def _marked(gone: Iterable[tuple[int, int, FileNote]], text: str) -> list[Span]:
    """Return what is gone of a text, in order, with marks: one, the last, for lines with nothing between them."""
    found: list[Span] = []
    for first, last, note in gone:
        if found and _NOTHING.fullmatch(text, found[-1][1], first):
            first, _, _ = found.pop()
        found.append((first, last, _mark_of(note)))
    return found


def _mark_of(note: FileNote) -> str:
    """Return what stands in the place of lines that are gone since a note."""
    return f"changed since, see #{note.step}" if note.act.kind == READ else f"changed by #{note.step}"


def _call_of(step: Step, parts: Sequence[Part], place: int) -> int:
    """Return the place of the call that a part is of, or the result of; -1 for none."""
    part = parts[place]
    if not isinstance(step, ActionStep):
        return 0
    if part.kind == "call":
        return sum(earlier.kind == "call" for earlier in parts[:place])
    if part.message > len(step.results):
        return -1
    return step.tool_calls.index(step.results[part.message - 1])
