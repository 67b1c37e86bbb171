"""Cutting of texts to a number of tokens: by halving, since the tokens of a part are only known when counted."""

from __future__ import annotations

from collections.abc import Callable

from tinymem.protocols import TokenCounter

__all__ = ["LEAST", "beginning", "fitted", "longest", "most_characters"]

LEAST = 60  # characters that a shortened text keeps at least: fewer leave no room for the mark
_CLOSE = 8  # characters at which the search ends
_CUT = "…"
_BACK = 40  # characters that are given up so that no word is cut in two
_FIRST = 4_096  # characters that are tried first: of a huge text only what may fit is ever counted

_PER_TOKEN = 4  # characters, about: what is searched ends at so many for each token of the room


def most_characters(fits: Callable[[int], bool], room: int, low: int = -1, close: int = _CLOSE) -> int:
    """Find the most characters that `fits` accepts, less up to `close`, where `room` tokens are left.

    The result is `low` if `fits` accepts no more than that.

    >>> most_characters(lambda length: length <= 100, room=1_000) in range(92, 101)
    True
    """
    return _search(fits, low, _PER_TOKEN * max(room, 0), close)


def _search(fits: Callable[[int], bool], low: int, high: int, close: int) -> int:
    while high - low > close:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def longest(make: Callable[[int], str], max_tokens: int, counter: TokenCounter) -> str:
    """Return `make(length)` for the greatest length, in characters, that has at most `max_tokens`; "" if none has.

    >>> from tinymem.messages.tokens import default_counter
    >>> longest(lambda length: "word " * (length // 5), 20, default_counter()).count("word") in range(14, 20)
    True
    """
    length = most_characters(lambda most: counter.count(make(most)) <= max_tokens, max_tokens, close=1)
    return make(length) if length >= 0 else ""


def fitted(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """Cut `text` to the longest beginning of at most `max_tokens`, with a … where it was cut.

    >>> from tinymem.messages.tokens import default_counter
    >>> fitted("The staging server is at 10.0.0.7, behind the old firewall.", 8, default_counter())
    'The staging server is at…'
    """
    return beginning(text, lambda shown: counter.count(shown) <= max_tokens)


def beginning(text: str, fits: Callable[[str], bool]) -> str:
    """Cut `text` to the longest beginning that `fits`, at a word's end where possible, with a … where it was cut.

    The result is "" if nothing fits. Where a text fits, so must every beginning of it.
    """
    high = min(len(text), _FIRST)
    while high < len(text) and fits(text[:high]):
        high = min(len(text), 4 * high)
    if high == len(text) and fits(text):
        return text
    shown = _whole_words(text, _search(lambda length: fits(text[:length] + _CUT), 0, high, 1))
    while shown and not fits(shown + _CUT):  # a tokenizer may want more tokens for less text
        shown = shown[:-1]
    return shown and shown + _CUT


def _whole_words(text: str, end: int) -> str:
    """Return `text[:end]`, less a word that is cut in two by `end` and begins not far before."""
    if text[end : end + 1].isspace():
        return text[:end].rstrip()
    space = max(text.rfind(space, max(0, end - _BACK), end) for space in (" ", "\n"))
    return text[: space if space >= 0 else end].rstrip()
