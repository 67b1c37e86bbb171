"""The words that a full-text search looks for, and their stems, whatever the engine."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["CJK", "MAX_WORDS", "STOP_WORDS", "Stems", "blank_cjk", "has_cjk", "split_cjk", "to_index_text", "words"]

MAX_WORDS = 512  # distinct words of a query that are looked up

# Letters of Chinese, Japanese and Korean, for a set of characters in a pattern: Han, kana and their long mark,
# Bopomofo, Hangul, and half-width ones. The first two write no spaces, and Korean writes endings onto its words.
CJK = (
    r"\u1100-\u11ff\u3005-\u3007\u3031-\u3035\u303b\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    r"\u3105-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    r"\uff66-\uff9f\uffa1-\uffdc\U00020000-\U0003ffff"
)
_MAY_BE_CJK = re.compile(r"[\u1100-\u11ff\u3005-\ud7ff\uf900-\uffdc\U00020000-\U0003ffff]")  # few ranges, so quick
_RUN = re.compile(rf"([{CJK}]+)|[\uff01-\uff5e]+")  # the second are full-width signs, letters and digits
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# The most frequent words of English, which say little about the topic.
STOP_WORDS = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could did do does doing down
    during each few for from further had has have having he her here hers him his how i if in into is it its itself just
    let me more most my myself no nor not now of off on once only or other our ours out over own same she should so some
    such than that the their theirs them then there these they this those through to too under until up us very was we
    were what when where which while who whom why will with would you your yours s t d ll m re ve
    """.split()  # noqa: SIM905 (a list of 140 strings reads worse)
)


def has_cjk(text: str) -> bool:
    """Return True if `text` has letters of Chinese, Japanese or Korean, or full-width ones.

    >>> has_cjk("3 naïve cafés"), has_cjk("東京 2024")
    (False, True)
    """
    return not text.isascii() and _MAY_BE_CJK.search(text) is not None and _RUN.search(text) is not None


def split_cjk(text: str) -> str:
    """Return `text` with its runs of CJK letters as terms, and full-width letters and digits as plain ones.

    The terms are the bigrams, for most words have two letters, and the single letters, which mean something even in
    another word (车, 汽车); kana do not.

    >>> split_cjk("会议室在４楼")
    ' 会议 议室 室在 会 议 室 在 4 楼 '
    >>> split_cjk("アプリを")
    ' アプ プリ リを '
    """
    return _RUN.sub(_as_terms, text) if has_cjk(text) else text


def _as_terms(found: re.Match[str]) -> str:
    run = unicodedata.normalize("NFKC", found[0])  # of half-width letters and separate marks, too
    if found[1] is None:
        return run
    single = (letter for letter in run if not "\u3040" <= letter <= "\u30ff")
    return f" {' '.join([*map(''.join, pairwise(run)), *(single if len(run) > 1 else run)])} "


def blank_cjk(text: str) -> str:
    """Return `text` with a space for each run of CJK letters, and full-width letters and digits as plain ones.

    >>> blank_cjk("订单ORD-12345在３楼")
    ' ORD-12345 3 '
    """
    if not has_cjk(text):
        return text
    return _RUN.sub(lambda run: " " if run[1] else unicodedata.normalize("NFKC", run[0]), text)


def words(text: str) -> list[str]:
    """Return the content words of `text` in lower case, with parts of identifiers, each once and in order.

    >>> words("How does loadConfig work?")
    ['loadconfig', 'load', 'config', 'work']
    >>> words("会议室2")
    ['会议', '议室', '会', '议', '室', '2']
    """
    found: dict[str, None] = {}
    for word in _WORD.findall(split_cjk(unicodedata.normalize("NFC", text))):  # a separate mark would end the word
        parts = _HUMP.split(word)
        for part in [word, *parts] if len(parts) > 1 else [word]:
            if (lower := part.lower()) not in STOP_WORDS:
                found[lower] = None
    return list(found)


def to_index_text(text: str) -> str:
    """Return the text to index: `text` itself, CJK letters as terms, and the parts of its camel-case identifiers."""
    terms, plain = split_cjk(text), blank_cjk(text)  # CJK letters have no case
    # Most words are lower case after their first letter, and checking this first is much faster than splitting all.
    mixed = (word for word in _WORD.findall(plain) if not word[1:].islower())
    humps = [" ".join(parts) for word in mixed if len(parts := _HUMP.split(word)) > 1]
    return f"{terms} {' '.join(humps)}" if humps else terms


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
    """Porter stems as SQLite's FTS5 makes them, in scratch tables of a connection.

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
