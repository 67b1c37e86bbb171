"""The number of terms of each passage of a full-text index, as an array in memory that follows the database."""

from __future__ import annotations

import sqlite3

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids

__all__ = ["Lengths"]

# Internal tables of FTS5, which it documents: sizes as varints, and in one row the number of rows and their sum.
# One text takes half the time of rows, and much less memory.
SIZES = (
    "SELECT group_concat(id), group_concat(hex(sz), '') FROM "
    "(SELECT id, sz FROM fulltext_docsize WHERE id > ? ORDER BY id LIMIT 65536)"
)
LARGEST = 1 << 28  # a larger id is damaged; the array has a place for each id up to the highest
AVERAGES = "SELECT block FROM fulltext_data WHERE id = 1"


class Lengths:
    """`count` passages, of `mean` terms, `total` in sum; their ids are below `end`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._clear()

    def _clear(self) -> None:
        self._sizes: npt.NDArray[np.int32] = np.zeros(0, np.int32)  # by id
        self.count, self.total, self.end = 0, 0, 0

    @property
    def mean(self) -> float:
        """The mean length."""
        return self.total / max(self.count, 1)

    def of(self, ids: Ids) -> Ids:
        """Return the lengths of passages; sqlite3.DatabaseError if the database lacks one, since it is damaged."""
        if len(ids) and int(ids.max()) >= len(self._sizes):
            raise sqlite3.DatabaseError("the full-text index has terms of a passage without a length")
        lengths: Ids = self._sizes[ids].astype(np.int64)
        return lengths

    def held_from(self, id: int) -> set[int]:
        """Return the ids of the passages from this one on."""
        return {*(id + np.flatnonzero(self._sizes[id : self.end])).tolist()}

    def refresh(self) -> bool:
        """Update from the database; return True if passages were removed, so that all was read again."""
        row = self._db.execute(AVERAGES).fetchone()
        true = tuple(_varints(row[0])[:2].tolist()) if row and row[0] else (0, 0)
        self._extend()
        if (self.count, self.total) == true:
            return False
        self._clear()
        self._extend()
        return True

    def _extend(self) -> None:
        while (row := self._db.execute(SIZES, (self.end - 1,)).fetchone())[0] is not None:
            ids = np.fromstring(row[0], np.int64, sep=",")
            sizes = _varints(bytes.fromhex(row[1]))
            if not 0 < (end := int(ids[-1]) + 1) < LARGEST:
                raise ValueError(f"a passage has the id {ids[-1]}")
            if end > len(self._sizes):
                grown = np.zeros(max(end, len(self._sizes) + len(self._sizes) // 8), np.int32)
                grown[: self.end] = self._sizes[: self.end]
                self._sizes = grown
            self._sizes[ids] = sizes
            self.count, self.total, self.end = self.count + len(ids), self.total + int(sizes.sum()), end


def _varints(data: bytes) -> Ids:
    """Decode the varints in `data`: seven bits a byte, most significant first; bit 8 is set in all but the last."""
    raw = np.frombuffer(data, np.uint8)
    last = np.flatnonzero(raw < 128)
    first = np.concatenate([[0], last[:-1] + 1])
    numbers = np.zeros(len(last), np.int64)
    for place in range(int((last - first).max(initial=-1)) + 1):
        here = first + place <= last
        numbers[here] = (numbers[here] << 7) | (raw[first[here] + place] & 127)
    return numbers
