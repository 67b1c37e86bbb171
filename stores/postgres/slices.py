"""Slices of a large namespace: the passages that recall looks at closely, found by the server.

Words are found by the GIN index, identifiers by another one, and vectors as `nearest` says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from tinymem.protocols import EmbeddedPassage, Ids, Slice, Sought, Survey
from tinymem.stores.bm25 import Occurrences, ranked
from tinymem.stores.postgres.errors import guarded
from tinymem.stores.postgres.fulltext import occurrences_of
from tinymem.stores.postgres.nearest import BREADTH, FEW, STEPS, conditions, index_name, nearest
from tinymem.stores.postgres.passages import COLUMNS, Passages
from tinymem.stores.postgres.values import halves

__all__ = ["Slices"]

_SURVEY = """
WITH RECURSIVE speaking AS (
    (SELECT speaker FROM steps WHERE namespace = %(ns)s AND speaker IS NOT NULL ORDER BY speaker LIMIT 1)
    UNION ALL
    SELECT (SELECT s.speaker FROM steps s WHERE s.namespace = %(ns)s AND s.speaker > n.speaker
        ORDER BY s.speaker LIMIT 1) FROM speaking n WHERE n.speaker IS NOT NULL)
SELECT coalesce((SELECT min(time) FROM steps WHERE namespace = %(ns)s), 0),
    coalesce((SELECT max(time) FROM steps WHERE namespace = %(ns)s), 0),
    (SELECT array_agg(speaker) FROM speaking WHERE speaker IS NOT NULL),
    EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%(index)s) AND indisvalid)
"""
_LIMITED = f"SELECT count(*) FROM passages p {STEPS} WHERE p.namespace = %(ns)s AND {{where}}"
_TOKENS = "SELECT token, passages FROM tokens WHERE namespace = %(ns)s AND token = ANY(%(tokens)s::bigint[])"
_NAMED = """
SELECT i.code, i.passages, h.ids FROM identifiers i LEFT JOIN LATERAL holders(
    %(ns)s, CASE WHEN i.passages <= %(most)s THEN ARRAY[i.code] ELSE '{}' END, %(most)s) h ON true
WHERE i.namespace = %(ns)s AND i.code = ANY(%(codes)s::bigint[])
"""
_HIDDEN = "SELECT id FROM passages WHERE namespace = %(ns)s AND step = ANY(%(hidden)s::bigint[])"
_AMONG = f"""
SELECT p.id FROM passages p {STEPS} WHERE p.namespace = %(ns)s AND p.id = ANY(%(ids)s::bigint[]) AND {{where}}
"""
_BESIDE = """
CROSS JOIN LATERAL (
    (SELECT step FROM passages WHERE namespace = %(ns)s AND step < {0}.step ORDER BY step DESC LIMIT 1)
    UNION ALL
    (SELECT step FROM passages WHERE namespace = %(ns)s AND step > {0}.step ORDER BY step LIMIT 1)) beside
"""
# The steps around the best are candidates as well, and of each candidate the steps around it count. With OFFSET 0 the
# planner takes the indexes, whatever it knows of the tables.
_SLICE = f"""
WITH best AS MATERIALIZED (
    SELECT DISTINCT step FROM passages WHERE namespace = %(ns)s AND id = ANY(%(best)s::bigint[])),
chosen AS MATERIALIZED (
    SELECT step FROM passages WHERE namespace = %(ns)s AND id = ANY(%(ids)s::bigint[])
    UNION SELECT beside.step FROM best {_BESIDE.format("best")}),
shown AS MATERIALIZED (SELECT step, bool_or(is_chosen) AS is_chosen FROM (
    SELECT step, true AS is_chosen FROM chosen
    UNION ALL SELECT beside.step, false FROM chosen {_BESIDE.format("chosen")}) every GROUP BY step)
SELECT {COLUMNS} FROM shown CROSS JOIN LATERAL (
    SELECT id, step, part, start, finish, kind, asks, vector, tools,
        CASE WHEN is_chosen THEN tokens ELSE '' END AS tokens,
        CASE WHEN is_chosen THEN identifiers ELSE '' END AS identifiers
    FROM passages WHERE namespace = %(ns)s AND step = shown.step OFFSET 0) p
CROSS JOIN LATERAL (SELECT * FROM steps WHERE namespace = %(ns)s AND number = shown.step OFFSET 0) s ORDER BY p.id
"""
_SEEN = "SELECT code, first, typed FROM identifiers WHERE namespace = %s AND code = ANY(%s::bigint[])"


class Slices(Passages):
    """The part of a large namespace that recall reads."""

    _is_indexed = False
    _surveyed: tuple[int, Survey | None] = -1, None  # by the version of the namespace

    def survey(self, more_than: int = 0) -> Survey | None:
        """Return what the analysis of a question needs to know of all steps; None if the passages are not so many."""
        with self._lock, guarded(self._location), self.snapshot():
            head = self._known()
            assert head is not None
            if head.passages <= more_than:
                return None
            if self._surveyed[0] != head.version or self._is_writing:
                values = {"ns": self._id, "index": f"tinymem.{index_name(self._id)}"}
                since, until, speakers, self._is_indexed = self._read(_SURVEY, values)[0]
                self._surveyed = head.version, Survey(head.passages, since, until, speakers or ())
            return self._surveyed[1]

    def sliced(self, sought: Sought) -> Slice:
        """Return the passages that are sought, all of their steps, and those of the steps before and after."""
        with self._lock, guarded(self._location):
            limits = conditions(sought.limits)
            share = self._share(limits)
            head, (_, texts, hidden, tokens, named, *near) = self._read_whole(*self._searches(sought, limits, share))
            found = [occurrences_of(columns) for _, *columns in texts]
            among = self._among(found, limits, [id for (id,) in hidden], bool(sought.hidden))
            lexical = ranked(found, head.passages, head.words / max(head.passages, 1) or 1.0, among)
            signals = [lexical[0].tolist()[: sought.best], *([id for (id,) in rows] for rows in near)]
            best = {id for ids in signals for id in ids[: sought.around]}
            counts = {code: passages for code, passages, _ in named}
            if sum(counts.values()) <= sought.most_named:
                signals.append([id for _, _, ids in named for id in ids or ()])
                best.update(signals[-1])
            ids = {id for some in signals for id in some}
            rows = self._read(_SLICE, {"ns": self._id, "ids": list(ids), "best": list(best)})
            passages = [*map(EmbeddedPassage._make, rows)]
            seen = self._seen(passages) if sought.is_stretch else ()
            return Slice(passages, lexical, share, dict(tokens), counts, seen)

    def _share(self, limits: tuple[str, Mapping[str, Any]]) -> float:
        """Return the share of all passages that are within the limits."""
        where, values = limits
        if not where:
            return 1.0
        return self._number(_LIMITED.format(where=where), {"ns": self._id, **values}) / max(self._passages, 1)

    @property
    def _passages(self) -> int:
        return self._surveyed[1].passages if self._surveyed[1] else 0

    def _searches(
        self, sought: Sought, limits: tuple[str, Mapping[str, Any]], share: float
    ) -> Iterator[tuple[str, Any]]:
        """Yield the statements of the first round trip."""
        values = {"ns": self._id, "hidden": list(sought.hidden), "tokens": sought.tokens.tolist()}
        stems, by_index = self._sought(sought.topic), self._is_indexed and share * self._passages > FEW
        yield BREADTH if by_index else ("SELECT 1", {})
        yield self._occurrences(stems, [0] * len(stems))
        yield _HIDDEN, values
        yield _TOKENS, values
        yield _NAMED, {"ns": self._id, "codes": sought.named.tolist(), "most": sought.most_named}
        place = self._id, halves(sought.vectors), sought.vectors.shape[1]
        yield nearest(*place, limits, sought.hidden, sought.best, by_index)
        where, given = limits
        if where:  # the closest of all is what the others are compared with
            yield nearest(*place, ("", {}), sought.hidden, 1, self._is_indexed)
        if sought.spans:
            spans = " OR ".join(f"(s.time >= %(from{at})s AND s.time < %(to{at})s)" for at in range(len(sought.spans)))
            for at, (start, end) in enumerate(sought.spans):
                given = {**given, f"from{at}": start, f"to{at}": end}
            dated = f"({spans})" + (f" AND {where}" if where else "")
            yield nearest(*place, (dated, given), sought.hidden, sought.best, False)

    def _among(
        self, found: list[Occurrences], limits: tuple[str, Mapping[str, Any]], hidden: list[int], hides: bool
    ) -> Ids | None:
        """Return those of the passages found that may come back, in order; None for all."""
        where, values = limits
        if not (where or hides):
            return None
        ids = np.unique(np.concatenate([np.zeros(0, np.int64), *(some.ids for some in found)]))
        if where:
            rows = self._read(_AMONG.format(where=where), {"ns": self._id, "ids": ids.tolist(), **values})
            ids = np.array(sorted(id for (id,) in rows), np.int64)
        return np.setdiff1d(ids, np.array(hidden, np.int64))

    def _seen(self, passages: Collection[EmbeddedPassage]) -> list[tuple[int, int, int | None]]:
        """Return where the identifiers of passages come up first."""
        codes = np.unique(np.frombuffer(b"".join(passage.identifiers for passage in passages), "<u4"))
        return self._read(_SEEN, (self._id, codes.tolist()))
