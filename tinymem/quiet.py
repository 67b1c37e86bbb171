"""Errors as they are told in logs and in the messages of other errors: without what was said in a step.

The messages of tinymem's own errors hold ids, numbers, types and lengths, and no content. Those of others may quote
anything, so only their type and the place that they come from are told.
"""

from __future__ import annotations

import sqlite3
import traceback
from pathlib import Path

from tinymem.errors import TinymemError

__all__ = ["kind_of", "name_of", "without_content"]

TOLD = (TinymemError, ImportError, OSError, sqlite3.Error)  # whose messages name files, addresses and packages only


def without_content(error: BaseException) -> str:
    """What `error` is, and where it was raised; its message only if that cannot hold content.

    >>> without_content(ValueError("the password is 42"))
    'ValueError'
    """
    name = type(error).__name__
    if isinstance(error, TOLD):
        return f"{name}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{name} in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else name


def name_of(called: object) -> str:
    """The name of a callable, without what it was bound to.

    >>> name_of(name_of), name_of(print)
    ('name_of', 'print')
    """
    return str(getattr(called, "__qualname__", type(called).__name__))


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
