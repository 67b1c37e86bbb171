"""Changes since: which lines of a passage stand in its file no more, and which command failed that passed later."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tinymem.coding.acts import PREFIX, READ, SCOPE, FileNote, folders_of
from tinymem.coding.commands import mark_of_pass
from tinymem.coding.lines import is_json, lines_in_json, lines_in_text
from tinymem.coding.tracker import has_calls
from tinymem.coding.versions import Version, version_of
from tinymem.protocols import NOTHING, NoteSource, PassageChange, Span
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Part, Step

__all__ = ["FileChanges"]

SHOWING = ("call", "observation", "error")  # kinds of parts that show files and failures
LEAST = 0.2  # share of a passage's lines that must stand for the rest to say something
_NOTHING = re.compile(r"(?:\s|\\[ntr]|[^\w\s\"\\])*")  # between two lines: nothing that says something


class FileChanges:
    """The changes of the files that steps show, up to the `last` step, by the notes that a journal has."""

    def __init__(self, notes: NoteSource, last: int) -> None:
        self._source, self._last = notes, last
        self._touched: dict[int, list[tuple[int, str]]] = {}  # by step: calls and the paths that they touch
        self._notes: dict[str, list[FileNote]] = {}
        self._versions: dict[str, Version] = {}
        self._shared: dict[str, Version | None] = {}  # as acts of other sessions may have left them

    def read(self, steps: Iterable[Step]) -> None:
        """Read what is to be known of steps, of all of them at once."""
        unread = {step.step_number or 0 for step in steps if has_calls(step)} - self._touched.keys()
        if not unread:
            return
        self._touched |= {number: [] for number in unread}
        paths = set[str]()
        for note in map(FileNote.of, self._source.notes_of([*unread])):
            self._touched[note.step].append((note.call, note.path))
            paths.add(note.path)
        new = {*folders_of(paths)} - self._notes.keys() if paths else set()
        self._notes |= {path: [] for path in new}
        for note in map(FileNote.of, self._source.notes_with(new)):
            if note.step <= self._last:
                self._notes[note.path].append(note)

    def since(self, step: Step, parts: Sequence[Part], place: int, start: int, end: int) -> PassageChange:
        """Return what changed since of `[start, end)` in the part at a `place` of the `parts` of a step."""
        if parts[place].kind not in SHOWING:
            return NOTHING
        self.read([step])
        return self._find(step, parts, place, start, end) if self._touched.get(step.step_number or 0) else NOTHING

    def _find(self, step: Step, parts: Sequence[Part], place: int, start: int, end: int) -> PassageChange:
        change = self._find_gone(step, parts, place, start, end)
        if parts[place].kind == "call":
            return change
        number, call = step.step_number or 0, _call_of(step, parts, place)
        for its_call, path in self._touched[number]:
            later = mark_of_pass(self._notes.get(path, ()), number) if its_call == call else ""
            if later:
                return change._replace(spans=((start, start, later), *change.spans))
        return change

    def _find_gone(self, step: Step, parts: Sequence[Part], place: int, start: int, end: int) -> PassageChange:
        number, part, call = step.step_number or 0, parts[place], _call_of(step, parts, place)
        is_call = part.kind == "call"  # it shows what it took away itself, too
        paths = {path for its_call, path in self._touched[number] if its_call == call and path.startswith(SCOPE)}
        versions = [*map(self._version, paths)]
        shared = [*filter(None, map(self._version_in_all, paths))]
        spans: list[Span] = []
        newest = gone = said = newer = 0
        lines = lines_in_json if is_call or is_json(part.text) else lines_in_text
        for line in lines(part.text, start, end) if versions else ():
            first, last = max(line.start, start), min(line.end, end)
            if part.text[first:last].isspace():  # the indent of a line that the next passage has
                continue
            said += last - first
            note, guess = _gone_since(line.code, versions), _gone_since(line.code, shared)
            if note is not None and note.step + is_call > number:
                gone += last - first
                newest = max(newest, note.step)
                spans.append((first, last, _mark_of(note)))
            elif guess is not None and guess.step > number:
                newer = max(newer, guess.step)
        return PassageChange((*_joined(spans, part.text),), newest, said - gone < LEAST * said, newer)

    def _version(self, path: str) -> Version:
        if path not in self._versions:
            self._versions[path] = version_of(path, self._notes)
        return self._versions[path]

    def _version_in_all(self, path: str) -> Version | None:
        """Return the version of a file with what other sessions did to their one of the same full path; None for none.

        It may be the same file.
        """
        if path not in self._shared:
            notes = {name: self._notes.get(name, []) for name in folders_of([path])}
            steps = {note.step for note in notes[path]}
            theirs = [note for note in self._notes.get(path[PREFIX:], ()) if note.step not in steps]
            notes[path] = notes[path] + theirs
            self._shared[path] = version_of(path, notes) if theirs else None
        return self._shared[path]


def _gone_since(code: int, versions: Iterable[Version]) -> FileNote | None:
    """Return the note since which a line is gone from all files of its call; None where it stands, or may stand."""
    sinces = [version.gone_since(code) for version in versions if version.knows(code)]
    return max(filter(None, sinces)) if sinces and None not in sinces else None


def _joined(spans: Iterable[Span], text: str) -> list[Span]:
    """Return the spans of a text, in order, those with nothing between them as one: it has the mark of the last.

    An empty one says what passed later, and stays.
    """
    found: list[Span] = []
    for first, last, mark in spans:
        if found and found[-1][0] < found[-1][1] and _NOTHING.fullmatch(text, found[-1][1], first):
            first, _, _ = found.pop()
        found.append((first, last, mark))
    return found


def _mark_of(note: FileNote) -> str:
    """Return what stands in the place of lines that are gone since a note."""
    return f"changed since, see #{note.step}" if note.kind == READ else f"changed by #{note.step}"


def _call_of(step: Step, parts: Sequence[Part], place: int) -> int:
    """Return the place of the call that a part is of, or the result of; -1 for none."""
    part = parts[place]
    if not isinstance(step, ActionStep):
        return 0
    if part.kind == "call":
        return sum(earlier.kind == "call" for earlier in parts[:place])
    if part.message > len(step.results):
        return -1
    result = step.results[part.message - 1]
    return next(place for place, call in enumerate(step.tool_calls) if call is result)
