"""BM25 over passages in SQLite FTS5, with query terms chosen by how rare they are.

Terms are Porter stems. Identifiers are also indexed by their parts, `loadConfig` as `load` and `config`; the tokenizer
itself splits at `_ . / -`. The table is contentless: it holds terms, not texts.

Scores are those of FTS5's own `bm25()`, to the last bit, but computed in `tinymem.stores.bm25` from its lists of
occurrences, because `bm25()` reads the length of every passage that it scores from the database, one by one. This must
stay: at 10,000 steps a question of ten words takes 3.6 ms of CPU instead of 10.4, a window's 6,000 characters 6.2
instead of 18.3.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tinymem.protocols import Ids, Lexical
from tinymem.stores.bm25 import MAX_POSTINGS, Occurrences, rank_passages
from tinymem.stores.sqlite.lengths import Lengths
from tinymem.stores.stems import REMEMBERED, TOKENIZER, Stems
from tinymem.stores.words import MAX_WORDS, to_index_text, words

__all__ = ["SqliteFullText"]

CAPS = (64, 512, 4_096, MAX_POSTINGS + 1, 1 << 62)  # limits for counting a word's passages, tried one after the other

SCHEMA = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS fulltext USING fts5(terms, content='', tokenize='{TOKENIZER}');
CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab(fulltext, row);
CREATE VIRTUAL TABLE IF NOT EXISTS temp.occurrences USING fts5vocab('main', 'fulltext', 'instance');
"""
COUNT = "SELECT count(*) FROM (SELECT 1 FROM fulltext WHERE fulltext MATCH ? LIMIT ?)"
OCCURRENCES = "SELECT group_concat(doc) FROM temp.occurrences WHERE term = ?"
VERSION = "PRAGMA data_version"  # changes when another connection has written
MOST_FRESH = 64  # passages that are noted in what is remembered; after more, nothing is remembered
MOST_REMEMBERED = 1_000_000  # passages of stems that are remembered, in sum: 8 bytes each


class SqliteFullText:
    """The full-text index of one journal, on the journal's own connection and inside its transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._db.executescript(SCHEMA)
        self._stems = Stems(connection)
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
        added = [(id, to_index_text(text)) for id, text in passages]
        self._db.executemany("INSERT INTO fulltext(rowid, terms) VALUES (?, ?)", added)
        if len(self._fresh) + len(added) <= MOST_FRESH:
            self._fresh.update(added)

    def remove(self, passages: Iterable[tuple[int, str]]) -> None:
        """Remove passages; their texts must be those that were added.

        Their terms stay on disk, marked as removed, until `purge`.
        """
        self._forget()
        rows = [("delete", id, to_index_text(text)) for id, text in passages]
        self._db.executemany("INSERT INTO fulltext(fulltext, rowid, terms) VALUES (?, ?, ?)", rows)

    def clear(self) -> None:
        """Remove all passages, even from a damaged index."""
        self._forget()
        self._db.execute("INSERT INTO fulltext(fulltext) VALUES ('delete-all')")

    def purge(self) -> None:
        """Write the index again without the terms of removed passages: a second for 100,000 passages."""
        self._db.execute("INSERT INTO fulltext(fulltext) VALUES ('optimize')")

    def search(self, query: str, among: Ids | None = None) -> Lexical:
        """Return the passages that share terms with `query`, best first (`tinymem.stores.bm25`).

        With `among`, ids in ascending order, no others are found.
        """
        self._refresh()
        count = self._lengths.count
        mean = self._lengths.total / max(count, 1) or 1.0  # 0 where the index is damaged
        rarest, unseen = self._rarest(words(query)[:MAX_WORDS])
        return rank_passages(self._occurrences(rarest), count, mean, among, unseen=unseen)

    def _refresh(self) -> None:
        """Bring what is remembered up to date with the index, or forget it."""
        (version,) = self._db.execute(VERSION).fetchone()
        end, fresh = self._lengths.end, self._fresh
        removed = self._lengths.refresh()
        if end < self._lengths.end or removed:
            is_mine = not removed and version == self._version and self._lengths.find_ids_from(end) == fresh.keys()
            if is_mine:
                for id, counted in zip(fresh, self._stems.count_indexed([*fresh.values()]), strict=True):
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

    def _occurrences(self, stems: Sequence[str]) -> list[Occurrences]:
        """Return the passages with each of `stems`, its count in each, and their lengths."""
        having = [self._having.get(stem) or self._read(stem) for stem in stems]
        lengths = self._lengths.of(np.concatenate([np.zeros(0, np.int32), *(ids for ids, _ in having)]))
        ends = accumulate((len(ids) for ids, _ in having), initial=0)
        sizes = [lengths[first:end] for first, end in pairwise(ends)]  # np.split takes ten times as long
        return [Occurrences(*found, size) for found, size in zip(having, sizes, strict=True)]

    def _read(self, stem: str) -> tuple[Ids, Ids]:
        """Return the passages with `stem` as the index has them, and its count in each."""
        (listed,) = self._db.execute(OCCURRENCES, (stem,)).fetchone()  # one text takes a quarter of the time of rows
        every = np.fromstring(listed or "", np.int64, sep=",")
        first = np.flatnonzero(np.diff(every, prepend=-1))  # they are in order
        self._room -= len(first)
        if self._room < 0:
            self._having, self._room = {}, MOST_REMEMBERED - len(first)
        having: tuple[Any, Any] = every[first].astype(np.int32), np.diff(first, append=len(every)).astype(np.int32)
        self._having[stem] = having
        return having

    def _rarest(self, asked: list[str]) -> tuple[list[str], int]:
        """Return the stems of `asked` that passages have, rarest first: up to MAX_POSTINGS in sum.

        Beside them stands the number of stems that no passage has. Frequent stems are counted only until there are
        certainly enough rarer ones.
        """
        stems = self._stems.stem_words(asked)
        counted: dict[str, int] = {}
        for cap in CAPS:
            left = {stem: word for stem, word in stems.items() if stem not in counted}
            counted |= self._counted(left, cap)
            found = sorted((stem for stem in stems if counted.get(stem)), key=counted.__getitem__)
            postings = list(accumulate(counted[stem] for stem in found))
            enough = bool(found) and postings[-1] + cap > MAX_POSTINGS
            if enough or len(counted) == len(stems):
                unseen = sum(counted.get(stem) == 0 for stem in stems)
                return found[: max(1, bisect_right(postings, MAX_POSTINGS))], unseen
        return [], 0

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
