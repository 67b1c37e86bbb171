"""Versions of a file, from what steps did to it: which lines stood in it once and do no more."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Set

from tinymem.protocols import FileNote
from tinymem.recall.files.acts import EDITED, READ, REPLACED, RESET, SEEN, WROTE
from tinymem.recall.files.lines import unpack_codes
from tinymem.recall.files.pieces import Piece, Replacement

__all__ = ["Version"]

MOST_REPLACED = 200  # newest replacements of pieces that lines are compared with; after older ones any line may stand
ALIKE = 0.3  # share of its lines that a file keeps between two reads, or somebody else has rewritten it


class Version:
    """A file as its `notes`, in order, leave it."""

    def __init__(self, notes: Iterable[FileNote]) -> None:
        self._last: dict[int, int] = {}  # by line: the place of the last note that shows it,
        self._gone: dict[int, int] = {}  # and of the last one that takes it away
        self._replaced: list[tuple[int, Replacement]] = []  # with the places of their notes
        self._is_whole = False  # whether the last edit was of lines that are known
        self._whole: list[int] = []  # places of the notes that say what all lines are
        self._notes = [*notes]
        self._copies: Counter[int] = Counter()  # of each line, as far as they are known
        self._doubted: Set[int] = frozenset()
        self._sure = 0  # the place from which on it is known what stands there
        self._unknown = -1  # the place of the last note that says that nobody knows
        for place, note in enumerate(self._notes):
            self._take(place, note)
        older, self._replaced = self._replaced[:-MOST_REPLACED], self._replaced[-MOST_REPLACED:]
        self._compared_since = older[-1][0] if older else -1
        remade = [place for place, change in self._replaced if change.may_make(())]
        self._remade = remade[-1] if remade else self._compared_since  # the last place where any line may have come

    def _take(self, place: int, note: FileNote) -> None:
        lines, copies = unpack_codes(note.lines), self._copies
        if note.kind == REPLACED:
            change = Replacement.unpack(lines, unpack_codes(note.gone))
            if not (change.is_once and self._is_whole):
                self._replaced.append((place, change))
            return
        if note.kind == READ and self._is_another(lines):
            return
        if note.kind in (READ, WROTE):
            self._whole.append(place)
            self._copies = Counter(lines)
        elif note.kind == EDITED:
            went = Counter(unpack_codes(note.gone))
            self._is_whole = any(copies[code] > 0 for code in went)
            for code, count in went.items():
                if copies[code] <= count:
                    self._gone[code] = place
                copies[code] = max(0, copies[code] - count)
            copies.update(lines)
        elif note.kind == SEEN:
            copies.update({code: max(0, count - copies[code]) for code, count in Counter(lines).items()})
        else:
            copies.clear()
            self._unknown = place
            self._sure = place + 1 if note.kind == RESET else self._sure
        self._last.update(dict.fromkeys(lines, place))

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

    def pieces(self) -> Iterable[Piece]:
        """Yield the pieces that may stand in lines, for `gone_since`."""
        for _, change in self._replaced:
            yield change.old
            yield from change.new

    def gone_since(self, code: int, inside: Collection[Piece] = ()) -> FileNote | None:
        """Return the note since which a line is gone; None where it stands there, or that is not sure.

        `inside` are those of the `pieces` that stand in it.
        """
        last, gone = self._last.get(code, -1), self._gone.get(code, -1)
        last = max(last, self._compared_since if inside else self._remade)
        for place, change in self._replaced if inside else ():
            if place > last and change.takes(inside):
                gone = max(gone, place)
            elif place > last and change.may_make(inside):
                last = place
        if gone > last and gone >= self._sure:
            return self._notes[gone]
        at = bisect_left(self._whole, max(last + 1, self._sure))
        return self._notes[self._whole[at]] if self.knows(code) and at < len(self._whole) else None


def _are_alike(some: Set[int], others: Set[int]) -> bool:
    return bool(others) and len(some & others) >= ALIKE * min(len(some), len(others))
