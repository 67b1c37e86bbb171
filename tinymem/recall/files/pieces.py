"""Pieces of lines, known by their hashes: edits inside lines change each line that has one in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.recall.files.lines import without_number

__all__ = ["LONGEST", "Piece", "Replacement", "piece_of", "pieces_in_lines"]

LONGEST = 1_000  # characters of a piece
BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that each of its powers has an inverse
HALF = 0xFFFFFFFF

Piece: TypeAlias = tuple[int, int, int]  # its length, and both halves of its hash


class Replacement(NamedTuple):
    """A replacement of one piece in all lines that had it.

    Attributes:
        old: The piece that went.
        new: What came in its place; of several lines, the first, the last, and those that have the old one in them.
            An empty one may make any line.
        is_kept: The old one stands in the new text, too.
        is_once: There was one place, so that where it was a whole line, no other line changed.
    """

    old: Piece
    new: tuple[Piece, ...]
    is_kept: bool
    is_once: bool

    def pack(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the codes of what came and of what went."""
        return tuple(code for piece in self.new for code in piece), (*self.old, self.is_kept + 2 * self.is_once)

    @classmethod
    def unpack(cls, lines: Sequence[int], gone: Sequence[int]) -> Replacement:
        """Return the replacement that `pack` packed."""
        pieces = [(lines[at], lines[at + 1], lines[at + 2]) for at in range(0, len(lines) - 2, 3)]
        length, low, high, flags = gone
        return cls((length, low, high), (*pieces,), bool(flags & 1), bool(flags & 2))

    def takes(self, inside: Iterable[Piece]) -> bool:
        """Return whether a line with these pieces in it stands no more after it."""
        return self.old in inside and not (self.is_kept and self.may_make(inside))

    def may_make(self, inside: Iterable[Piece]) -> bool:
        """Return whether a line with these pieces in it may stand since then."""
        return any(piece in inside or not piece[0] for piece in self.new)


def piece_of(text: str) -> Piece:
    """Return a text as a piece."""
    hashed = int(_sums(_points(text))[-1])
    return len(text), hashed & HALF, hashed >> 32


def pieces_in_lines(lines: Sequence[str], pieces: Iterable[Piece]) -> dict[int, set[Piece]]:
    """Return, by the places of `lines`, the pieces that stand in them."""
    bare = [without_number(line) for line in lines]
    starts = np.cumsum([0, *(len(line) + 1 for line in bare)])
    points = _points("\n".join(bare))
    sums, powers = _sums(points), _powers(len(points) + 1)
    found: dict[int, set[Piece]] = {}
    for piece in {*pieces}:
        length, low, high = piece
        last = max(len(sums) - length, 0)
        is_there = sums[length:] - sums[:last] == np.uint64(high << 32 | low) * powers[:last]
        for place in np.searchsorted(starts, np.flatnonzero(is_there), side="right").tolist():
            found.setdefault(place - 1, set()).add(piece)
    return found


def _points(text: str) -> npt.NDArray[np.uint64]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)


def _powers(count: int) -> npt.NDArray[np.uint64]:
    factors = np.full(count, BASE)
    factors[:1] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _sums(points: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the hash of each beginning: `(n + 1,)`."""
    weighed = (points + np.uint64(1)) * _powers(len(points))
    return np.concatenate((np.zeros(1, np.uint64), np.cumsum(weighed, dtype=np.uint64)))
