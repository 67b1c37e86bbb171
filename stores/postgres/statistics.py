"""Statistics over all passages that a slice of them needs: counts of tokens and identifiers, kept up with passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinymem.protocols import PassageRow, TokenIds
from tinymem.stores.postgres.database import Database

__all__ = ["Statistics"]

ACTS = frozenset({"thought", "call", "code", "signal", "planning", "scratchpad"})  # as is_act has it in SQL

_MORE_TOKENS = (
    "INSERT INTO tokens SELECT %s, * FROM unnest(%s::bigint[], %s::bigint[]) "
    "ON CONFLICT (namespace, token) DO UPDATE SET passages = tokens.passages + excluded.passages"
)
_MORE_IDENTIFIERS = (
    "INSERT INTO identifiers SELECT %s, * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) "
    "ON CONFLICT (namespace, code) DO UPDATE SET passages = identifiers.passages + excluded.passages, "
    "typed = coalesce(identifiers.typed, excluded.typed)"
)
_GOING = "SELECT id, tokens, identifiers FROM passages WHERE namespace = %s AND step = ANY(%s::bigint[]) ORDER BY id"
_FEWER = (
    "UPDATE {table} t SET passages = t.passages - n.times FROM unnest(%s::bigint[], %s::bigint[]) n(value, times) "
    "WHERE t.namespace = %s AND t.{column} = n.value"
)
_NONE = "DELETE FROM {table} WHERE namespace = %s AND {column} = ANY(%s::bigint[]) AND passages <= 0"
_NEW_FIRST = """
UPDATE identifiers i SET first = h.first, typed = h.typed FROM holders(%(ns)s, ARRAY(
    SELECT code FROM identifiers WHERE namespace = %(ns)s AND code = ANY(%(codes)s::bigint[])
    AND (first = ANY(%(ids)s::bigint[]) OR typed = ANY(%(ids)s::bigint[]))), 0) h
WHERE i.namespace = %(ns)s AND i.code = h.code
"""
_COUNTED = {"tokens": "token, passages", "identifiers": "code, passages, first, typed"}


class Statistics(Database):
    """The tables `tokens` and `identifiers`."""

    def _count(self, passages: Sequence[tuple[int, PassageRow]], tokens: Sequence[TokenIds]) -> None:
        """Count passages, given with their ids, in the transaction."""
        times = Counter[int]()
        for some in tokens:
            times.update(set(some.tolist()))
        if times:
            self._write(_MORE_TOKENS, self._id, list(times), list(times.values()))
        found: dict[int, list[Any]] = {}  # how many passages have it, the first, and the first that typed it
        for id, passage in passages:
            is_act = passage.kind in ACTS
            for code in _codes(passage.identifiers):
                held = found.setdefault(code, [0, id, None])
                held[0] += 1
                held[2] = held[2] or (id if is_act else None)
        if found:
            columns = [list(column) for column in zip(*found.values(), strict=True)]
            self._write(_MORE_IDENTIFIERS, self._id, list(found), *columns)

    def _leave_out(self, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
        """Lower the counts by the passages of these steps; return the passages, and their identifiers."""
        times: dict[str, Counter[int]] = {"tokens": Counter(), "identifiers": Counter()}
        ids = []
        for id, tokens, identifiers in self._read(_GOING, (self._id, list(numbers))):
            ids.append(id)
            times["tokens"].update(set(np.frombuffer(tokens, "<u2").tolist()))
            times["identifiers"].update(_codes(identifiers))
        for table, column in (("tokens", "token"), ("identifiers", "code")):
            values = list(times[table])
            place = {"table": table, "column": column}
            self._write(_FEWER.format(**place), values, list(times[table].values()), self._id)
            self._write(_NONE.format(**place), self._id, values)
        return ids, list(times["identifiers"])

    def _find_first(self, ids: Sequence[int], codes: Sequence[int]) -> None:
        """Note which passages have identifiers first, once the passages `ids` are gone that had them."""
        self._write_named(_NEW_FIRST, {"ns": self._id, "ids": list(ids), "codes": list(codes)})

    def _recount(self, *tables: str) -> None:
        """Count all passages again."""
        for table in tables:
            self._write(f"DELETE FROM {table} WHERE namespace = %s", self._id)
            self._write(f"INSERT INTO {table} SELECT %s, * FROM counted_{table}(%s)", self._id, self._id)

    def _miscounted(self) -> int:
        """Count the tokens and identifiers whose counts are not those of the passages."""
        differing = (
            "SELECT count(*) FROM (SELECT {columns} FROM counted_{table}(%(ns)s) EXCEPT "
            "SELECT {columns} FROM {table} WHERE namespace = %(ns)s UNION ALL "
            "(SELECT {columns} FROM {table} WHERE namespace = %(ns)s EXCEPT "
            "SELECT {columns} FROM counted_{table}(%(ns)s))) d"
        )
        return sum(
            self._number(differing.format(table=table, columns=columns), {"ns": self._id})
            for table, columns in _COUNTED.items()
        )


def _codes(identifiers: bytes) -> set[int]:
    """Return the distinct identifiers of a passage; 0 is none."""
    return set(np.frombuffer(identifiers, "<u4").tolist()) - {0}
