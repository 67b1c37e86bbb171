"""Fields of JSON that somebody else wrote: one that is missing, or of another kind, reads as an empty one.

>>> message = {"author": {"role": "user"}, "parts": ["Hi.", {"text": "Look."}]}
>>> text_in(message, "author", "role"), text_in(message, "author"), mappings_in(message, "parts")
('user', '', [{'text': 'Look.'}])
>>> {time_of(clock) for clock in ("2026-03-01T12:00:00Z", 1772366400, "1772366400000", "20260301120000")}
{datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.timezone.utc)}
>>> time_of("soon"), time_of(12.5)
(None, None)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

__all__ = ["joined_texts", "mapping_in", "mappings_in", "text_in", "time_of", "value_in"]

FIRST, LAST = 1e8, 1e11  # seconds since 1970 that are a time: of 1973, and of the year 5138
_NUMBER = re.compile(r"-?\d+(\.\d*)?")
_DIGITS = re.compile(r"((?:19|20)\d\d)(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?")  # 20260301, 202603011200, 20260301120000
_FRACTION = re.compile(r"(?<=\d)[.,](\d+)")
_UTC = re.compile(r"\s*(Z|UTC|GMT)\Z")


def value_in(value: Any, *path: str) -> Any:
    """Return what stands under these keys of mappings in mappings; None where there is nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def text_in(value: Any, *path: str) -> str:
    """Return the text under these keys; an empty one where there is none."""
    found = value_in(value, *path)
    return found if isinstance(found, str) else ""


def mapping_in(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping under these keys; an empty one where there is none."""
    found = value_in(value, *path)
    return found if isinstance(found, Mapping) else {}


def mappings_in(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the mappings in the list under these keys; none where there is no list."""
    found = value_in(value, *path)
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def joined_texts(content: Any) -> str:
    """Return a text, or the texts in a list of parts, a line each."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(part["text"] for part in parts if isinstance(value_in(part, "text"), str))


def time_of(clock: Any) -> datetime | None:
    """Return a time, given so, in ISO 8601 (UTC where it has no zone) or as a number; None for none.

    A number counts seconds since 1970, or thousandths, millionths or billionths of one, as its size says; what would be
    before 1973 is no time, as the seconds since a run began.
    """
    if isinstance(clock, datetime):
        return clock
    if not isinstance(clock, (str, int, float)) or isinstance(clock, bool):
        return None
    try:
        text = str(clock).strip()
        if digits := _DIGITS.fullmatch(text):
            text = "{}-{}-{}T{}:{}:{}".format(*digits.groups("00"))
        elif isinstance(clock, (int, float)) or _NUMBER.fullmatch(text):
            return _of_number(float(clock))
        text = _UTC.sub("+00:00", _FRACTION.sub(lambda found: f".{found[1]:0<6.6}", text))
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        time.astimezone(timezone.utc)  # OverflowError, where no other zone has such a time
    except (ValueError, OverflowError, OSError):
        return None
    return time


def _of_number(number: float) -> datetime | None:
    for _ in range(3):
        if number >= LAST:
            number /= 1_000
    return datetime.fromtimestamp(number, timezone.utc) if FIRST <= number < LAST else None
