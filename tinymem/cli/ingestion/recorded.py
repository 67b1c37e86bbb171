"""Recorded messages and utterances as steps, each with the place in the file that it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from tinymem.errors import InputError, MessageError
from tinymem.messages.answers import OpenCall, open_calls, pending_calls
from tinymem.messages.conversion import steps_from_messages
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

__all__ = ["Said", "is_message", "said", "steps_of_messages", "steps_of_units"]

PIECE = 256  # messages that are turned into steps at once, so that a long run is never in memory whole
KNOWN = ("system", "user", "assistant")  # speakers that are roles; all others are people
_CONTINUED = {"role": "user", "content": "(before)"}  # stands for what a piece goes on from: it has the run's task


class Said(NamedTuple):
    """A message with where it stands in the file and when it was said, if the file tells."""

    place: str
    message: Mapping[str, Any]
    moment: datetime | None = None


def is_message(value: Any) -> bool:
    """Whether it looks like a chat message."""
    return isinstance(value, Mapping) and isinstance(value.get("role"), str)


def said(value: Any, place: str) -> Said:
    """A message as it was written, less what mini-swe-agent keeps beside it; its closing role is made the user's."""
    if not is_message(value):
        what = (
            f"has only {', '.join(map(repr, value))[:200]}"
            if isinstance(value, Mapping)
            else f"is {type(value).__name__}"
        )
        raise InputError(f"{place}: should be a message with a role, and {what}")
    extra = value.get("extra")
    clock = value.get("timestamp", extra.get("timestamp") if isinstance(extra, Mapping) else None)
    message = {key: one for key, one in value.items() if key not in ("extra", "timestamp")}
    if message["role"] == "exit":
        message["role"] = "user"
    return Said(place, message, _moment(clock, place))


def _moment(clock: Any, place: str) -> datetime | None:
    """A time as ISO 8601 (UTC where it has no zone) or as seconds since 1970."""
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
    """Steps of a run's messages, piece by piece."""
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
    """Pieces of about PIECE messages, calls and results together. What came before a bad line is given first."""
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


def steps_of_units(units: Sequence[Any], place: str, name: str) -> Iterator[Step]:
    """Steps of a haystack. Only speaker, text, time, session and tool calls are looked at: the rest is for scoring."""
    placed = [(_checked_unit(unit, f"{place}, unit {at}"), f"{place}, unit {at}") for at, unit in enumerate(units)]
    if any(unit.get("tool_calls") or unit.get("tool_call_id") for unit, _ in placed):
        return steps_of_messages((_unit_said(unit, where) for unit, where in placed), name)
    return (_unit_step(unit, where, name) for unit, where in placed)


def _checked_unit(unit: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(unit, Mapping) or not all(isinstance(unit.get(key), str) for key in ("speaker", "text")):
        raise InputError(f"{place}: should have a speaker and a text")
    return unit


def _unit_step(unit: Mapping[str, Any], place: str, name: str) -> Step:
    speaker, moment = unit["speaker"], _moment(unit.get("timestamp"), place)
    session = name if unit.get("session") is None else f"{name}/{unit['session']}"
    if speaker in KNOWN:
        step = MessageStep(speaker, unit["text"], session=session)
    else:
        step = MessageStep("user", unit["text"], speaker=speaker, session=session)
    return step if moment is None else step.evolve(timestamp=moment)


def _unit_said(unit: Mapping[str, Any], place: str) -> Said:
    speaker, moment = unit["speaker"], _moment(unit.get("timestamp"), place)
    if unit.get("tool_call_id") is not None:
        return Said(place, {"role": "tool", "tool_call_id": unit["tool_call_id"], "content": unit["text"]}, moment)
    message: dict[str, Any] = {"role": speaker if speaker in KNOWN else "user", "content": unit["text"]}
    if speaker not in KNOWN:
        message["name"] = speaker
    if unit.get("tool_calls"):
        message["tool_calls"] = [_unit_call(call, place) for call in unit["tool_calls"]]
    return Said(place, message, moment)


def _unit_call(call: Any, place: str) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        raise InputError(f"{place}: a tool call should have an id, a name and arguments")
    function = {"name": call.get("name"), "arguments": call.get("arguments")}
    return {"id": call.get("id"), "type": "function", "function": function}
