"""Changes since: which lines of a passage stand in its file no more, and which command failed that passed later."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from threading import RLock
from typing import NamedTuple, Protocol, TypeAlias

from tinymem.protocols import FileNote
from tinymem.recall.files.acts import PREFIX, READ, SCOPE
from tinymem.recall.files.commands import mark_of_pass
from tinymem.recall.files.lines import is_json, lines_in_json, lines_in_text
from tinymem.recall.files.tools import is_file_tool
from tinymem.recall.files.versions import Version, notes_by_path, version_of
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Part, Step
from tinymem.steps.types import MessageStep
from tinymem.stores.filter import folders_of

__all__ = ["NOTHING", "Changes", "FileChange", "Span", "may_touch"]

# Of lines that are gone: start, end, and what says so; what passed later is said before a passage, in the place of none
Span: TypeAlias = tuple[int, int, str]
KEPT = 5_000  # steps of which is kept what they touch
SHOWING = ("call", "observation", "error")  # kinds of parts that show files and failures
LEAST = 0.2  # share of a passage's lines that must stand for the rest to say something
_NOTHING = re.compile(r"(?:\s|\\[ntr]|[^\w\s\"\\])*")  # between two lines: nothing that says something


class FileChange(NamedTuple):
    """Changes of a passage: the `spans` that are gone, and the number of the newest step that took some away.

    Before the first of them is what passed since, where the passage is of a command that failed.

    `is_all` where so little is left that it says nothing. `newer` is the number of a later step of another session that
    took away some of what a file with the same path had, which may be another one; 0 for none.
    """

    spans: tuple[Span, ...] = ()
    step: int = 0
    is_all: bool = False
    newer: int = 0


NOTHING = FileChange()


class NoteSource(Protocol):
    """The notes of files, as a journal has them."""

    def next_number(self) -> int:
        """Return the number of the next step."""
        ...

    def file_notes(self, numbers: Sequence[int]) -> list[FileNote]:
        """Return the notes of the files that these steps touched, of all steps."""
        ...

    def file_notes_after(self, number: int) -> list[FileNote]:
        """Return the notes of all steps with higher numbers."""
        ...


class Changes:
    """The changes of the files that steps show, as a journal has them; what was read is kept for the next recall.

    With a `last` step, they are those up to it. Any number of threads may ask. After a `forget` others have to be made,
    since these know of what is gone.
    """

    def __init__(self, journal: NoteSource, last: int | None = None) -> None:
        self._journal, self._last = journal, last
        self._lock = RLock()
        self._clear()

    def _clear(self) -> None:
        self._is_behind = True
        self._newest: int | None = None
        self._until = 0  # the last step whose notes are here, of the files that are
        self._touched: dict[int, list[tuple[int, str]]] = {}  # by step: calls and the paths that they touch
        self._notes: dict[str, list[FileNote]] = {}
        self._versions: dict[str, Version] = {}
        self._shared: dict[str, Version | None] = {}  # as acts of other sessions may have left them
        self._found: dict[tuple[int, int, int, int], FileChange] = {}

    def follow(self, newest: int | None = None) -> None:
        """Take in what was done up to the `newest` step, else of all, once something of it is asked for."""
        self._is_behind, self._newest = True, newest

    def _follow(self) -> None:
        newest = self._newest if self._last is None else self._last
        if newest is None:
            newest = self._journal.next_number() - 1
        if len(self._touched) > KEPT:
            self._clear()
        self._is_behind = False
        if newest > self._until:
            notes = self._journal.file_notes_after(self._until) if self._notes else []
            self._take({path: [*self._notes.get(path, ()), *new] for path, new in notes_by_path(notes).items()})
            self._until = newest

    def read(self, steps: Iterable[Step]) -> set[int]:
        """Read what is to be known of steps, of all of them at once; return the numbers of those that touched files.

        Steps that ran commands whose end is known are among these.
        """
        numbers = {step.step_number or 0 for step in steps if may_touch(step)}
        if not numbers:
            return numbers
        with self._lock:
            if self._is_behind:
                self._follow()
            unread = numbers - self._touched.keys()
            if unread:
                touched: dict[int, list[tuple[int, str]]] = {number: [] for number in unread}
                notes = self._journal.file_notes([*unread])
                for note in notes:
                    if note.step in touched:
                        touched[note.step].append((note.call, note.path))
                self._take(notes_by_path(note for note in notes if note.step <= self._until))
                self._touched |= touched
            return {number for number in numbers if self._touched[number]}

    def _take(self, notes: Mapping[str, list[FileNote]]) -> None:
        """Put these notes in the place of those of the same paths."""
        new = {path: theirs for path, theirs in notes.items() if self._notes.get(path) != theirs}
        if new:
            self._notes |= new
            self._versions, self._shared, self._found = {}, {}, {}

    def since(self, step: Step, parts: Sequence[Part], place: int, start: int, end: int) -> FileChange:
        """Return what changed since of `[start, end)` in the part at a `place` of the `parts` of a step."""
        if parts[place].kind not in SHOWING:
            return NOTHING
        key = step.step_number or 0, place, start, end
        with self._lock:
            if not self.read([step]):
                return NOTHING
            if key not in self._found:
                self._found[key] = self._find(step, parts, place, start, end)
            return self._found[key]

    def marks_of(self, step: Step) -> list[str]:
        """Return what says which later steps changed lines that a step shows, and which passed where it failed."""
        self.follow()
        parts = step.parts()
        changes = [self.since(step, parts, place, 0, len(part.text)) for place, part in enumerate(parts)]
        spans = chain.from_iterable(change.spans for change in changes)
        marks = dict.fromkeys(f"in part {mark}" if first < last else mark for first, last, mark in spans)
        marks |= dict.fromkeys(f"perhaps outdated by #{change.newer}" for change in changes if change.newer)
        return [mark for mark in marks if not mark.endswith(f"#{step.step_number}")]

    def _find(self, step: Step, parts: Sequence[Part], place: int, start: int, end: int) -> FileChange:
        change = self._find_gone(step, parts, place, start, end)
        if parts[place].kind == "call":
            return change
        number, call = step.step_number or 0, _call_of(step, parts, place)
        for its_call, path in self._touched[number]:
            later = mark_of_pass(self._notes.get(path, ()), number) if its_call == call else ""
            if later:
                return change._replace(spans=((start, start, later), *change.spans))
        return change

    def _find_gone(self, step: Step, parts: Sequence[Part], place: int, start: int, end: int) -> FileChange:
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
        return FileChange((*_joined(spans, part.text),), newest, said - gone < LEAST * said, newer)

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


def may_touch(step: Step) -> bool:
    """Return whether a step may have touched files or run commands, or show what did."""
    if isinstance(step, ActionStep):
        return any(is_file_tool(call.name) for call in step.tool_calls)
    return isinstance(step, MessageStep) and bool(step.tool_call_id)


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
