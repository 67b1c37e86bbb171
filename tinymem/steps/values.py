"""Exact JSON for Python values: what is read again is equal to what was written, and of the same types.

What JSON lacks is tagged, as in `{"$type": "tuple", "value": [1, 2]}`. Nothing is pickled, so reading runs no code.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, timezone
from typing import Any

from tinymem.errors import FormatError, InputError, safe_repr
from tinymem.steps.display import type_name

__all__ = ["TAG", "decode", "encode"]

TAG = "$type"  # in a mapping that stands for what JSON lacks
MOST_BITS = 2_000  # of an int that is written in digits: Python may refuse from 640 digits on
MOST_DEPTH = 100  # containers inside each other
MOST_ITEMS = 1_000_000  # in one value
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")  # two lone surrogates, which JSON would read as one character


def encode(value: Any) -> Any:
    """Write `value` as JSON values.

    None, bool, int, float (inf and nan too), str, bytes, datetime, date, list, tuple, set, frozenset and dict, inside
    each other, but no subclasses of them. A list that stands at two places comes back as two.

    >>> encode({"size": (2, 3)})
    {'size': {'$type': 'tuple', 'value': [2, 3]}}

    Raises:
        InputError: The value would not come back as it is: it is of another type, inside itself, over 100 levels deep,
            or of over a million items.
    """
    return _Encoder()(value)


def decode(value: Any) -> Any:
    """Read the value of which `encode` made this JSON; FormatError for JSON that `encode` never makes."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: decode(item) for key, item in value.items()}
    kind = value[TAG]
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None or "value" not in value:
        raise FormatError(f"{safe_repr(kind)} with a value is no type that this version reads: upgrade tinymem")
    try:
        return read(value["value"])
    except (TypeError, ValueError) as error:
        raise FormatError(f"the value is no {kind} ({type(error).__name__})") from error


class _Encoder:
    """The encoding of one value: remembers the containers it is inside of, and counts items."""

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._left = MOST_ITEMS

    def __call__(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise InputError(f"a value of over {MOST_ITEMS} items cannot be saved")
        if value is None or type(value) is bool:
            return value
        if type(value) in _WRITERS:
            return _WRITERS[type(value)](value)
        if type(value) not in (list, tuple, set, frozenset, dict):
            raise InputError(f"a value of type {type_name(value)} cannot be saved")
        if id(value) in self._inside or len(self._inside) == MOST_DEPTH:
            raise InputError(f"a {type_name(value)} inside itself, or {MOST_DEPTH} levels deep, cannot be saved")
        self._inside.add(id(value))
        coded = self._dict(value) if type(value) is dict else self._list(value)
        self._inside.discard(id(value))
        return coded

    def _list(self, value: Any) -> Any:
        items = [self(item) for item in tuple(value)]  # a copy: another thread may change it
        if isinstance(value, (set, frozenset)):
            items.sort(key=json.dumps)  # hashes differ from process to process
        return items if type(value) is list else _tagged(type(value).__name__, items)

    def _dict(self, value: dict[Any, Any]) -> Any:
        pairs = list(value.items())
        if all(type(key) is str and key != TAG and not _PAIR.search(key) for key, _ in pairs):
            return {key: self(item) for key, item in pairs}
        return _tagged("dict", [[self(key), self(item)] for key, item in pairs])


def _tagged(kind: str, value: Any) -> dict[str, Any]:
    return {TAG: kind, "value": value}


def _write_str(value: str) -> Any:
    if value.isascii() or not _PAIR.search(value):
        return value
    return _tagged("str", base64.b64encode(value.encode("utf-8", "surrogatepass")).decode())


def _write_time(value: date) -> Any:
    """Write a date or time in ISO format, if nothing gets lost by that, as a zone's name would."""
    fixed = type(getattr(value, "tzinfo", None)) in (type(None), timezone)
    if not fixed or repr(type(value).fromisoformat(value.isoformat())) != repr(value):
        raise InputError(f"a {type_name(value)} with a named zone or a fold cannot be saved")
    return _tagged(type_name(value), value.isoformat())


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list is needed, not {type(value).__name__}")
    return [decode(item) for item in value]


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value, validate=True)


_WRITERS: dict[type, Callable[[Any], Any]] = {
    int: lambda value: value if value.bit_length() <= MOST_BITS else _tagged("int", hex(value)),
    float: lambda value: value if math.isfinite(value) else _tagged("float", repr(value)),
    str: _write_str,
    bytes: lambda value: _tagged("bytes", base64.b64encode(value).decode()),
    datetime: _write_time,
    date: _write_time,
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda value: int(value, 16),
    "float": float,
    "str": lambda value: _bytes(value).decode("utf-8", "surrogatepass"),
    "bytes": _bytes,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "tuple": lambda value: tuple(_items(value)),
    "set": lambda value: set(_items(value)),
    "frozenset": lambda value: frozenset(_items(value)),
    "dict": lambda value: dict(_items(value)),
}
