"""Versions of a file, from what steps did to it: which lines stood in it once and do no more, and since when."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Set
from itertools import chain
from typing import NamedTuple

from tinymem.protocols import FileNote
from tinymem.recall.files.acts import EDITED, READ, REPLACED, RESET, SEEN, UNKNOWN, WROTE
from tinymem.recall.files.lines import unpack_codes, without_number
from tinymem.stores.filter import folders_of

__all__ = ["Version", "notes_by_path", "version_of"]

MOST_REPLACED = 200  # newest replacements of pieces that lines are compared with; after older ones any line may stand
ALIKE = 0.3  # share of its lines that a file keeps between two reads, or somebody else has rewritten it


class _Replacement(NamedTuple):
    """A piece of lines that was replaced in all of them.

    `place` is that of its note, `made` are the lines that it made, as far as they have the old piece or are the edges
    of the new text; "" stands for any line. With `is_kept` the old piece stands in the new text, too.
    """

    place: int
    old: str
    made: list[str]
    is_kept: bool

    def takes(self, line: str) -> bool:
        """Return whether a line stands no more after it."""
        return self.old in line and not (self.is_kept and self.may_make(line))

    def may_make(self, line: str) -> bool:
        """Return whether a line may stand since then."""
        return any(piece in line for piece in self.made)


class Version:
    """A file as its `notes`, in order, leave it."""

    def __init__(self, notes: Iterable[FileNote]) -> None:
        self._notes = [*notes]
        self._last: dict[int, int] = {}  # by line: the place of the last note that shows it,
        self._gone: dict[int, int] = {}  # and of the last one that takes it away
        self._replaced: list[_Replacement] = []
        self._is_whole = False  # whether the last edit was of lines that are known
        self._whole: list[int] = []  # places of the notes that say what all lines are
        self._copies: Counter[int] = Counter()  # of each line, as far as they are known
        self._doubted: Set[int] = frozenset()
        self._sure = 0  # the place from which on it is known what stands there
        self._unknown = -1  # the place of the last note that says that nobody knows
        for place, note in enumerate(self._notes):
            self._take(place, note)
        older = self._replaced[:-MOST_REPLACED]
        self._compared_since = older[-1].place if older else -1

    def _take(self, place: int, note: FileNote) -> None:
        lines, gone, copies = unpack_codes(note.lines), unpack_codes(note.gone), self._copies
        if note.kind == REPLACED:
            is_once, is_kept, *old = gone
            if not (is_once and self._is_whole):
                made = _text(lines).split("\n")
                self._replaced.append(_Replacement(place, _text(old), made, bool(is_kept)))
            return
        if note.kind == READ and self._is_another(lines):
            return
        if note.kind in (READ, WROTE):
            self._whole.append(place)
            self._copies = Counter(lines)
        elif note.kind == EDITED:
            self._is_whole = any(copies[code] for code in gone)
            for code, count in Counter(gone).items():
                if copies[code] <= count:
                    self._gone[code] = place
                copies[code] = max(0, copies[code] - count)
            copies.update(lines)
        elif note.kind == SEEN:
            copies.update({code: max(0, count - copies[code]) for code, count in Counter(lines).items()})
        elif note.kind in (UNKNOWN, RESET):
            copies.clear()
            self._unknown = place
            self._sure = place + 1 if note.kind == RESET else self._sure
        self._last |= dict.fromkeys(lines, place)

    def _is_another(self, lines: Iterable[int]) -> bool:
        """Return whether a read shows about nothing of what is known: the result of another call, most likely.

        If a second one shows the same, somebody else wrote the file.
        """
        shown = frozenset(lines)
        if not self._copies or _are_alike(shown, self._copies.keys()) or _are_alike(shown, self._doubted):
            return False
        self._doubted = shown
        return True

    def is_only_in(self, code: int, step: int) -> bool:
        """Return whether a step was the last to show a line."""
        return code in self._last and self._notes[self._last[code]].step == step

    def gone_unseen(self, code: int, step: int) -> FileNote | None:
        """Return the edit that took away a line that no call showed in this file; a whole read in a `step` should have.

        So the result of that read was given to another call of the step.
        """
        gone = self._gone.get(code, -1)
        if code in self._last or gone < self._sure:
            return None
        return self._notes[gone] if any((note.kind, note.step) == (READ, step) for note in self._notes) else None

    def knows(self, code: int) -> bool:
        """Return whether a line stands, or stood, in the file."""
        return code in self._last or code in self._gone

    def may_have_lost(self, code: int) -> bool:
        """Return whether something changed the file, nobody knows how, since a line was shown."""
        return self._last.get(code, self._unknown) < self._unknown

    def gone_since(self, code: int, text: str = "") -> FileNote | None:
        """Return the note since which a line is gone that says `text`; None where it stands, or may stand."""
        last, gone = max(self._last.get(code, -1), self._compared_since), self._gone.get(code, -1)
        line = without_number(text) if self._replaced else text
        for change in self._replaced[-MOST_REPLACED:]:
            if change.place > last and change.takes(line):
                gone = max(gone, change.place)
            elif change.place > last and change.may_make(line):
                last = change.place
        if gone > last and gone >= self._sure:
            return self._notes[gone]
        next_whole = bisect_left(self._whole, max(last + 1, self._sure))
        is_missing = self.knows(code) and next_whole < len(self._whole)
        return self._notes[self._whole[next_whole]] if is_missing else None


def _text(codes: Iterable[int]) -> str:
    return "".join(map(chr, codes))


def _are_alike(lines: Set[int], others: Set[int]) -> bool:
    return bool(others) and len(lines & others) >= ALIKE * min(len(lines), len(others))


def notes_by_path(notes: Iterable[FileNote]) -> dict[str, list[FileNote]]:
    """Return notes by the paths of their files."""
    found: dict[str, list[FileNote]] = {}
    for note in notes:
        found.setdefault(note.path, []).append(note)
    return found


def version_of(path: str, notes: dict[str, list[FileNote]]) -> Version:
    """Return the version of the file at a `path`, by the notes of each path, those of its folders included."""
    return Version(sorted(chain.from_iterable(notes.get(name, ()) for name in folders_of([path]))))
