"""How much of a text fits a number of tokens: found by halving, since tokens of a part are only known when counted."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["LEAST", "most_characters"]

LEAST = 60  # characters to which a text is shortened at most: less has no room for what says that it was
_CLOSE = 8  # characters at which the search ends
_PER_TOKEN = 4  # characters, about: what is searched ends at so many for each token of the room


def most_characters(fits: Callable[[int], bool], room: int, low: int = -1) -> int:
    """About the most characters that `fits` takes, where `room` tokens are left; `low` if it takes no more than that.

    >>> most_characters(lambda length: length <= 100, room=1_000) in range(92, 101)
    True
    """
    high = _PER_TOKEN * max(room, 0)
    while high - low > _CLOSE:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
