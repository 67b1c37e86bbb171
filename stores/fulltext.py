"""BM25 over passages in SQLite FTS5, with query terms chosen by how rare they are.

Porter stemming. Identifiers are indexed by their parts as well: `loadConfig` also as `load` and `config`; the
tokenizer itself splits at `_ . / -`. The table is contentless: it holds terms, not texts.

BM25: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), with FTS5's k1 = 1.2, b = 0.75.
"""

from __future__ import annotations

import math
import re
import sqlite3
import unicodedata
from collections.abc import Iterable

import numpy as np

from tinymem.protocols import Ids, Vectors

__all__ = ["FullText", "words"]

MAX_WORDS = 512  # distinct words of a query that are looked up
MAX_TERMS = 48  # and of those, how many are searched for: the rarest
MAX_POSTINGS = 30_000  # passages that they may occur in, in sum: each is scored, so this bounds the time of a search
MAX_HITS = 2_000  # best passages that are returned

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# The most frequent words of English: they say how, not what.
STOP_WORDS = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could did do does doing down
    during each few for from further had has have having he her here hers him his how i if in into is it its itself just
    let me more most my myself no nor not now of off on once only or other our ours out over own same she should so some
    such than that the their theirs them then there these they this those through to too under until up us very was we
    were what when where which while who whom why will with would you your yours s t d ll m re ve
    """.split()  # noqa: SIM905 (a list of 140 strings reads worse)
)

SCHEMA = """
CREATE VIRTUAL TABLE IF NOT EXISTS fulltext USING fts5(terms, content='', tokenize='porter unicode61');
CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab(fulltext, row);
"""
# Query words are stemmed by the very tokenizer that the index uses: each is a row of a scratch table.
SCRATCH = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked USING fts5(word, content='', tokenize='porter unicode61');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked_terms USING fts5vocab('temp', 'asked', 'instance');
"""


def words(text: str) -> list[str]:
    """The words of `text` that say what it is about: lower case, parts of identifiers apart, each once, in order.

    >>> words("How does loadConfig work?")
    ['loadconfig', 'load', 'config', 'work']
    """
    found: dict[str, None] = {}
    for word in _WORD.findall(unicodedata.normalize("NFC", text)):  # a mark apart would end the word
        parts = _HUMP.split(word)
        for part in [word, *parts] if len(parts) > 1 else [word]:
            if (lower := part.lower()) not in STOP_WORDS:
                found[lower] = None
    return list(found)


def indexed(text: str) -> str:
    """What is put into the index for `text`: itself, and the parts of its camel-case identifiers."""
    humps = [" ".join(parts) for word in _WORD.findall(text) if len(parts := _HUMP.split(word)) > 1]
    return f"{text} {' '.join(humps)}" if humps else text


class FullText:
    """The full-text index of one journal, on the journal's own connection and inside its transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._db.executescript(SCHEMA + SCRATCH)

    def add(self, passages: Iterable[tuple[int, str]]) -> None:
        """Index passages: (id, text)."""
        self._db.executemany("INSERT INTO fulltext(rowid, terms) VALUES (?, ?)", ((i, indexed(t)) for i, t in passages))

    def remove(self, passages: Iterable[tuple[int, str]]) -> None:
        """Take passages out; the text must be the one that was added."""
        rows = (("delete", i, indexed(t)) for i, t in passages)
        self._db.executemany("INSERT INTO fulltext(fulltext, rowid, terms) VALUES (?, ?, ?)", rows)

    def optimize(self) -> None:
        """Merge the index into one segment; terms of removed passages are gone from disk only then."""
        self._db.execute("INSERT INTO fulltext(fulltext) VALUES ('optimize')")

    def search(self, query: str, total: int) -> tuple[Ids, Vectors]:
        """The passages that share terms with `query`, of `total` in the index: ids, and scores in (0, 2.2).

        A score is BM25 divided by the sum of the terms' inverse document frequencies: 1 is about what a passage of
        average length gets that holds every term once, whatever the query and the collection.
        """
        terms = self._rarest(words(query)[:MAX_WORDS], total)
        if not terms:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        match = " OR ".join(f'"{word}"' for word, _ in terms)
        rows = self._db.execute(
            "SELECT rowid, rank FROM fulltext WHERE fulltext MATCH ? ORDER BY rank, rowid LIMIT ?", (match, MAX_HITS)
        ).fetchall()
        scale = sum(idf for _, idf in terms)
        found = np.array(rows, dtype=np.float64).reshape(-1, 2)
        return found[:, 0].astype(np.int64), (-found[:, 1] / scale).astype(np.float32)

    def _rarest(self, asked: list[str], total: int) -> list[tuple[str, float]]:
        """Words of which some passage has the stem, with their idf as FTS5 computes it; the rarest MAX_TERMS."""
        stems = self._stems(asked)
        found: list[tuple[int, str]] = []
        for stem, word in stems.items():
            row = self._db.execute("SELECT doc FROM vocabulary WHERE term = ?", (stem,)).fetchone()
            if row:
                found.append((row[0], word))
        found.sort(key=lambda pair: pair[0])
        postings = 0
        chosen: list[tuple[str, float]] = []
        for count, word in found[:MAX_TERMS]:
            postings += count
            if chosen and postings > MAX_POSTINGS:
                break
            chosen.append((word, max(1e-6, math.log((max(total - count, 0) + 0.5) / (count + 0.5)))))
        return chosen

    def _stems(self, asked: list[str]) -> dict[str, str]:
        """Stem -> the first word that has it."""
        self._db.execute("INSERT INTO temp.asked(asked) VALUES ('delete-all')")
        self._db.executemany("INSERT INTO temp.asked(rowid, word) VALUES (?, ?)", enumerate(asked))
        rows = self._db.execute("SELECT term, doc FROM temp.asked_terms ORDER BY doc").fetchall()
        stems: dict[str, str] = {}
        for term, doc in rows:
            stems.setdefault(term, asked[doc])
        return stems
