"""Checks of arguments: each returns the value, or raises an InputError that names the argument."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TypeAlias, TypeVar, overload

from tinymem.errors import InputError, describe_type, safe_repr
from tinymem.steps.content import clean

__all__ = [
    "Time",
    "check_callable",
    "check_choice",
    "check_instance",
    "check_iterable",
    "check_non_negative_int",
    "check_number",
    "check_numbers",
    "check_str",
    "check_strings",
    "check_token_budget",
    "to_path",
    "to_utc",
]  # fmt: skip

# seconds since 1970, a datetime, in UTC unless it has a time zone, a day, or one of these as text in ISO 8601
Time: TypeAlias = float | datetime | date | str

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def check_str(name: str, value: str) -> str:
    """Check a string, and replace characters that cannot be stored."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, not {type(value).__name__}")
    return clean(value)


@overload
def to_utc(name: str, value: Time, error: type[InputError] = InputError) -> datetime: ...
@overload
def to_utc(name: str, value: Time | None, error: type[InputError] = InputError) -> datetime | None: ...
def to_utc(name: str, value: Time | None, error: type[InputError] = InputError) -> datetime | None:
    """Convert a time to an aware datetime; None stays None.

    A datetime without a time zone is in UTC. A day is its first moment, and as `until` its last one.

    >>> to_utc("since", 0.5).isoformat(), to_utc("until", "2025-01-31").isoformat()
    ('1970-01-01T00:00:00.500000+00:00', '2025-01-31T23:59:59.999999+00:00')

    Raises:
        InputError: Or `error`, where given: the value is a bool, nan, or a number of seconds that no datetime can hold.
    """
    if isinstance(value, str):
        value = _read_iso(name, value.strip(), error)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time.max if name == "until" else time.min)
    if value is None or (isinstance(value, datetime) and value.utcoffset() is not None):
        return value
    if isinstance(value, datetime):
        return value.replace(tzinfo=timezone.utc)
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            return _EPOCH + timedelta(seconds=float(value))
        except (OverflowError, ValueError):
            raise error(f"{name} must be seconds between the years 1 and 9999, not {safe_repr(value)}") from None
    raise error(f"{name} must be a datetime or a number of seconds since 1970, not {describe_type(value)}")


def _read_iso(name: str, text: str, error: type[InputError]) -> date:
    try:
        return (date if len(text) == len("2025-03-01") else datetime).fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise error(
            f"{name} must be a datetime, or text as 2025-03-01 or 2025-03-01T12:00, not {describe_type(text)}"
        ) from None


def to_path(name: str, value: str | PathLike[str]) -> Path:
    """Check a path of the file system, given as text or as a path."""
    if isinstance(value, str) and value.startswith(("postgresql:", "postgres:")):  # it may hold a password
        raise InputError(f"{name} must be a folder or a file here, not the address of a database")
    try:
        return Path(value)
    except TypeError:  # bytes too
        raise InputError(f"{name} must be a path, as text or as a pathlib.Path, not {safe_repr(value)}") from None


def check_callable(name: str, value: T) -> T:
    """Check a callable; None passes."""
    if value is not None and not callable(value):
        raise InputError(f"{name} must be a callable, not {safe_repr(value)}")
    return value


def check_number(name: str, value: float, least: float = 0, most: float = math.inf) -> float:
    """Check a number from `least` to `most`, both included; no bool, nan or infinity."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= value <= most or math.isinf(value):
        limits = f"of {least:g} or more" if most == math.inf else f"from {least:g} to {most:g}"
        raise InputError(f"{name} must be a number {limits}, not {safe_repr(value)}")
    return value


def check_instance(name: str, value: T, kind: type, or_none: bool = False) -> T:
    """Check an object of the class `kind`."""
    if not isinstance(value, kind) and not (or_none and value is None):
        raise InputError(f"{name} must be a {kind.__name__}, {kind.__name__}(...), not {safe_repr(value)}")
    return value


def check_iterable(name: str, values: Iterable[T]) -> Iterable[T]:
    """Check a list or another iterable; neither a text nor a mapping passes."""
    if type(values) is list or type(values) is tuple:
        return values
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        hint = ": put it in a list" if isinstance(values, str) else ""
        raise InputError(f"{name} must be a list, not {describe_type(values)}{hint}")
    return values


def check_strings(name: str, values: Iterable[str]) -> list[str]:
    """Check a list of strings, and return it as a new list."""
    found = list(check_iterable(name, values))
    for value in found:
        if not isinstance(value, str):
            raise InputError(f"{name} must be a list of strings, and {describe_type(value)} is in it")
    return found


def check_numbers(name: str, values: Iterable[int]) -> frozenset[int]:
    """Check a list of numbers of steps."""
    return frozenset(check_non_negative_int(name, value) for value in check_iterable(name, values))


def check_token_budget(name: str, value: int) -> int:
    """Check a number of tokens, an int of 1 or more."""
    return check_non_negative_int(name, value, 1, "number of tokens")


def check_non_negative_int(name: str, value: int, least: int = 0, kind: str = "whole number") -> int:
    """Check an int of `least` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a {kind} of {least} or more, not {safe_repr(value)}")
    return value


def check_choice(name: str, value: str, *choices: str) -> None:
    """Check that `value` is one of `choices`."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, not {safe_repr(value)}")
