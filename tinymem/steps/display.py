"""Values and texts as a model sees them: bounded, and with no line that could pass for one of the memory's own."""

from __future__ import annotations

import reprlib
from itertools import islice
from typing import Any

from tinymem.steps.content import clean

__all__ = ["hanging", "one_line", "short_repr", "type_name"]

SHOWN = 100  # characters of a value's repr


def short_repr(value: object, length: int = SHOWN, mark: str = "…") -> str:
    """Return `repr(value)` on one line, cut behind `length` characters. It never raises.

    Of lists, tuples, dicts, sets, deques and texts no more is read than is shown, however much they hold. Other objects
    give their own repr. Members of a set are put in order, where they have one.

    >>> short_repr(list(range(10**6)), 12)
    '[0, 1, 2, 3,…'

    Args:
        value: Any object.
        length: The most characters to show.
        mark: What stands behind a repr that was cut.
    """
    try:
        text = _Repr(length).repr(value)
    except Exception as error:  # as when another thread changes what is read
        text = _no_repr(value, error)
    return text if len(text) <= length else f"{text[:length]}{mark}"


def one_line(text: str) -> str:
    """Join the lines of `text` by spaces and replace its control characters."""
    return clean(" ".join(line.strip() for line in text.splitlines()))


def hanging(text: str) -> str:
    r"""Indent every line of `text` but the first, and replace its control characters.

    >>> hanging("two\nlines")
    'two\n    lines'
    """
    return "\n    ".join(clean(text).splitlines())


def type_name(value: object) -> str:
    """Return the name of the value's type, on one line."""
    return one_line(type(value).__name__)[:SHOWN]


class _Repr(reprlib.Repr):
    """Python's bounded repr, but with nothing left out before `length` characters are there, and nothing read after."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length, self._left = length, length + 1
        self.maxlevel = self.maxlist = self.maxtuple = self.maxdeque = self.maxset = self.maxfrozenset = length + 1

    def repr1(self, x: Any, level: int) -> str:
        if self._left <= 0:
            return ""  # all that comes is behind the cut
        before = self._left
        self._left -= 1  # so that empty containers inside each other come to an end
        text = super().repr1(x, level)
        self._left = min(self._left, before - len(text))
        return text

    def repr_str(self, x: Any, level: int) -> str:
        return repr(x[: self._length + 1])

    repr_bytes = repr_bytearray = repr_str

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        pairs = islice(x.items(), self._length + 1)
        return f"{{{', '.join(f'{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}' for k, v in pairs)}}}"

    def repr_instance(self, x: Any, level: int) -> str:
        try:
            text = str.__str__(repr(x))  # a subclass of str may lie about its length and its slices
        except (Exception, SystemExit) as error:
            return _no_repr(x, error)
        return one_line(text[: 10 * self._length])  # of which line breaks and what stands around them are left out

    repr_int = repr_instance  # Python may refuse to write its digits


def _no_repr(value: object, error: BaseException) -> str:
    return f"<{type_name(value)}, whose repr raises {type_name(error)}>"
