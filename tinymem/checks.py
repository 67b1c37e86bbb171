"""Checks of what the public calls are given: each returns the value, or raises an InputError that names it."""

from __future__ import annotations

from datetime import datetime

from tinymem.content import clean
from tinymem.errors import InputError
from tinymem.quiet import shown

__all__ = ["a_text", "an_aware_time", "one_of", "some_tokens", "whole_number"]


def a_text(name: str, value: str) -> str:
    """A string, with what cannot be stored replaced."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, not {type(value).__name__}")
    return clean(value)


def an_aware_time(name: str, value: datetime | None) -> datetime | None:
    """A datetime with a time zone, or None."""
    if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
        raise InputError(f"{name} must be an aware datetime (with a time zone), not {shown(value)}")
    return value


def some_tokens(name: str, value: int) -> int:
    """A whole number of tokens, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a number of tokens of 1 or more, not {shown(value)}")
    return value


def whole_number(name: str, value: int) -> int:
    """`value`, if it is an int of 0 or more; InputError names the argument otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{name} must be a whole number of 0 or more, not {shown(value)}")
    return value


def one_of(name: str, value: str, *choices: str) -> None:
    """InputError unless `value` is one of `choices`."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, not {shown(value)}")
