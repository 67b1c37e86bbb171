"""Changes since: which lines of a passage stand in its file no more, and which command failed that passed later."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from threading import RLock
from typing import NamedTuple, Protocol, TypeAlias

from tinymem.protocols import FileNote
from tinymem.recall.files.acts import READ
from tinymem.recall.files.commands import RUN, mark_of_pass
from tinymem.recall.files.lines import ShownLine, lines_in_json, lines_in_text
from tinymem.recall.files.pieces import Piece, pieces_in_lines
from tinymem.recall.files.results import text_of_result
from tinymem.recall.files.tools import may_have_failed, may_touch
from tinymem.recall.files.versions import Version
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Part, Step
from tinymem.steps.types import MessageStep
from tinymem.stores.filter import folders_of

__all__ = ["NOTHING", "Change", "Changes", "NotesUntil", "Span", "joined", "lines_of_part", "mark_of", "notes_by_path"]

# Of lines that are gone: start, end, and what says so; what passed later is said before a passage, in the place of none
Span: TypeAlias = tuple[int, int, str]
KEPT = 5_000  # steps of which is kept what they touch
SHOWING = ("call", "observation", "error")  # kinds of parts that show files and failures
LEAST = 0.2  # share of a passage's lines that must stand for the rest to say something
_NOTHING = re.compile(r"(?:\s|\\[ntr]|[^\w\s\"\\])*")  # between two lines: nothing that says something


class Change(NamedTuple):
    """Changes of a passage: the `spans` that are gone, and the number of the newest step that took some away.

    Before the first of them is what passed since, where the passage is of a command that failed.

    `is_all` where so little is left that it says nothing; `is_unsure` where something may have changed most of the
    lines, nobody knows how.
    """

    spans: tuple[Span, ...] = ()
    step: int = 0
    is_all: bool = False
    is_unsure: bool = False


NOTHING = Change()


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


class NotesUntil:
    """The notes of a journal up to the step with the number `last`, for what held then."""

    def __init__(self, notes: NoteSource, last: int) -> None:
        self._notes, self._last = notes, last

    def next_number(self) -> int:
        """Return the number behind the last one."""
        return self._last + 1

    def file_notes(self, numbers: Sequence[int]) -> list[FileNote]:
        """Return the notes up to then of the files that these steps touched."""
        return [note for note in self._notes.file_notes(numbers) if note.step <= self._last]

    def file_notes_after(self, number: int) -> list[FileNote]:
        """Return the notes up to then of steps with higher numbers."""
        return [note for note in self._notes.file_notes_after(number) if note.step <= self._last]


class Changes:
    """The changes of the files that steps show, as a journal has them; what was read is kept for the next recall.

    Any number of threads may ask. After a `forget` others have to be made, since these know of what is gone.
    """

    def __init__(self, journal: NoteSource) -> None:
        self._journal, self._lock = journal, RLock()
        self._clear()

    def _clear(self) -> None:
        self._is_behind = True
        self._until = 0  # the last step whose notes are here, of the files that are
        self._expected: frozenset[int] = frozenset()
        self._touched: dict[int, list[tuple[int, str]]] = {}  # by step: calls and the paths that they touch
        self._notes: dict[str, list[FileNote]] = {}
        self._versions: dict[str, Version] = {}
        self._inside: dict[str, set[str]] = {}  # by file and folder: the paths whose versions have notes of it
        self._found: dict[tuple[int, int, int, int], Change] = {}

    def follow(self) -> None:
        """Take in what was done since, once something of it is asked for."""
        self._is_behind = True

    def _follow(self) -> None:
        self._is_behind = False
        if (last := self._journal.next_number() - 1) == self._until:
            return
        if len(self._touched) > KEPT:
            self._clear()
        notes = self._journal.file_notes_after(self._until) if self._notes else []
        self._take({path: [*self._notes.get(path, ()), *new] for path, new in notes_by_path(notes).items()})
        self._until = last

    def expect(self, steps: Iterable[Step]) -> None:
        """Note steps that may be asked for next, to read what is to be known of all of them at once."""
        with self._lock:
            unread = (step for step in steps if step.step_number not in self._touched)
            self._expected |= {step.step_number or 0 for step in unread if _may_touch(step)}

    def _read(self, number: int) -> None:
        expected, self._expected = self._expected | {number}, frozenset()
        touched: dict[int, list[tuple[int, str]]] = {new: [] for new in expected if new not in self._touched}
        notes = self._journal.file_notes([*touched])
        for note in notes:
            if note.step in touched:
                touched[note.step].append((note.call, note.path))
        self._take(notes_by_path(note for note in notes if note.step <= self._until))
        self._touched |= touched

    def _take(self, notes: Mapping[str, list[FileNote]]) -> None:
        """Put these notes in the place of those of the same paths."""
        new = {path: some for path, some in notes.items() if self._notes.get(path) != some}
        self._notes |= new
        for path in chain.from_iterable(self._inside.pop(path, ()) for path in new):
            self._versions.pop(path, None)
        if new:
            self._found = {}

    def since(self, step: Step, parts: Sequence[Part], place: int, start: int, end: int) -> Change:
        """Return what changed since of `[start, end)` in the part at a `place` of the `parts` of a step."""
        number = step.step_number or 0
        if parts[place].kind not in SHOWING:
            return NOTHING
        if number not in self._touched and not _may_touch(step):
            return NOTHING
        with self._lock:
            if self._is_behind:
                self._follow()
            if number not in self._touched:
                self._read(number)
            if not (touched := self._touched.get(number)):
                return NOTHING
            key = number, place, start, end
            if key not in self._found:
                self._found[key] = self._find(number, step, parts, place, start, end, touched)
            return self._found[key]

    def marks_of(self, step: Step) -> list[str]:
        """Return what says which later steps changed lines that a step shows, and which passed where it failed."""
        self.follow()
        parts = step.parts()
        changes = [self.since(step, parts, place, 0, len(part.text)) for place, part in enumerate(parts)]
        spans = [span for change in changes for span in change.spans]
        marks = dict.fromkeys(f"in part {mark}" if first < last else mark for first, last, mark in spans)
        return [mark for mark in marks if not mark.endswith(f"#{step.step_number}")]

    def _find(
        self, number: int, step: Step, parts: Sequence[Part], place: int, start: int, end: int,
        touched: Sequence[tuple[int, str]],
    ) -> Change:  # fmt: skip
        call = _call_of(step, parts, place)
        files = [(at, path) for at, path in touched if not path.startswith(RUN)]
        change = self._find_gone(number, call, parts[place], start, end, files) if files else NOTHING
        if parts[place].kind == "call":
            return change
        ends = [self._notes.get(path, []) for at, path in touched if at == call and path.startswith(RUN)]
        later = next(filter(None, (mark_of_pass(notes, number) for notes in ends)), "")
        return change._replace(spans=((start, start, later), *change.spans)) if later else change

    def _find_gone(
        self, number: int, call: int, part: Part, start: int, end: int, files: Sequence[tuple[int, str]]
    ) -> Change:
        text = part.text
        own, others = (
            {path: self._version(path) for at, path in files if (at == call) is is_own} for is_own in (True, False)
        )
        is_call = part.kind == "call"  # it shows what it took away itself, too
        spans, newest, gone, said, unsure = list[Span](), 0, 0, 0, 0
        lines = lines_of_part(part, start, end)
        pieces = {piece for version in own.values() for piece in version.pieces()}
        inside = pieces_in_lines([line.text for line in lines], pieces) if pieces else {}
        for at, line in enumerate(lines):
            first, last = max(line.start, start), min(line.end, end)
            if text[first:last].isspace():  # the indent of a line that the next passage has
                continue
            said += last - first
            note = _gone_since(line.code, number, own.values(), () if is_call else others.values(), inside.get(at, ()))
            if note is None or note.step < number or (note.step == number and not is_call):
                is_unsure = any(version.may_have_lost(line.code) for version in own.values())
                unsure += is_unsure * (last - first)
                continue
            gone, newest = gone + last - first, max(newest, note.step)
            spans.append((first, last, mark_of(note)))
        return Change((*joined(spans, text),), newest, said - gone < LEAST * said, 2 * unsure > said - gone)

    def versions_of(self, step: Step, parts: Sequence[Part], place: int) -> dict[str, Version]:
        """Return by their paths the files that the part at a `place` of a step shows, once `since` was asked of it."""
        with self._lock:
            touched = self._touched.get(step.step_number or 0) or []
            if not touched or parts[place].kind not in ("call", "observation"):
                return {}
            call = _call_of(step, parts, place)
            files = {path for at, path in touched if at == call and path and not path.startswith(RUN)}
            return {path: self._version(path) for path in sorted(files)}

    def _version(self, path: str) -> Version:
        if path not in self._versions:
            names = folders_of([path])
            notes = (note for name in names for note in self._notes.get(name, ()))
            self._versions[path] = Version(sorted(notes))
            for name in names:
                self._inside.setdefault(name, set()).add(path)
        return self._versions[path]


def lines_of_part(part: Part, start: int, end: int) -> list[ShownLine]:
    """Return the lines of files that reach into `[start, end)` of a call or of its result."""
    is_json = part.kind == "call" or text_of_result(part.text) is not part.text
    return [*(lines_in_json if is_json else lines_in_text)(part.text, start, end)]


def _gone_since(
    code: int, step: int, own: Iterable[Version], others: Iterable[Version], inside: Collection[Piece]
) -> FileNote | None:
    """Return the note since which a line is gone from all files of its call; None where it stands, or may stand.

    Parallel calls may have come with each other's results: then an edit of one of the `others` tells.
    """
    known = [version for version in own if version.knows(code)]
    sinces = [version.gone_since(code, inside) for version in known]
    if sinces and None not in sinces:
        return max(filter(None, sinces))
    if all(version.is_only_in(code, step) for version in known):
        return next(filter(None, (version.gone_unseen(code, step) for version in others)), None)
    return None


def joined(spans: Iterable[Span], text: str) -> Iterator[Span]:
    """Yield the spans of a text, in order, those with nothing between them as one: it has the mark of the last.

    An empty one says what passed later, and stays.
    """
    last: Span | None = None
    for span in spans:
        if last is not None and last[0] < last[1] and _NOTHING.fullmatch(text, last[1], span[0]):
            span = last[0], *span[1:]
        elif last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def notes_by_path(notes: Iterable[FileNote]) -> dict[str, list[FileNote]]:
    """Return notes by the paths of their files."""
    found: dict[str, list[FileNote]] = {}
    for note in notes:
        found.setdefault(note.path, []).append(note)
    return found


def mark_of(note: FileNote) -> str:
    """Return what stands in the place of lines that are gone since a note."""
    return f"changed since, see #{note.step}" if note.kind == READ else f"changed by #{note.step}"


def _may_touch(step: Step) -> bool:
    if isinstance(step, ActionStep):
        return any(may_touch(call) or may_have_failed(call) for call in step.tool_calls)
    return isinstance(step, MessageStep) and bool(step.tool_call_id)


def _call_of(step: Step, parts: Sequence[Part], place: int) -> int:
    """Return the place of the call that a part is of, or the result of; -1 for none."""
    part = parts[place]
    if not isinstance(step, ActionStep):
        return 0
    if part.kind == "call":
        return sum(one.kind == "call" for one in parts[:place])
    results = step.results
    if part.kind not in SHOWING or part.message > len(results):
        return -1
    return next(at for at, call in enumerate(step.tool_calls) if call is results[part.message - 1])
