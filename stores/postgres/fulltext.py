"""Full-text search: hashes of stems in a GIN index, scored as SQLite's index scores them.

A passage's row has its distinct stems and how often it has each. How many passages have a stem is kept in a table, so
that the rarest words of a query are known without searching for the others.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tinymem.protocols import Ids, Lexical, Mark
from tinymem.protocols import Waiting as AnyWaiting
from tinymem.stores.bm25 import MAX_POSTINGS, Occurrences, ranked
from tinymem.stores.postgres.database import Database
from tinymem.stores.postgres.server.errors import guarded
from tinymem.stores.postgres.server.values import Planned, hash_of
from tinymem.stores.stems import Stems
from tinymem.stores.waiting import NOTHING, Waiting
from tinymem.stores.words import MAX_TERMS, MAX_WORDS, words

__all__ = ["FullText", "occurrences_of", "unseen_in"]

_PUT = Planned("INSERT INTO terms VALUES (%s, %s, %s, %s::bigint[], %s::integer[])")
_COUNT = (
    "INSERT INTO stems SELECT %s, stem, count FROM unnest(%s::bigint[], %s::bigint[]) new(stem, count) "
    "ON CONFLICT (namespace, stem) DO UPDATE SET passages = stems.passages + excluded.passages"
)
_OCCURRENCES = Planned(  # the function plans for the words at hand
    "SELECT * FROM occurrences(%(ns)s, %(stems)s::bigint[], %(waits)s::bigint[], %(most_stems)s, %(most_passages)s)"
)
_REMOVE = """
WITH gone AS (DELETE FROM terms WHERE namespace = %(ns)s AND passage = ANY(%(ids)s::bigint[]) RETURNING stems, length),
lost AS (SELECT stem, count(*) times FROM gone, unnest(gone.stems) stem GROUP BY stem),
emptied AS (DELETE FROM stems s USING lost
    WHERE s.namespace = %(ns)s AND s.stem = lost.stem AND s.passages <= lost.times),
lowered AS (UPDATE stems s SET passages = s.passages - lost.times FROM lost
    WHERE s.namespace = %(ns)s AND s.stem = lost.stem AND s.passages > lost.times)
SELECT count(*), coalesce(sum(length), 0)::bigint FROM gone
"""


class FullText(Database):
    """The tables `terms` and `stems`."""

    _stemmer: Stems | None = None

    @property
    def _stems(self) -> Stems:
        """The stems of words, made when they are first needed. The lock must be held."""
        if self._stemmer is None:
            self._stemmer = Stems(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None))
        return self._stemmer

    def close(self) -> None:
        """Give back the connection, and close the scratch tables of the stems."""
        super().close()
        if self._stemmer is not None and not self._lock.inherited:
            with self._lock:
                self._stemmer.close()

    def _hash(self, stem: str) -> int:
        return hash_of(self._name, stem)

    def _index(self, passages: Iterable[tuple[int, str]]) -> None:
        """Index passages, given as (id, text), in the transaction."""
        frequencies: Counter[int] = Counter()
        ids, texts = [], []
        for id, text in passages:
            ids.append(id)
            texts.append(text)
        for id, counted in zip(ids, self._stems.counted(texts), strict=True):
            hashed: Counter[int] = Counter()
            for stem, times in counted.items():
                hashed[self._hash(stem)] += times
            frequencies.update(hashed.keys())
            self._write(_PUT, self._id, id, hashed.total(), list(hashed), list(hashed.values()))
            self._written.more_passages += 1
            self._written.more_words += hashed.total()
        if frequencies:
            self._write(_COUNT, self._id, list(frequencies), list(frequencies.values()))

    def _unindex(self, ids: Sequence[int]) -> None:
        """Remove passages from the index, in the transaction."""
        removed, length = self._changed(_REMOVE, {"ns": self._id, "ids": list(ids)})[0]
        self._written.more_passages -= removed
        self._written.more_words -= length

    def search_text(self, query: str, waiting: AnyWaiting | None = None, among: Ids | None = None) -> Lexical:
        """Return passages by BM25, best first.

        Passages that are `waiting` are found too, unless another process has stored them since. With `among`, ids in
        ascending order, no others are found.
        """
        with self._lock, guarded(self._location):
            since = waiting.since if isinstance(waiting, Waiting) else None
            found = self._search(query, waiting if isinstance(waiting, Waiting) else NOTHING, since, among)
            found = found or self._search(query, NOTHING, None, among)
            assert found is not None, "nothing waits, so no mark is compared"
            return found

    def _search(self, query: str, waiting: Waiting, since: Mark | None, among: Ids | None) -> Lexical | None:
        """Return the passages by BM25; None if the mark is not `since` any more."""
        stems = self._sought(query)
        waits = [waiting.count(stem) for stem in stems]
        head, (rows,) = self._read_whole(self._occurrences(stems, waits))
        if since is not None and since != self._mark_in(head.settings):
            return None
        count = head.passages + len(waiting)
        mean = (head.words + waiting.total) / max(count, 1) or 1.0
        found = [(stems[nth - 1], columns) for nth, *columns in rows if nth > 0]
        terms = (waiting.added_to(stem, occurrences_of(columns)) for stem, columns in found)
        return ranked(terms, count, mean, among, unseen=unseen_in(rows))

    def _sought(self, query: str) -> list[str]:
        """Return the stems of a query. The lock must be held."""
        return [*dict.fromkeys(self._stems.of_words(words(query)[:MAX_WORDS]))]

    def _occurrences(self, stems: Sequence[str], waits: Sequence[int]) -> tuple[str, dict[str, Any]]:
        """Return the statement that finds the passages with stems, of each of which `waits` more wait."""
        values = {"ns": self._id, "stems": [self._hash(stem) for stem in stems], "waits": list(waits)}
        return _OCCURRENCES, {**values, "most_stems": MAX_TERMS, "most_passages": MAX_POSTINGS}


def unseen_in(rows: Sequence[Sequence[Any]]) -> int:
    """Count the stems that no passage has: their places are given as negative."""
    return sum(nth < 0 for nth, *_ in rows)


def occurrences_of(columns: Sequence[Ids | None]) -> Occurrences:
    """Return the passages of a stem, their counts and lengths, in the order of their ids."""
    ids, times, lengths = (np.zeros(0, np.int64) if column is None else column for column in columns)
    order = np.argsort(ids, kind="stable")
    return Occurrences(ids[order], times[order], lengths[order])
