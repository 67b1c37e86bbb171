"""BM25 over passages in SQLite FTS5, with query terms chosen by how rare they are.

Terms are Porter stems. Identifiers are also indexed by their parts, `loadConfig` as `load` and `config`; the tokenizer
itself splits at `_ . / -`. The table is contentless: it holds terms, not texts.

BM25: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), with FTS5's k1 = 1.2, b = 0.75. Scores are
those of FTS5's own `bm25()`, to the last bit, but computed here from its lists of occurrences, because `bm25()` reads
the length of every passage that it scores from the database, one by one. This must stay: at 10,000 steps a question of
ten words takes 3.6 ms of CPU instead of 10.4, a window's 6,000 characters 6.2 instead of 18.3.
"""

from __future__ import annotations

import math
import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from tinymem.protocols import Ids, Vectors
from tinymem.stores.sqlite.lengths import Lengths
from tinymem.stores.sqlite.waiting import NOTHING, Waiting
from tinymem.stores.words import MAX_TERMS, MAX_WORDS, indexed, words

__all__ = ["FullText"]

MAX_POSTINGS = 12_000  # passages with the query's terms, in sum: each is scored, so this bounds the time of a search
MAX_HITS = 2_000  # best passages that are returned
CAPS = (64, 512, 4_096, MAX_POSTINGS + 1, 1 << 62)  # limits for counting a word's passages, tried one after the other
REMEMBERED = 50_000  # words whose stems and numbers of passages are cached
K1, B = 1.2, 0.75

SCHEMA = """
CREATE VIRTUAL TABLE IF NOT EXISTS fulltext USING fts5(terms, content='', tokenize='porter unicode61');
CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab(fulltext, row);
"""
# Query words are stemmed by the index's own tokenizer: each is a row of a scratch table.
SCRATCH = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked USING fts5(word, content='', tokenize='porter unicode61');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked_terms USING fts5vocab('temp', 'asked', 'instance');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.occurrences USING fts5vocab('main', 'fulltext', 'instance');
"""
COUNT = "SELECT count(*) FROM (SELECT 1 FROM fulltext WHERE fulltext MATCH ? LIMIT ?)"
OCCURRENCES = "SELECT group_concat(doc) FROM temp.occurrences WHERE term = ?"
VERSION = "PRAGMA data_version"  # changes when another connection has written
MOST_FRESH = 64  # passages that are noted in what is remembered; after more, nothing is remembered
MOST_REMEMBERED = 250_000  # passages of stems that are remembered, in sum


class FullText:
    """The full-text index of one journal, on the journal's own connection and inside its transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._db.executescript(SCHEMA + SCRATCH)
        self._known: dict[str, list[str]] = {}
        self._lengths = Lengths(connection)
        self._fresh: dict[int, str]  # passages that were added here since the last search
        self._version = -1
        self._forget()

    def _forget(self) -> None:
        """Remember nothing of the index."""
        self._fresh = {}
        self._counts: dict[str, tuple[int, int]] = {}  # stem -> its passages, and up to how many they were counted
        self._having: dict[str, tuple[Ids, Ids]] = {}  # stem -> its passages, and its count in each
        self._room = MOST_REMEMBERED

    def add(self, passages: Iterable[tuple[int, str]]) -> None:
        """Index passages, given as (id, text)."""
        added = [(id, indexed(text)) for id, text in passages]
        self._db.executemany("INSERT INTO fulltext(rowid, terms) VALUES (?, ?)", added)
        if len(self._fresh) + len(added) <= MOST_FRESH:
            self._fresh.update(added)

    def remove(self, passages: Iterable[tuple[int, str]]) -> None:
        """Remove passages; their texts must be those that were added."""
        self._forget()
        rows = (("delete", i, indexed(t)) for i, t in passages)
        self._db.executemany("INSERT INTO fulltext(fulltext, rowid, terms) VALUES (?, ?, ?)", rows)

    def clear(self) -> None:
        """Remove all passages, even from a damaged index."""
        self._forget()
        self._db.execute("INSERT INTO fulltext(fulltext) VALUES ('delete-all')")

    def optimize(self) -> None:
        """Merge the index into one segment, which removes the terms of removed passages from disk."""
        self._db.execute("INSERT INTO fulltext(fulltext) VALUES ('optimize')")

    def search(self, query: str, waiting: Waiting = NOTHING, among: Ids | None = None) -> tuple[Ids, Vectors]:
        """Return the passages that share terms with `query`: ids, best first, and scores in (0, 2.2).

        A score is BM25 divided by the sum of the terms' inverse document frequencies. Whatever the query and the
        collection, about 1 is the score of a passage of average length with every term once. Passages that are
        `waiting` are searched as if they were in the index. With `among`, ids in ascending order, no others are found.
        """
        self._refresh()
        count = self._lengths.count + len(waiting)
        mean = (self._lengths.total + waiting.total) / max(count, 1) or 1.0  # 0 where the index is damaged
        found, scale = [(np.zeros(0, np.int64), np.zeros(0))], 0.0
        for stem in self._rarest(words(query)[:MAX_WORDS], waiting):
            ids, times, lengths = self._occurrences(stem, waiting)
            idf = max(1e-6, math.log((max(count - len(ids), 0) + 0.5) / (len(ids) + 0.5)))
            shares = 1 - B + B * lengths / mean
            found.append((ids, idf * (times * (K1 + 1) / (times + K1 * shares))))
            scale += idf
        every, parts = map(np.concatenate, zip(*found, strict=True))
        held, which = np.unique(every, return_inverse=True)
        scores = np.bincount(which, parts, len(held))
        if among is not None:  # before the best are taken, or a filter would leave few of them
            usable = np.append(among, -1)[np.searchsorted(among, held)] == held
            held, scores = held[usable], scores[usable]
        best = np.argsort(-scores, kind="stable")[:MAX_HITS]
        return held[best], (scores[best] / (scale or 1)).astype(np.float32)

    def _refresh(self) -> None:
        """Bring what is remembered up to date with the index, or forget it."""
        (version,) = self._db.execute(VERSION).fetchone()
        end, fresh = self._lengths.end, self._fresh
        removed = self._lengths.refresh()
        if end < self._lengths.end or removed:
            is_mine = not removed and version == self._version and self._lengths.held_from(end) == fresh.keys()
            if is_mine:
                for id, counted in zip(fresh, self._terms([*fresh.values()]), strict=True):
                    self._note(id, counted)
            else:
                self._forget()
            self._fresh = {}
        self._version = version

    def _note(self, id: int, counted: Counter[str]) -> None:
        """Add a new passage to what is remembered of its stems."""
        for stem in counted.keys() & self._counts.keys():
            count, cap = self._counts[stem]
            self._counts[stem] = count + 1, cap
        for stem in counted.keys() & self._having.keys():
            ids, times = self._having[stem]
            self._having[stem] = np.append(ids, np.int32(id)), np.append(times, np.int32(counted[stem]))

    def _occurrences(self, stem: str, waiting: Waiting) -> tuple[Ids, Ids, Ids]:
        """Return the passages with `stem`, its count in each, and their lengths."""
        if stem not in self._having and not self._read(stem):
            return waiting.having(stem)
        ids, times = self._having[stem]
        held = ids, times, self._lengths.of(ids)
        if not waiting.count(stem):
            return held
        ids, times, lengths = (np.concatenate(both) for both in zip(held, waiting.having(stem), strict=True))
        return ids, times, lengths

    def _read(self, stem: str) -> bool:
        """Read the passages with `stem` from the index; False if there are none."""
        (listed,) = self._db.execute(OCCURRENCES, (stem,)).fetchone()  # one text takes a quarter of the time of rows
        if listed is None:
            return False
        every = np.fromstring(listed, np.int64, sep=",")
        first = np.flatnonzero(np.diff(every, prepend=-1))  # they are in order
        self._room -= len(first)
        if self._room < 0:
            self._having, self._room = {}, MOST_REMEMBERED - len(first)
        self._having[stem] = every[first].astype(np.int32), np.diff(first, append=len(every)).astype(np.int32)
        return True

    def terms(self, texts: Iterable[str]) -> list[Counter[str]]:
        """Return the terms that the index would have of each text, with their counts."""
        return self._terms([indexed(text) for text in texts])

    def _terms(self, cleaned: Sequence[str]) -> list[Counter[str]]:
        self._db.execute("INSERT INTO temp.asked(asked) VALUES ('delete-all')")
        self._db.executemany("INSERT INTO temp.asked(rowid, word) VALUES (?, ?)", enumerate(cleaned))
        counted: list[Counter[str]] = [Counter() for _ in cleaned]
        for term, doc, times in self._db.execute("SELECT term, doc, count(*) FROM temp.asked_terms GROUP BY 1, 2"):
            counted[doc][term] = times
        self._db.execute("INSERT INTO temp.asked(asked) VALUES ('delete-all')")
        return counted

    def _rarest(self, asked: list[str], waiting: Waiting = NOTHING) -> list[str]:
        """Return the stems of `asked` that passages have, rarest first: up to MAX_TERMS, and MAX_POSTINGS in sum.

        Frequent stems are counted only until there are certainly enough rarer ones.
        """
        stems = self._stems(asked)
        counted: dict[str, int] = {}
        for cap in CAPS:
            left = {stem: word for stem, word in stems.items() if stem not in counted}
            counted |= {stem: count + waiting.count(stem) for stem, count in self._counted(left, cap).items()}
            found = sorted((stem for stem in stems if counted.get(stem)), key=counted.__getitem__)[:MAX_TERMS]
            postings = list(accumulate(counted[stem] for stem in found))
            enough = len(found) == MAX_TERMS or (bool(found) and postings[-1] + cap > MAX_POSTINGS)
            if enough or len(counted) == len(stems):
                return found[: max(1, bisect_right(postings, MAX_POSTINGS))]
        return []

    def _counted(self, stems: Mapping[str, str], cap: int) -> dict[str, int]:
        """Count the passages of each stem that fewer than `cap` passages have, by a word that has it."""
        found = {}
        if len(self._counts) > REMEMBERED:
            self._counts = {}
        for stem, word in stems.items():
            count, counted_to = self._counts.get(stem, (0, 0))
            if counted_to <= count and counted_to < cap:  # at least so many
                count = self._db.execute(COUNT, (f'"{word}"', cap)).fetchone()[0]
                self._counts[stem] = count, cap
            if count < cap:
                found[stem] = count
        return found

    def _stems(self, asked: list[str]) -> dict[str, str]:
        """Map each stem to the first word that has it."""
        new = [word for word in asked if word not in self._known]
        if len(self._known) + len(new) > REMEMBERED:
            self._known, new = {}, asked
        self._db.execute("INSERT INTO temp.asked(asked) VALUES ('delete-all')")
        self._db.executemany("INSERT INTO temp.asked(rowid, word) VALUES (?, ?)", enumerate(new))
        self._known.update((word, []) for word in new)
        for term, doc in self._db.execute("SELECT term, doc FROM temp.asked_terms ORDER BY doc"):
            self._known[new[doc]].append(term)
        stems: dict[str, str] = {}
        for word in asked:
            for stem in self._known[word]:
                stems.setdefault(stem, word)
        return stems
