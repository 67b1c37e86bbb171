"""Stems of words by Porter's algorithm, which SQLite has; LoCoMo's own program takes it from NLTK, which extends it."""

from __future__ import annotations

import re
import sqlite3
import string

__all__ = ["stem"]

_TABLE = sqlite3.connect(":memory:", check_same_thread=False)
_TABLE.executescript(
    "CREATE VIRTUAL TABLE said USING fts5(text, tokenize = 'porter unicode61');"
    "CREATE VIRTUAL TABLE stems USING fts5vocab(said, instance);"
)


def stem(text: str) -> list[str]:
    """The stems of a text without punctuation and articles, as LoCoMo compares them.

    >>> stem("The adoption agencies, and counseling")
    ['adopt', 'agenc', 'counsel']
    """
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    words = re.sub(r"\b(a|an|the|and)\b", " ", bare)
    with _TABLE:
        _TABLE.execute("DELETE FROM said")
        _TABLE.execute("INSERT INTO said VALUES (?)", (words,))
        return [row[0] for row in _TABLE.execute("SELECT term FROM stems ORDER BY offset")]
