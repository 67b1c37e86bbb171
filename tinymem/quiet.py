"""Errors as they are told in logs and in the messages of other errors: without what was said in a step.

The messages of tinymem's own errors hold ids, numbers, types and lengths, and no content. Those of others may quote
anything, so only their type and the place that they come from are told.
"""

from __future__ import annotations

import re
import traceback
from datetime import datetime
from pathlib import Path

from tinymem.errors import TinymemError

__all__ = ["kind_of", "name_of", "shown", "trace_of", "without_content"]

TOLD, SOURCES = (ImportError, OSError), ("builtins", "socket")  # their messages name files, packages and addresses
_WORD = re.compile(r"[\w.:-]{0,24}")


def without_content(error: BaseException) -> str:
    """What `error` is, and where it was raised; its message only if that cannot hold content.

    >>> without_content(ValueError("the password is 42"))
    'ValueError'
    """
    name = type(error).__name__
    if isinstance(error, TinymemError) or (isinstance(error, TOLD) and type(error).__module__ in SOURCES):
        return f"{name}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{name} in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else name


def trace_of(error: BaseException) -> str:
    """The same, below the lines of code that led there."""
    return "".join(traceback.format_tb(error.__traceback__)) + without_content(error)


def name_of(called: object) -> str:
    """The name of a callable, without what it was bound to.

    >>> name_of(name_of), name_of(print)
    ('name_of', 'print')
    """
    return str(getattr(called, "__qualname__", type(called).__name__))


def shown(value: object) -> str:
    """A wrong argument, if it is a number or a word; else what kind of value it is.

    >>> shown(-1), shown("wizard"), shown("the password is 42")
    ('-1', "'wizard'", 'a str of length 18')
    """
    if isinstance(value, (bool, int, float, datetime)) or (isinstance(value, str) and _WORD.fullmatch(value)):
        return f"{value!r:.80}"
    return kind_of(value)


def kind_of(value: object) -> str:
    """The type of a value that may hold content, and how much it holds.

    >>> kind_of("the password is 42"), kind_of({"a": 1}), kind_of(None)
    ('a str of length 18', 'a dict of length 1', 'None')
    """
    if value is None:
        return "None"
    size = f" of length {len(value)}" if isinstance(value, (str, bytes, list, tuple, dict, set, frozenset)) else ""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}{size}"
