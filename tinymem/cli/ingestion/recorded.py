"""Recorded messages as steps, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from tinymem.errors import InputError, MessageError
from tinymem.messages.conversion import steps_from_messages
from tinymem.steps.step import Step

__all__ = ["Said", "is_message", "said", "steps_of_messages"]


class Said(NamedTuple):
    """A message, its place in the file, and when it was said, if the file has that."""

    place: str
    message: Mapping[str, Any]
    moment: datetime | None = None


def is_message(value: Any) -> bool:
    """Return True for what looks like a chat message."""
    return isinstance(value, Mapping) and isinstance(value.get("role"), str)


def said(value: Any, place: str) -> Said:
    """Check a message, and remove what mini-swe-agent adds to it; its closing role "exit" becomes "user"."""
    if not is_message(value):
        keys = f"has only {', '.join(map(repr, value))[:200]}" if isinstance(value, Mapping) else None
        raise InputError(f"{place}: should be a message with a role, and {keys or f'is {type(value).__name__}'}")
    extra = value.get("extra")
    clock = value.get("timestamp", extra.get("timestamp") if isinstance(extra, Mapping) else None)
    message = {key: one for key, one in value.items() if key not in ("extra", "timestamp")}
    if message["role"] == "exit":
        message["role"] = "user"
    return Said(place, message, _moment(clock, place))


def _moment(clock: Any, place: str) -> datetime | None:
    """Parse a time: ISO 8601 (UTC where it has no zone), or seconds since 1970."""
    if clock is None or clock == "":
        return None
    try:
        if isinstance(clock, str):
            time = datetime.fromisoformat(clock.replace("Z", "+00:00"))
            return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        return datetime.fromtimestamp(clock, timezone.utc)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise InputError(f"{place}: {clock!r} is no time") from error


def steps_of_messages(messages: Iterable[Said], session: str) -> Iterator[Step]:
    """Convert the messages of a run to steps; yield those before a malformed message, then fail."""
    good: list[Said] = []
    fault: InputError | None = None
    try:
        for one in messages:
            good.append(one)
    except InputError as error:
        fault = error
    while True:
        try:
            steps = steps_from_messages([one.message for one in good], session=session)
            break
        except MessageError as error:
            at = error.index or 0
            what = str(error).removeprefix(f"message {error.index}: ")
            good, fault = good[:at], InputError(f"{good[at].place}: {what}")
    at = 0
    for step in steps:
        moment = good[at].moment
        at += len(step.to_messages(style="tools"))
        yield step if moment is None else step.evolve(timestamp=moment)
    if fault is not None:
        raise fault
