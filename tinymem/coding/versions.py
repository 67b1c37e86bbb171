"""Versions of a file, from what steps did to it: which lines stood in it once and do no more, and since when."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Set
from itertools import chain

from tinymem.coding.acts import EDITED, READ, RESET, SEEN, WROTE, FileNote, folders_of
from tinymem.coding.lines import unpack_codes

__all__ = ["Version", "version_of"]

ALIKE = 0.3  # share of its lines that a file keeps between two reads, or somebody else has rewritten it


class Version:
    """A file as its `notes`, in order, leave it."""

    def __init__(self, notes: Iterable[FileNote]) -> None:
        self._notes = [*notes]
        self._last: dict[int, int] = {}  # by line: the place of the last note that shows it,
        self._gone: dict[int, int] = {}  # and of the last one that takes it away
        self._whole: list[int] = []  # places of the notes that say what all lines are
        self._copies: Counter[int] = Counter()  # of each line, as far as they are known
        self._doubted: Set[int] = frozenset()
        self._sure = 0  # the place from which on it is known what stands there
        for place, note in enumerate(self._notes):
            self._take(place, note)

    def _take(self, place: int, note: FileNote) -> None:
        lines, gone, copies = unpack_codes(note.lines), unpack_codes(note.gone), self._copies
        if note.kind == READ and self._is_another(lines):
            return
        if note.kind in (READ, WROTE):
            self._whole.append(place)
            self._copies = Counter(lines)
        elif note.kind == EDITED:
            for code, count in Counter(gone).items():
                if copies[code] <= count:
                    self._gone[code] = place
                copies[code] = max(0, copies[code] - count)
            copies.update(lines)
        elif note.kind == SEEN:
            copies.update({code: max(0, count - copies[code]) for code, count in Counter(lines).items()})
        elif note.kind == RESET:
            copies.clear()
            self._sure = place + 1
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

    def knows(self, code: int) -> bool:
        """Return whether a line stands, or stood, in the file."""
        return code in self._last or code in self._gone

    def gone_since(self, code: int) -> FileNote | None:
        """Return the note since which a line is gone; None where it stands, or may stand."""
        last, gone = self._last.get(code, -1), self._gone.get(code, -1)
        if gone > last and gone >= self._sure:
            return self._notes[gone]
        next_whole = bisect_left(self._whole, max(last + 1, self._sure))
        is_missing = self.knows(code) and next_whole < len(self._whole)
        return self._notes[self._whole[next_whole]] if is_missing else None


def _are_alike(lines: Set[int], others: Set[int]) -> bool:
    return bool(others) and len(lines & others) >= ALIKE * min(len(lines), len(others))


def version_of(path: str, notes: dict[str, list[FileNote]]) -> Version:
    """Return the version of the file at a `path`, by the notes of each path, those of its folders included."""
    return Version(sorted(chain.from_iterable(notes.get(name, ()) for name in folders_of([path]))))
