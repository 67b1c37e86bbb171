"""Cutting a text to an exact number of tokens."""

from __future__ import annotations

from collections.abc import Callable

from tinymem.protocols import TokenCounter

__all__ = ["fitted", "longest"]

CUT = "…"
BACK = 40  # characters that are given up so that no word is cut in two
FIRST = 4_096  # characters that are tried first: of a huge text only what may fit is ever counted


def fitted(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """As much of the beginning of `text` as has at most `max_tokens`, and a … where it was cut.

    >>> from tinymem.tokens import default_counter
    >>> fitted("The staging server is at 10.0.0.7, behind the old firewall.", 8, default_counter())
    'The staging server is at…'
    """
    return longest(text, lambda shown: counter.count(shown) <= max_tokens)


def longest(text: str, fits: Callable[[str], bool]) -> str:
    """The longest beginning of `text` that `fits`, by preference at a word's end, with a … where it was cut; "" for
    none.

    Where a text fits, so must every beginning of it.
    """
    high = min(len(text), FIRST)
    while high < len(text) and fits(text[:high]):
        high = min(len(text), 4 * high)
    if high == len(text) and fits(text):
        return text
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(text[:middle] + CUT) else (low, middle)
    shown = _whole_words(text, low)
    while shown and not fits(shown + CUT):  # a tokenizer may want more tokens for less text
        shown = shown[:-1]
    return shown and shown + CUT


def _whole_words(text: str, end: int) -> str:
    """`text[:end]`, less the word that ends behind it, if that begins not far before."""
    if text[end : end + 1].isspace():
        return text[:end].rstrip()
    space = max(text.rfind(space, max(0, end - BACK), end) for space in (" ", "\n"))
    return text[: space if space >= 0 else end].rstrip()
