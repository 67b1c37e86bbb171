"""Recorded messages as steps, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from tinymem.errors import InputError, MessageError
from tinymem.messages.answers import OpenCall, open_calls, pending_calls
from tinymem.messages.conversion import steps_from_messages
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

__all__ = ["Said", "is_message", "said", "steps_of_messages"]

PIECE = 256  # messages that become steps at once, so that a long run is never in memory whole
_CONTINUED = {"role": "user", "content": "(before)"}  # stands for the pieces before, or a user message would be a task


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
    """Convert the messages of a run to steps, piece by piece."""
    pending: list[OpenCall] = []
    for number, piece in enumerate(_pieces(messages)):
        steps = []
        for step in _of_piece(piece, session, pending, continued=number > 0):
            steps.append(step)
            yield step
        answered = {step.tool_call_id for step in steps if isinstance(step, MessageStep)}
        pending = [call for call in pending if call.id not in answered]
        pending = [*pending_calls(steps, open_calls(steps)), *pending]


def _pieces(messages: Iterable[Said]) -> Iterator[list[Said]]:
    """Cut messages into pieces of about PIECE, calls and results together; yield those before a bad line, then fail."""
    piece: list[Said] = []
    try:
        for one in messages:
            if len(piece) >= PIECE and one.message["role"] not in ("tool", "function"):
                yield piece
                piece = []
            piece.append(one)
    except InputError:
        yield piece
        raise
    yield piece


def _of_piece(piece: list[Said], session: str, pending: list[OpenCall], continued: bool) -> Iterator[Step]:
    before = [_CONTINUED] if continued else []
    good, fault = piece, None
    while True:
        try:
            messages = [*before, *(one.message for one in good)]
            steps = steps_from_messages(messages, session=session, pending=pending)[len(before) :]
            break
        except MessageError as error:
            at = (error.index or 0) - len(before)
            what = str(error).removeprefix(f"message {error.index}: ")
            good, fault = good[:at], InputError(f"{piece[at].place}: {what}")
    at = 0
    for step in steps:
        moment = good[at].moment
        at += len(step.to_messages(style="tools"))
        yield step if moment is None else step.evolve(timestamp=moment)
    if fault is not None:
        raise fault
