"""BM25 over passages in SQLite FTS5, with query terms chosen by how rare they are.

Terms are Porter stems. Identifiers are also indexed by their parts, `loadConfig` as `load` and `config`; the tokenizer
itself splits at `_ . / -`. The table is contentless: it holds terms, not texts.

Scores are those of FTS5's own `bm25()`, to the last bit, but computed in `tinymem.stores.bm25` from its lists of
occurrences, because `bm25()` reads the length of every passage that it scores from the database, one by one. This must
stay: at 10,000 steps a question of ten words takes 3.6 ms of CPU instead of 10.4, a window's 6,000 characters 6.2
instead of 18.3.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids, Lexical
from tinymem.stores.bm25 import MAX_POSTINGS, Occurrences, rank_passages
from tinymem.stores.words import MAX_WORDS, REMEMBERED, TOKENIZER, Stems, to_index_text, words

__all__ = ["Lengths", "SqliteFullText"]

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

# Internal tables of FTS5, which it documents: sizes as varints, and in one row the number of rows and their sum.
# One text takes half the time of rows, and much less memory.
LISTED = "SELECT group_concat(id), group_concat(hex(sz), '') FROM "
NEW = f"{LISTED} (SELECT id, sz FROM fulltext_docsize WHERE id > ? ORDER BY id LIMIT 65536)"
SOME = f"{LISTED} (SELECT id, sz FROM fulltext_docsize WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id)"
LAST = "SELECT max(id) FROM fulltext_docsize"
LARGEST = 1 << 28  # a larger id is damaged; the array has a place for each id up to the highest
AVERAGES = "SELECT block FROM fulltext_data WHERE id = 1"


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


class Lengths:
    """The number of terms of each passage, read when it is first asked for.

    There are `count` passages, of `total` terms in sum; their ids are below `end`.
    """

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
