"""Full-text search: hashes of stems in a GIN index, scored as SQLite's index scores them.

A passage's row has its distinct stems and how often it has each. How many passages have a stem is kept in a table, so
that the rarest words of a query are known without searching for the others.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from tinymem.protocols import Ids, Vectors
from tinymem.protocols import Waiting as AnyWaiting
from tinymem.stores.bm25 import MAX_POSTINGS, Occurrences, ranked
from tinymem.stores.postgres.database import Database
from tinymem.stores.postgres.values import hash_of
from tinymem.stores.stems import Stems
from tinymem.stores.waiting import NOTHING, Waiting
from tinymem.stores.words import MAX_TERMS, MAX_WORDS, words

__all__ = ["FullText"]

_FREQUENCIES = "SELECT stem, passages FROM stems WHERE namespace = %s AND stem = ANY(%s::bigint[])"
_PUT = "INSERT INTO terms VALUES (%s, %s, %s, %s::bigint[], %s::integer[])"
_COUNT = (
    "INSERT INTO stems SELECT %s, stem, count FROM unnest(%s::bigint[], %s::bigint[]) new(stem, count) "
    "ON CONFLICT (namespace, stem) DO UPDATE SET passages = stems.passages + excluded.passages"
)
_OCCURRENCES = "SELECT nth, passages, times, lengths FROM occurrences(%s, %s::bigint[])"
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

    def search_text(
        self, query: str, waiting: AnyWaiting | None = None, among: Ids | None = None
    ) -> tuple[Ids, Vectors]:
        """Return passage ids by BM25, best first, and their scores.

        Passages that are `waiting` are found too, unless another process has stored them since. With `among`, ids in
        ascending order, no others are found.
        """
        with self.snapshot():
            is_current = isinstance(waiting, Waiting) and waiting.since == self.mark
            return self._search(query, waiting if is_current else NOTHING, among)  # type: ignore[arg-type]

    def _search(self, query: str, waiting: Waiting, among: Ids | None) -> tuple[Ids, Vectors]:
        rarest = self._rarest([*self._stems.of_words(words(query)[:MAX_WORDS])], waiting)
        head = self._known()
        assert head is not None
        count = head.passages + len(waiting)
        mean = (head.words + waiting.total) / max(count, 1) or 1.0
        return ranked(self._occurrences(rarest, waiting), count, mean, among)

    def _rarest(self, stems: Sequence[str], waiting: Waiting) -> list[str]:
        """Return the stems that passages have, rarest first: up to MAX_TERMS, and MAX_POSTINGS passages in sum."""
        hashes = {stem: self._hash(stem) for stem in stems}
        held = dict(self._read(_FREQUENCIES, (self._id, list(hashes.values()))))
        counted = {stem: held.get(hash, 0) + waiting.count(stem) for stem, hash in hashes.items()}
        found = sorted((stem for stem in stems if counted[stem]), key=counted.__getitem__)[:MAX_TERMS]
        postings = list(accumulate(counted[stem] for stem in found))
        return found[: max(1, bisect_right(postings, MAX_POSTINGS))]

    def _occurrences(self, stems: Sequence[str], waiting: Waiting) -> list[Occurrences]:
        nothing = Occurrences(*(np.zeros(0, np.int64) for _ in range(3)))
        held = {}
        for nth, *columns in (
            self._read(_OCCURRENCES, (self._id, [self._hash(stem) for stem in stems])) if stems else ()
        ):
            ids, times, lengths = (np.array(column, np.int64) for column in columns)
            order = np.argsort(ids, kind="stable")
            held[nth] = Occurrences(ids[order], times[order], lengths[order])
        return [waiting.added_to(stem, held.get(nth, nothing)) for nth, stem in enumerate(stems, 1)]
