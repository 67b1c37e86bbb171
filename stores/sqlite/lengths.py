"""The number of terms of each passage of a full-text index, read when it is first asked for."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids

__all__ = ["Lengths"]

# Internal tables of FTS5, which it documents: sizes as varints, and in one row the number of rows and their sum.
# One text takes half the time of rows, and much less memory.
LISTED = "SELECT group_concat(id), group_concat(hex(sz), '') FROM "
NEW = f"{LISTED} (SELECT id, sz FROM fulltext_docsize WHERE id > ? ORDER BY id LIMIT 65536)"
SOME = f"{LISTED} (SELECT id, sz FROM fulltext_docsize WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id)"
LAST = "SELECT max(id) FROM fulltext_docsize"
LARGEST = 1 << 28  # a larger id is damaged; the array has a place for each id up to the highest
AVERAGES = "SELECT block FROM fulltext_data WHERE id = 1"


class Lengths:
    """`count` passages, of `total` terms in sum; their ids are below `end`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._clear()

    def _clear(self) -> None:
        self._known: npt.NDArray[np.int32] = np.zeros(0, np.int32)  # by id: the length plus 1, and 0 for an unread one
        self.count, self.total, self.end = 0, 0, 0

    def of(self, ids: Ids) -> Ids:
        """Return the lengths of passages; sqlite3.DatabaseError if the database lacks one, since it is damaged."""
        self._make_room(int(ids.max(initial=-1)) + 1)
        if len(unread := np.unique(ids[self._known[ids] == 0])):
            listed = self._db.execute(SOME, (json.dumps(unread.tolist()),)).fetchone()
            if len(self._note(*listed)[0]) < len(unread):
                raise sqlite3.DatabaseError("the full-text index has terms of a passage without a length")
        lengths: Ids = self._known[ids].astype(np.int64) - 1
        return lengths

    def find_ids_from(self, id: int) -> set[int]:
        """Return the ids of the passages from this one on, if they came since the first `refresh`."""
        return {*(id + np.flatnonzero(self._known[id : self.end])).tolist()}

    def refresh(self) -> bool:
        """Update from the database; return True if passages were removed, so that nothing is known of any."""
        if is_new := self.end == 0:
            self._begin()
        else:
            self.read_new()
        if is_new or (self.count, self.total) == self._averages():
            return False
        self._clear()
        self._begin()
        return True

    def _begin(self) -> None:
        (last,) = self._db.execute(LAST).fetchone()
        self.end = 0 if last is None else _checked(last) + 1
        self.count, self.total = self._averages()

    def _averages(self) -> tuple[int, int]:
        row = self._db.execute(AVERAGES).fetchone()
        count, total = _varints(row[0])[:2].tolist() if row and row[0] else (0, 0)
        return count, total

    def read_new(self) -> None:
        """Read the lengths of the passages from `end` on."""
        while (row := self._db.execute(NEW, (self.end - 1,)).fetchone())[0] is not None:
            ids, sizes = self._note(*row)
            self.count, self.total, self.end = self.count + len(ids), self.total + int(sizes.sum()), int(ids[-1]) + 1

    def _note(self, listed: str | None, hexed: str | None) -> tuple[Ids, Ids]:
        """Keep the sizes of passages as the database lists them, and return ids and sizes."""
        ids = np.fromstring(listed or "", np.int64, sep=",")
        sizes = _varints(bytes.fromhex(hexed or ""))
        if len(ids) != len(sizes):
            raise sqlite3.DatabaseError("a passage's length in the full-text index is no number")
        self._make_room(_checked(int(ids.max(initial=0))) + 1)
        self._known[ids] = sizes + 1
        return ids, sizes

    def _make_room(self, end: int) -> None:
        if end > len(self._known):
            grown = np.zeros(max(end, self.end, len(self._known) + len(self._known) // 8), np.int32)
            grown[: len(self._known)] = self._known
            self._known = grown


def _checked(id: int) -> int:
    if not 0 <= id < LARGEST:
        raise sqlite3.DatabaseError(f"a passage in the full-text index has the id {id}")
    return id


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
