"""The words that a full-text search looks for, whatever the engine."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["MAX_TERMS", "MAX_WORDS", "STOP_WORDS", "indexed", "words"]

MAX_WORDS = 512  # distinct words of a query that are looked up
MAX_TERMS = 32  # of these, the rarest that are searched for

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


def words(text: str) -> list[str]:
    """Return the content words of `text` in lower case, with parts of identifiers, each once and in order.

    >>> words("How does loadConfig work?")
    ['loadconfig', 'load', 'config', 'work']
    """
    found: dict[str, None] = {}
    for word in _WORD.findall(unicodedata.normalize("NFC", text)):  # a separate combining mark would end the word
        parts = _HUMP.split(word)
        for part in [word, *parts] if len(parts) > 1 else [word]:
            if (lower := part.lower()) not in STOP_WORDS:
                found[lower] = None
    return list(found)


def indexed(text: str) -> str:
    """Return the text to index: `text` itself, and the parts of its camel-case identifiers."""
    # Most words are lower case after their first letter, and checking this first is much faster than splitting all.
    mixed = (word for word in _WORD.findall(text) if not word[1:].islower())
    humps = [" ".join(parts) for word in mixed if len(parts := _HUMP.split(word)) > 1]
    return f"{text} {' '.join(humps)}" if humps else text
