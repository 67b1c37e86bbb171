"""Fields of JSON that somebody else wrote: one that is missing, or of another kind, reads as an empty one.

>>> message = {"author": {"role": "user"}, "parts": ["Hi.", {"text": "Look."}]}
>>> text_in(message, "author", "role"), text_in(message, "author"), mappings_in(message, "parts")
('user', '', [{'text': 'Look.'}])
>>> time_of("2026-03-01T12:00:00Z") == time_of(1772366400), time_of("soon")
(True, None)
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

__all__ = ["joined_texts", "mapping_in", "mappings_in", "text_in", "time_of", "value_in"]


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
    """Return a time, given so, in ISO 8601 (UTC where it has no zone) or as seconds since 1970; None for none."""
    if isinstance(clock, datetime):
        return clock
    if not clock or isinstance(clock, bool):
        return None
    try:
        if not isinstance(clock, str) or clock.replace(".", "", 1).isdecimal():
            return datetime.fromtimestamp(float(clock), timezone.utc)
        time = datetime.fromisoformat(clock.replace("Z", "+00:00"))
        time = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        time.astimezone(timezone.utc)  # OverflowError, where no other zone has such a time
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return time
