"""Values that JSON holds: what a scratchpad and the results of actions keep as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tinymem.errors import InputError
from tinymem.steps.display import MOST_BITS, type_name

__all__ = ["to_plain"]

MOST_DEPTH = 100  # containers inside each other
MOST_ITEMS = 1_000_000  # in one value


def to_plain(value: Any) -> Any:
    """Copy `value` into None, bool, int, float, str, list and dict, inside each other; a tuple becomes a list.

    >>> to_plain({"size": (2, 3)})
    {'size': [2, 3]}

    Raises:
        InputError: JSON does not hold it: it is of another type, nan, infinite or an int of over 2,000 bits, has a key
            that is no text, is inside itself, over 100 levels deep, or of over a million items.
    """
    return _copy(value, MOST_DEPTH, iter(range(MOST_ITEMS)))


def _copy(value: Any, levels: int, items_left: Iterator[int]) -> Any:
    if next(items_left, None) is None:
        raise InputError(f"a value of over {MOST_ITEMS} items cannot be saved")
    if _is_atom(value):
        return value
    kind = type(value)
    if not issubclass(kind, (dict, list, tuple)):
        raise InputError(f"a value of type {type_name(value)} cannot be saved")
    if not levels:
        raise InputError(f"a {type_name(value)} inside itself, or {MOST_DEPTH} levels deep, cannot be saved")
    if issubclass(kind, dict):
        pairs = list(dict.items(value))  # a copy: another thread may change it
        if not all(type(key) is str for key, _ in pairs):
            raise InputError(f"a {type_name(value)} with a key that is no text cannot be saved")
        return {key: _copy(item, levels - 1, items_left) for key, item in pairs}
    items = list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)
    return [_copy(item, levels - 1, items_left) for item in items]


def _is_atom(value: Any) -> bool:
    """Return whether JSON has a number, text or word for `value`."""
    if type(value) is int:
        return value.bit_length() <= MOST_BITS
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, str)
