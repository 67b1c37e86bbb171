"""Porter stems of texts and words, as SQLite's FTS5 makes them: whatever the engine, a search finds the same."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence

from tinymem.stores.words import to_index_text

__all__ = ["Stems"]

TOKENIZER = "porter unicode61"
REMEMBERED = 50_000  # words whose stems are cached
# Texts are stemmed by the index's own tokenizer: each is a row of a scratch table.
SCRATCH = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked USING fts5(word, content='', tokenize='{TOKENIZER}');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked_terms USING fts5vocab('temp', 'asked', 'instance');
"""
CLEAR = "INSERT INTO temp.asked(asked) VALUES ('delete-all')"
PUT = "INSERT INTO temp.asked(rowid, word) VALUES (?, ?)"


class Stems:
    """The stems of texts, made in scratch tables of an SQLite connection.

    >>> Stems(sqlite3.connect(":memory:")).count_terms(["Two windows, one window"])[0]["window"]
    2
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._db.executescript(SCRATCH)
        self._known: dict[str, list[str]] = {}

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def count_terms(self, texts: Sequence[str]) -> list[Counter[str]]:
        """Return the stems that an index has of each text, with their counts."""
        return self.count_indexed([to_index_text(text) for text in texts])

    def count_indexed(self, cleaned: Sequence[str]) -> list[Counter[str]]:
        """Return the stems of texts that `to_index_text` has prepared, with their counts."""
        self._db.execute(CLEAR)
        self._db.executemany(PUT, enumerate(cleaned))
        counted: list[Counter[str]] = [Counter() for _ in cleaned]
        for term, doc, times in self._db.execute("SELECT term, doc, count(*) FROM temp.asked_terms GROUP BY 1, 2"):
            counted[doc][term] = times
        self._db.execute(CLEAR)
        return counted

    def stem_words(self, asked: list[str]) -> dict[str, str]:
        """Map each stem to the first word that has it."""
        new = [word for word in asked if word not in self._known]
        if len(self._known) + len(new) > REMEMBERED:
            self._known, new = {}, asked
        if new:
            self._learn(new)
        stems: dict[str, str] = {}
        for word in asked:
            for stem in self._known[word]:
                stems.setdefault(stem, word)
        return stems

    def _learn(self, new: Sequence[str]) -> None:
        """Note the stems of words that were not asked for before."""
        self._db.execute(CLEAR)
        self._db.executemany(PUT, enumerate(new))
        self._known.update((word, []) for word in new)
        for term, doc in self._db.execute("SELECT term, doc FROM temp.asked_terms ORDER BY doc"):
            self._known[new[doc]].append(term)
