"""Slices of a large namespace: the passages that recall looks at closely, found by the server.

Words are found by the GIN index, identifiers by another one, and vectors as `nearest` says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tinymem.errors import warn_hourly
from tinymem.protocols import Facts, Finder, Ids, Slice, Sought
from tinymem.stores.bm25 import rank_passages
from tinymem.stores.filter import POSTGRES, Condition, Filter
from tinymem.stores.postgres import nearest as search
from tinymem.stores.postgres.database import PostgresDatabase
from tinymem.stores.postgres.fulltext import PostgresFullText, occurrences_of, unseen_in
from tinymem.stores.postgres.nearest import BREADTH, STEPS, index_name, within, within_spans
from tinymem.stores.postgres.server.columns import columns_of, columns_sql
from tinymem.stores.postgres.server.errors import guarded
from tinymem.stores.postgres.server.values import halves

__all__ = ["Slices"]

logger = logging.getLogger(__name__)
UNINDEXED = (
    "a recall compares its question with all %s vectors of %s: run `tinymem migrate URL` as the owner of the tables, "
    "which indexes them while others read and write"
)

IN_SLICES = 20_000  # passages from which on the server finds candidates: below, it is faster to have all of them here
NEAR = 2  # passages on either side of a candidate that recall looks at

_SURVEY = """
WITH RECURSIVE speaking AS (
    (SELECT speaker FROM steps WHERE namespace = %(ns)s AND speaker IS NOT NULL ORDER BY speaker LIMIT 1)
    UNION ALL
    SELECT (SELECT s.speaker FROM steps s WHERE s.namespace = %(ns)s AND s.speaker > n.speaker
        ORDER BY s.speaker LIMIT 1) FROM speaking n WHERE n.speaker IS NOT NULL)
SELECT coalesce((SELECT min(time) FROM steps WHERE namespace = %(ns)s), 0),
    coalesce((SELECT max(time) FROM steps WHERE namespace = %(ns)s), 0),
    coalesce((SELECT max(number) FROM steps WHERE namespace = %(ns)s), 0),
    (SELECT array_agg(speaker) FROM speaking WHERE speaker IS NOT NULL),
    EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%(index)s) AND indisvalid)
"""
_NAMED = """
SELECT i.code, i.passages, h.ids FROM identifiers i LEFT JOIN LATERAL holders(
    %(ns)s, CASE WHEN i.passages <= %(most)s THEN ARRAY[i.code] ELSE '{}' END, %(most)s) h ON true
WHERE i.namespace = %(ns)s AND i.code = ANY(%(codes)s::bigint[])
"""
_HIDDEN = "SELECT id FROM passages WHERE namespace = %(ns)s AND step = ANY(%(hidden)s::bigint[])"
# The occurrences, and in a row of their own, the 0th, which of their passages are within a filter.
_AMONG = f"""
WITH found AS MATERIALIZED ({{occurrences}})
SELECT * FROM found UNION ALL
SELECT 0, array_agg(p.id), NULL, NULL FROM (SELECT DISTINCT unnest(passages) AS id FROM found) f
JOIN passages p ON p.namespace = %(ns)s AND p.id = f.id {STEPS} WHERE true{{where}}
"""
_BESIDE = """
CROSS JOIN LATERAL (
    (SELECT step FROM passages WHERE namespace = %(ns)s AND step < {0}.step ORDER BY step DESC LIMIT {1})
    UNION ALL
    (SELECT step FROM passages WHERE namespace = %(ns)s AND step > {0}.step ORDER BY step LIMIT {1})) beside
"""
# The steps around the best are candidates as well, and of each candidate the two passages before and behind count. With
# OFFSET 0 the planner takes the indexes, whatever it knows of the tables.
_SLICE = f"""
WITH best AS MATERIALIZED (
    SELECT DISTINCT step FROM passages WHERE namespace = %(ns)s AND id = ANY(%(best)s::bigint[])),
chosen AS MATERIALIZED (
    SELECT step FROM passages WHERE namespace = %(ns)s AND id = ANY(%(ids)s::bigint[])
    UNION SELECT beside.step FROM best {_BESIDE.format("best", 1)}),
shown AS MATERIALIZED (SELECT step, bool_or(is_chosen) AS is_chosen FROM (
    SELECT step, true AS is_chosen FROM chosen
    UNION ALL SELECT beside.step, false FROM chosen {_BESIDE.format("chosen", NEAR)}) every GROUP BY step ORDER BY step)
""" + columns_sql(
    "shown CROSS JOIN LATERAL (SELECT * FROM steps WHERE namespace = %(ns)s AND number = shown.step OFFSET 0) s",
    """shown CROSS JOIN LATERAL (
        SELECT id, step, part, start, finish, kind, asks, v.vector, tools,
            CASE WHEN is_chosen THEN identifiers ELSE '' END AS identifiers
        FROM passages q JOIN vectors v ON v.namespace = q.namespace AND v.passage = q.id AND v.embedder = %(embedder)s
        WHERE q.namespace = %(ns)s AND step = shown.step ORDER BY id OFFSET 0) p""",
)
_SEEN = "SELECT code, first, typed FROM identifiers WHERE namespace = %s AND code = ANY(%s::bigint[])"
_RULES = "SELECT DISTINCT step FROM passages WHERE namespace = %s AND kind = 'rule'"


class Slices:
    """The part of a large namespace that recall reads."""

    def __init__(self, database: PostgresDatabase, fulltext: PostgresFullText) -> None:
        self._db, self._fulltext = database, fulltext
        self.is_indexed = False
        self._embedder: str | None = None  # as of the last survey
        self.facts = Facts(0, 0, 0, 0, ())
        self._surveyed = -1  # the version of the namespace then

    def survey(self) -> Finder | None:
        """Bring the facts of all steps up to date, and return this; None where the passages are not so many."""
        with self._db.lock, guarded(self._db.location), self._db.snapshot():
            head = self._db.known_head()
            assert head is not None
            self._embedder = self._db.embedder()
            if head.passages <= IN_SLICES:
                return None
            if self._surveyed != head.version or self._db.is_writing:
                values = {"ns": self._db.id, "index": f"tinymem.{index_name(self._db.id, self._embedder)}"}
                since, until, last, speakers, self.is_indexed = self._db.read(_SURVEY, values)[0]
                if not self.is_indexed and head.passages >= search.INDEXED_FROM:
                    warn_hourly(logger, self._db.location, UNINDEXED, head.passages, self._db.location)
                self._surveyed, self.facts = head.version, Facts(head.passages, last, since, until, speakers or ())
            return self

    def find(self, sought: Sought) -> Slice:
        """Return the passages that are sought, all of their steps, and those of the steps before and after."""
        with self._db.lock, guarded(self._db.location):
            condition = (sought.only or Filter()).condition(POSTGRES)
            embedder = self._db.embedder() if self._embedder is None else self._embedder
            head, found = self._db.read_whole(*self._searches(sought, condition, embedder))
            (_, texts, hidden, named, *near), share = found, 1.0
            if condition:
                share = near.pop(0)[0][0] / max(head.passages, 1)
            occurrences = [occurrences_of(columns) for nth, *columns in texts if nth > 0]
            among = _among(texts, hidden) if condition or sought.hidden else None
            mean = head.words / max(head.passages, 1) or 1.0
            lexical = rank_passages(occurrences, head.passages, mean, among, unseen=unseen_in(texts))
            signals = [lexical.ids.tolist()[: sought.best]]
            for rows in near:
                signals.append([id for (id,) in rows])
            best = set(chain.from_iterable(ids[: sought.around] for ids in signals))
            counts = {code: passages for code, passages, _ in named}
            if sum(counts.values()) <= sought.most_named:
                signals.append([*chain.from_iterable(ids.tolist() for _, _, ids in named if ids is not None)])
                best.update(signals[-1])
            ids = set(chain.from_iterable(signals))
            (row,) = self._db.read(
                _SLICE, {"ns": self._db.id, "embedder": embedder, "ids": list(ids), "best": list(best)}
            )
            passages = columns_of(row)
            seen: Sequence[Any] = ()  # where the identifiers of passages come up first
            if passages and sought.is_stretch:
                codes = np.unique(np.frombuffer(passages.identifiers, "<u4"))
                seen = self._db.read(_SEEN, (self._db.id, codes.tolist()))
            return Slice(passages, lexical, share, counts, seen)

    def rules(self) -> list[int]:
        """Return the numbers of the steps in which people gave rules."""
        with self._db.lock, guarded(self._db.location):
            return [number for (number,) in self._db.read(_RULES, (self._db.id,))]

    def _searches(self, sought: Sought, condition: Condition, embedder: str) -> Iterator[tuple[str, Any]]:
        """Yield the statements of the first round trip."""
        yield BREADTH if self.is_indexed else ("SELECT 1", {})
        yield self._lexical(sought.topic, condition)
        yield _HIDDEN, {"ns": self._db.id, "hidden": list(sought.hidden)}
        yield _NAMED, {"ns": self._db.id, "codes": sought.named.tolist(), "most": sought.most_named}
        place = self._db.id, embedder, halves(sought.vectors), sought.vectors.shape[1]
        if condition:
            yield within(self._db.id, condition)
        yield search.nearest(*place, condition, sought.hidden, sought.best, self.is_indexed)
        if condition:  # the closest of all is what the others are compared with
            yield search.nearest(*place, Condition(), sought.hidden, 1, self.is_indexed)
        if sought.spans:
            yield search.nearest(*place, within_spans(condition, sought.spans), sought.hidden, sought.best, False)

    def _lexical(self, topic: str, condition: Condition) -> tuple[str, Any]:
        """Return the statement that finds the occurrences of the words, and which of them are within a filter."""
        stems = self._fulltext.stems_of(topic)
        sql, values = self._fulltext.occurrences(stems)
        if not condition:
            return sql, values
        where = condition.of_steps + condition.of_passages
        return _AMONG.format(occurrences=sql, where=where), {**values, **condition.values}


def _among(texts: Sequence[tuple[Any, ...]], hidden: Sequence[tuple[int]]) -> Ids:
    """Return those of the passages found that may come back, in order: those within a filter, but for hidden ones."""
    kept = [ids for nth, ids, *_ in texts if nth == 0] or [ids for _, ids, *_ in texts]
    every = np.unique(np.concatenate([np.zeros(0, np.int64), *(ids for ids in kept if ids is not None)]))
    return np.setdiff1d(every, np.array([id for (id,) in hidden], np.int64))
