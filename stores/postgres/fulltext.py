"""Full-text search: hashes of stems in a GIN index, scored as SQLite's index scores them.

A passage's row has its distinct stems and how often it has each. How many passages have a stem is kept in a table, so
that the rarest words of a query are known without searching for the others.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from tinymem.protocols import Ids, Lexical
from tinymem.stores.bm25 import MAX_POSTINGS, Occurrences, rank_passages
from tinymem.stores.postgres.database import PostgresDatabase
from tinymem.stores.postgres.server.values import Planned, hash_of
from tinymem.stores.words import MAX_WORDS, Stems, words

__all__ = ["PostgresFullText"]

_PUT = Planned("INSERT INTO terms VALUES (%s, %s, %s, %s::bigint[], %s::integer[])")
_COUNT = (
    "INSERT INTO stems SELECT %s, stem, count FROM unnest(%s::bigint[], %s::bigint[]) new(stem, count) "
    "ON CONFLICT (namespace, stem) DO UPDATE SET passages = stems.passages + excluded.passages"
)
_OCCURRENCES = Planned(  # the function plans for the words at hand
    "SELECT * FROM occurrences(%(ns)s, %(stems)s::bigint[], %(most)s)"
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


class PostgresFullText:
    """The tables `terms` and `stems`, in the transactions of a journal, whose lock must be held."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database
        self._stemmer: Stems | None = None

    @property
    def _stems(self) -> Stems:
        """The stems of words, made when they are first needed."""
        if self._stemmer is None:
            self._stemmer = Stems(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None))
        return self._stemmer

    def close(self) -> None:
        """Close the scratch tables of the stems."""
        if self._stemmer is not None:
            self._stemmer.close()

    def hash_stem(self, stem: str) -> int:
        """Return the hash of a stem, which is another one in each namespace."""
        return hash_of(self._db.name, stem)

    def add(self, passages: Iterable[tuple[int, str]]) -> None:
        """Index passages, given as (id, text), in the transaction."""
        frequencies: Counter[int] = Counter()
        ids, texts = [], []
        for id, text in passages:
            ids.append(id)
            texts.append(text)
        for id, counted in zip(ids, self._stems.count_terms(texts), strict=True):
            hashed: Counter[int] = Counter()
            for stem, times in counted.items():
                hashed[self.hash_stem(stem)] += times
            frequencies.update(hashed.keys())
            self._db.write(_PUT, self._db.id, id, hashed.total(), list(hashed), list(hashed.values()))
            self._db.head.more_passages += 1
            self._db.head.more_words += hashed.total()
        if frequencies:
            self._db.write(_COUNT, self._db.id, list(frequencies), list(frequencies.values()))

    def remove(self, ids: Sequence[int]) -> None:
        """Remove passages from the index, in the transaction."""
        removed, length = self._db.change(_REMOVE, {"ns": self._db.id, "ids": list(ids)})[0]
        self._db.head.more_passages -= removed
        self._db.head.more_words -= length

    def search(self, query: str, among: Ids | None) -> Lexical:
        """Return the passages by BM25."""
        hashes = [self.hash_stem(stem) for stem in self._stems.stem_words(words(query)[:MAX_WORDS])]
        head, rows = self._db.read_with_head(_OCCURRENCES, {"ns": self._db.id, "stems": hashes, "most": MAX_POSTINGS})
        mean = head.words / max(head.passages, 1) or 1.0
        found = [_occurrences_of(columns) for nth, *columns in rows if nth > 0]
        return rank_passages(found, head.passages, mean, among, unseen=len(rows) - len(found))


def _occurrences_of(columns: Sequence[Ids | None]) -> Occurrences:
    """Return the passages of a stem, their counts and lengths, in the order of their ids."""
    ids, times, lengths = (np.zeros(0, np.int64) if column is None else column for column in columns)
    order = np.argsort(ids, kind="stable")
    return Occurrences(ids[order], times[order], lengths[order])
