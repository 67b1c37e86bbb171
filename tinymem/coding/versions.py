"""Versions of a file, from what steps did to it: which lines stood in it once and do no more, and since when."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from tinymem.coding.acts import EDITED, READ, RESET, SEEN, WROTE, FileNote, folders_of

__all__ = ["Version", "version_of"]


class Version:
    """A file as its `notes`, in order, leave it."""

    def __init__(self, notes: Sequence[FileNote]) -> None:
        self._notes = notes
        self._last: dict[int, int] = {}  # by line: the place of the last note that shows it,
        self._gone: dict[int, int] = {}  # and of the last one that takes it away
        self._whole: list[int] = []  # places of the notes that say what all lines are
        self._copies: Counter[int] = Counter()  # of each line, as far as they are known
        self._sure = 0  # the place from which on it is known what stands there
        for place, note in enumerate(notes):
            self._take(place, note)

    def _take(self, place: int, note: FileNote) -> None:
        _, kind, lines, gone = note.act
        if kind == READ and self._copies and self._copies.keys().isdisjoint(lines):
            return  # it shows nothing of what is known: the result of another call, most likely
        if kind in (READ, WROTE):
            self._whole.append(place)
            self._copies = Counter(lines)
        elif kind == EDITED:
            self._copies.subtract(gone)
            for code in {*gone}:
                if self._copies[code] <= 0:
                    del self._copies[code]
                    self._gone[code] = place
            self._copies.update(lines)
        elif kind == SEEN:
            for code, count in Counter(lines).items():
                self._copies[code] = max(count, self._copies[code])
        elif kind == RESET:
            self._copies.clear()
            self._sure = place + 1
        self._last |= dict.fromkeys(lines, place)

    def knows(self, code: int) -> bool:
        """Return whether a line stands, or stood, in the file."""
        return code in self._last or code in self._gone

    def gone_since(self, code: int) -> FileNote | None:
        """Return the note since which a line that it knows is gone; None where it stands, or may stand."""
        last, gone = self._last.get(code, -1), self._gone.get(code, -1)
        begin = max(last + 1, self._sure)
        if gone >= begin:
            return self._notes[gone]
        next_whole = bisect_left(self._whole, begin)
        return self._notes[self._whole[next_whole]] if next_whole < len(self._whole) else None


def version_of(path: str, notes: dict[str, list[FileNote]]) -> Version:
    """Return the version of the file at a `path`, by the notes of each path, those of its folders included."""
    return Version(sorted(chain.from_iterable(notes.get(name, ()) for name in folders_of([path]))))
