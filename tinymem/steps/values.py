"""Values that JSON holds: what a scratchpad and the results of actions keep as they are."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from tinymem.errors import InputError
from tinymem.steps.content import freeze, to_mutable
from tinymem.steps.display import type_name

__all__ = ["to_plain"]

MOST_PIECES = 4_000_000  # of the JSON of one value: an item has one to four
_JSON = json.JSONEncoder(allow_nan=False, ensure_ascii=False)


def to_plain(value: Any) -> Any:
    """Copy `value` into None, bool, int, float, str, list and dict, inside each other; a tuple becomes a list.

    >>> to_plain({"size": (2, 3)})
    {'size': [2, 3]}

    Raises:
        InputError: JSON does not hold it: it is of another type, nan, infinite or an int of thousands of digits, has a
            key that is no text, is inside itself, over 100 levels deep, or of over a million items.
    """
    try:
        # What is longer is cut, and so no JSON any more: a small list of itself may be endless when it is written.
        plain = to_mutable(freeze(json.loads("".join(islice(_JSON.iterencode(value), MOST_PIECES)))))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"a value of type {type_name(value)} cannot be saved: {error}") from error
    if plain != to_mutable(value):
        raise InputError(f"a {type_name(value)} with a key that is no text cannot be saved")
    return plain
