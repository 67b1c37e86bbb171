"""Values and texts as they are shown to a model: bounded, and no line of them can pass for one of ours."""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tinymem.steps.content import clean

__all__ = ["hanging", "one_line", "short_repr", "type_name"]

SHOWN = 100  # characters of a value's repr
MOST_BITS = 2_000  # of an int whose digits are written: Python may refuse from 640 digits on
SORTED = 1_000  # members of a set up to which they are put in order, so that it looks the same in every process

_TEXTS = (str.__repr__, bytes.__repr__, bytearray.__repr__)
_LISTS = {
    list.__repr__: ("[", "]"),
    tuple.__repr__: ("(", ")"),
    deque.__repr__: ("deque([", "])"),
    type({}.keys()).__repr__: ("dict_keys([", "])"),
    type({}.values()).__repr__: ("dict_values([", "])"),
    type({}.items()).__repr__: ("dict_items([", "])"),
}
_DICTS = (dict.__repr__, OrderedDict.__repr__, defaultdict.__repr__, Counter.__repr__)


def short_repr(value: object, length: int = SHOWN, mark: str = "…") -> str:
    """`repr(value)` on one line, cut behind `length` characters, where `mark` then stands; it never raises.

    Of the containers and texts of Python and its collections, named tuples and dataclasses, no more is read than is
    shown, however much they hold. Other objects are asked for their own repr.

    >>> short_repr(list(range(10**6)), 12)
    '[0, 1, 2, 3,…'
    """
    try:
        text = _first(_pieces(value, length), length)
    except Exception as error:  # as when another thread changes what is read
        text = _no_repr(value, error)
    return text if len(text) <= length else f"{text[:length]}{mark}"


def one_line(text: str) -> str:
    """`text` with its lines joined by spaces and its control characters replaced."""
    return clean(" ".join(line.strip() for line in text.splitlines()))


def hanging(text: str) -> str:
    """`text` with every line but the first indented, and control characters replaced.

    >>> hanging("two\\nlines")
    'two\\n    lines'
    """
    return "\n    ".join(clean(text).splitlines())


def type_name(value: object) -> str:
    """The name of the value's type, on one line."""
    return one_line(type(value).__name__)[:SHOWN]


def _first(pieces: Iterable[str], length: int) -> str:
    """The pieces one behind the other, as far as more than `length` characters need them."""
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > length:
            break
    return text


def _pieces(value: object, length: int) -> Iterator[str]:
    """The repr of `value` piece by piece: who stops asking has not built the rest."""
    own = type(value).__repr__
    if own in _LISTS and isinstance(value, Iterable):
        yield from _enclosed(_LISTS[own], value, length, ",)" if own is tuple.__repr__ else "")
    elif isinstance(value, dict) and own in _DICTS:
        yield from _mapping(value, length)
    elif isinstance(value, (set, frozenset)) and own in (set.__repr__, frozenset.__repr__):
        yield from _members(value, length)
    elif isinstance(value, (str, bytes, bytearray)) and own in _TEXTS:
        yield repr(value[: length + 1])
    elif isinstance(value, int) and own is int.__repr__ and value.bit_length() > MOST_BITS:
        yield f"<int of {value.bit_length()} bits>"
    elif (fields := _fields(value)) is not None:
        yield from _record(value, fields, length)
    else:
        yield _own_repr(value, length)


def _enclosed(brackets: tuple[str, str], items: Iterable[object], length: int, one: str = "") -> Iterator[str]:
    opening, closing = brackets
    at = -1
    yield opening
    for at, item in enumerate(islice(items, length + 1)):
        if at:
            yield ", "
        yield from _pieces(item, length)
    yield one if one and at == 0 else closing


def _mapping(value: dict[object, object], length: int) -> Iterator[str]:
    name = "" if type(value).__repr__ is dict.__repr__ else type_name(value)
    yield f"{name}({{" if name else "{"
    for at, (key, item) in enumerate(islice(value.items(), length + 1)):
        if at:
            yield ", "
        yield from _pieces(key, length)
        yield ": "
        yield from _pieces(item, length)
    yield "})" if name else "}"


def _members(value: set[object] | frozenset[object], length: int) -> Iterator[str]:
    name = "" if type(value) is set and value else type_name(value)
    if not value:
        yield f"{name}()"
        return
    shown: Iterable[str] = (short_repr(member, length) for member in value)
    if len(value) <= SORTED:
        shown = [text for *_, text in sorted(map(_rank, value, shown))]
    yield f"{name}({{" if name else "{"
    for at, text in enumerate(islice(shown, length + 1)):
        yield f", {text}" if at else text
    yield "})" if name else "}"


def _rank(member: object, text: str) -> tuple[str, Any, str]:
    """What puts a set's members in order: numbers and texts by their values, others by how they look."""
    return type_name(member), member if type(member) in (int, float, str) else 0, text


def _fields(value: object) -> list[str] | None:
    """The names of the fields that a named tuple's or a dataclass's generated repr shows; None for anything else."""
    own = type(value).__repr__
    if isinstance(value, tuple) and getattr(own, "__module__", "") == "collections":
        return list(getattr(value, "_fields", ()))
    if dataclasses.is_dataclass(value) and hasattr(own, "__wrapped__") and not isinstance(value, type):
        return [field.name for field in dataclasses.fields(value) if field.repr]
    return None


def _record(value: object, fields: Iterable[str], length: int) -> Iterator[str]:
    yield f"{type_name(value)}("
    for at, name in enumerate(fields):
        yield f"{', ' if at else ''}{name}="
        yield from _pieces(getattr(value, name), length)
    yield ")"


def _own_repr(value: object, length: int) -> str:
    try:
        text = str.__str__(repr(value))  # a subclass of str may lie about its length and its slices
    except (Exception, SystemExit) as error:
        return _no_repr(value, error)
    most = 10 * length  # of which the line breaks and what stands around them are left out
    return one_line(text) if len(text) <= most else f"{one_line(text[:most])}…"


def _no_repr(value: object, error: BaseException) -> str:
    return f"<{type_name(value)}, whose repr raises {type_name(error)}>"
