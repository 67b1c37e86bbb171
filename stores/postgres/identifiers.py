"""Counts of the identifiers in all passages, which a slice of them needs, kept up with the passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tinymem.protocols import PassageRow
from tinymem.stores.postgres.database import PostgresDatabase

__all__ = ["Identifiers"]

# as is_act has it in SQL
ACTS = frozenset({"thought", "announcement", "call", "code", "signal", "planning", "scratchpad"})

_MORE = (
    "INSERT INTO identifiers SELECT %s, * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) "
    "ON CONFLICT (namespace, code) DO UPDATE SET passages = identifiers.passages + excluded.passages, "
    "typed = coalesce(identifiers.typed, excluded.typed)"
)
_GOING = "SELECT id, identifiers FROM passages WHERE namespace = %s AND step = ANY(%s::bigint[]) ORDER BY id"
_FEWER = (
    "UPDATE identifiers i SET passages = i.passages - n.times FROM unnest(%s::bigint[], %s::bigint[]) n(code, times) "
    "WHERE i.namespace = %s AND i.code = n.code"
)
_NONE = "DELETE FROM identifiers WHERE namespace = %s AND code = ANY(%s::bigint[]) AND passages <= 0"
_NEW_FIRST = """
UPDATE identifiers i SET first = h.first, typed = h.typed FROM holders(%(ns)s, ARRAY(
    SELECT code FROM identifiers WHERE namespace = %(ns)s AND code = ANY(%(codes)s::bigint[])
    AND (first = ANY(%(ids)s::bigint[]) OR typed = ANY(%(ids)s::bigint[]))), 0) h
WHERE i.namespace = %(ns)s AND i.code = h.code
"""
_COUNTED = "SELECT code, passages, first, typed FROM counted_identifiers(%(ns)s)"
_HELD = "SELECT code, passages, first, typed FROM identifiers WHERE namespace = %(ns)s"
_MISCOUNTED = f"SELECT count(*) FROM ({_COUNTED} EXCEPT {_HELD} UNION ALL ({_HELD} EXCEPT {_COUNTED})) d"


class Identifiers:
    """The table `identifiers`, in the transactions of a journal."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database

    def add(self, passages: Iterable[tuple[int, PassageRow]]) -> None:
        """Count passages, given with their ids, in the transaction."""
        found: dict[int, list[Any]] = {}  # how many passages have it, the first, and the first that typed it
        for id, passage in passages:
            is_act = passage.kind in ACTS
            for code in _codes(passage.identifiers):
                counted = found.setdefault(code, [0, id, None])
                counted[0] += 1
                counted[2] = counted[2] or (id if is_act else None)
        if found:
            columns = [list(column) for column in zip(*found.values(), strict=True)]
            self._db.write(_MORE, self._db.id, list(found), *columns)

    def remove(self, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
        """Lower the counts by the passages of these steps; return the passages, and their identifiers."""
        times, ids = Counter[int](), []
        for id, identifiers in self._db.read(_GOING, (self._db.id, list(numbers))):
            ids.append(id)
            times.update(_codes(identifiers))
        codes = list(times)
        self._db.write(_FEWER, codes, list(times.values()), self._db.id)
        self._db.write(_NONE, self._db.id, codes)
        return ids, codes

    def find_first(self, ids: Sequence[int], codes: Sequence[int]) -> None:
        """Note which passages have identifiers first, once the passages `ids` are gone that had them."""
        self._db.write(_NEW_FIRST, ns=self._db.id, ids=list(ids), codes=list(codes))

    def recount(self) -> None:
        """Count all passages again."""
        self._db.write("DELETE FROM identifiers WHERE namespace = %s", self._db.id)
        self._db.write("INSERT INTO identifiers SELECT %s, * FROM counted_identifiers(%s)", self._db.id, self._db.id)

    def count_faults(self) -> int:
        """Count the identifiers whose counts are not those of the passages."""
        return self._db.read_number(_MISCOUNTED, {"ns": self._db.id})


def _codes(identifiers: bytes) -> set[int]:
    """Return the distinct identifiers of a passage; 0 is none."""
    return set(np.frombuffer(identifiers, "<u4").tolist()) - {0}
