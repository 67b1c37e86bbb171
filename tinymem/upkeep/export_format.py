"""The format of a memory as JSON lines, and the checks of lines that are read.

::

    {"tinymem_export":2,"embedder":"static","fingerprint":"...","next_number":4,"steps":3}
    {"step":{...},"tokens":12,"position":0}                          oldest first; `step` as `Step.to_dict` gives it
    {"step":{...},"tokens":9,"position":12,"milestone":true}
    {"step":{...},"tokens":80,"position":21,"window":true,"view":{...}}      in the window, shown shortened
    {"messages":[["90aa...",1,2,true]]}     messages by a hash of what they say: how often then, step, if it is its last
    {"episode":{"first":1,"last":2,"session":null,"text":"..."}}
    {"scratchpad":{...}}
    {"end":{"steps":3,"episodes":1}}

`tokens` is what a step costs when sent, `position` what all before it did; `archived` is the time when it left the
window, in seconds. Messages are those of `tinymem.messages.recognition`. All is ASCII. Not in it are the key of the
fences, passages, their vectors and terms, calls that wait for a result (all these are made of the steps), and whatever
else a memory can do without.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tinymem.archive.rows import row_of
from tinymem.archive.scratchpad_format import read_dump
from tinymem.errors import FormatError, InputError, describe_type, safe_repr
from tinymem.messages.tokens import EstimatingCounter, count_message
from tinymem.protocols import MessageRow, StepRow, SummaryRow
from tinymem.steps.content import check_content, clean
from tinymem.steps.serialization import dump_step
from tinymem.steps.types import ROLES, Step

__all__ = ["FORMAT", "EpisodeLines", "Header", "read_end", "read_header", "read_messages", "read_step",
           "scratchpad_of", "step_line", "to_line"]  # fmt: skip

FORMAT = 2
MOST = 1 << 53  # the largest number that every JSON reader can hold
LONGEST_HASH = 64  # characters


@dataclass(frozen=True)
class Header:
    """The first line: the embedder's name (None: not known) and fingerprint, the next number, the count of steps."""

    embedder: str | None
    fingerprint: str
    next_number: int
    steps: int


# -- out --------------------------------------------------------------------------------------------------------------


def to_line(value: Any) -> str:
    """Return a value as a line of compact ASCII JSON."""
    return json.dumps(value, separators=(",", ":")) + "\n"


def step_line(row: StepRow) -> str:
    """Return the line of a step; JSON of the journal is copied as it is."""
    more = [f'"tokens":{row.tokens}', f'"position":{row.position}']
    more += [f'"archived":{row.archived!r}'] * (row.archived is not None)
    more += ['"window":true'] * bool(row.window) + ['"milestone":true'] * bool(row.milestone)
    if row.view is not None:
        more.append(f'"view":{row.view}')
    return f'{{"step":{row.record},{",".join(more)}}}\n'


# -- in ---------------------------------------------------------------------------------------------------------------


def read_header(value: Any) -> Header:
    """The header; FormatError for that of a newer format."""
    if not isinstance(value, dict) or "tinymem_export" not in value:
        raise InputError("this is not the export of a memory: its first line must be an object with tinymem_export")
    version = value["tinymem_export"]
    if type(version) is not int or version < 1:
        raise InputError(f"tinymem_export must be the number of a format, not {safe_repr(version)}")
    if version > FORMAT:
        raise FormatError(f"the export has format {version}, this version reads {FORMAT}: upgrade tinymem")
    fields = _Fields(value, "the header", "tinymem_export", "embedder", "fingerprint", "next_number", "steps")
    embedder = fields.text("embedder", or_none=True)
    fingerprint = fields.text("fingerprint") or ""
    return Header(embedder, fingerprint, fields.number("next_number", least=1), fields.number("steps"))


def read_step(value: Mapping[str, Any]) -> tuple[Step, StepRow]:
    """Return the step of a line and its row, all checked, so that a memory with it can be opened, searched and sent."""
    fields = _Fields(value, "the line", "step", "tokens", "position", "archived", "window", "milestone", "view")
    step = _step(value["step"])
    row = row_of(step, fields.number("tokens"), fields.number("position"), fields.flag("window"))
    view = value.get("view")
    if view is not None:
        shown = _step(view)
        if not row.window or (shown.id, shown.step_number) != (step.id, step.step_number):
            raise InputError("a view must be of a step in the window, and have its id and number")
        row = replace(row, view=dump_step(shown))
    archived = _time(value.get("archived"), row.window)
    return step, replace(row, archived=archived, milestone=fields.flag("milestone"))


def _time(value: Any, window: bool) -> float | None:
    """Return the time when a step left the window, if that is known."""
    if value is None:
        return None
    if window or type(value) not in (int, float) or not 0 <= value < MOST:
        raise InputError(
            f"archived must be a number of seconds, for a step that left the window, not {safe_repr(value)}"
        )
    return float(value)


def _step(record: Any) -> Step:
    step = Step.from_dict(record)
    _Fields(record, "the step", *record).number("step_number", least=1)
    _check_messages(step)
    for part in step.parts():
        clean(part.text)
    return step


def _check_messages(step: Step) -> None:
    """Raise InputError for an overlay whose messages cannot be counted or sent."""
    step.to_messages(style="observation")
    for message in step.to_messages(style="tools"):
        if message.get("role") not in ROLES:
            raise InputError(f"role must be one of {', '.join(ROLES)}, not {describe_type(message.get('role'))}")
        check_content(message.get("content"), "content")
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(isinstance(c, dict) and isinstance(c.get("id"), str) for c in calls):
            raise InputError("tool_calls must be a list of objects, each with an id")
        if not isinstance(message.get("tool_call_id"), (str, type(None))):
            raise InputError("tool_call_id must be a string")
        count_message(message, EstimatingCounter())


class EpisodeLines:
    """A reader of the lines of episodes, one after the other."""

    def __init__(self) -> None:
        self._last = 0  # the last step of the one before

    def read(self, value: Mapping[str, Any]) -> SummaryRow | None:
        """Return the episode of a line; None if it is out of order or inside another, since it is summarised again."""
        _Fields(value, "the line", "episode")
        fields = _Fields(value["episode"], "the episode", *SummaryRow._fields)
        first = fields.number("first", least=1)
        last = fields.number("last", least=first)
        row = SummaryRow(first, last, fields.text("session", or_none=True), fields.text("text") or "")
        if first <= self._last:
            return None
        self._last = last
        return row


def read_messages(value: Mapping[str, Any]) -> list[MessageRow]:
    """Return the messages of a line."""
    _Fields(value, "the line", "messages")
    rows = value["messages"]
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        raise InputError("messages must be a list of lists of four")
    return [_message(dict(zip(MessageRow._fields, row, strict=True))) for row in rows]


def _message(row: Mapping[str, Any]) -> MessageRow:
    fields = _Fields(row, "a message", *MessageRow._fields)
    said = fields.text("said") or ""
    if len(said) > LONGEST_HASH:
        raise InputError(f"said of a message has over {LONGEST_HASH} characters")
    return MessageRow(said, fields.number("nth", least=1), fields.number("step"), fields.flag("is_last"))


def scratchpad_of(value: Mapping[str, Any]) -> str:
    """The scratchpad of a line, as the journal keeps it."""
    _Fields(value, "the line", "scratchpad")
    text = json.dumps(value["scratchpad"], separators=(",", ":"))
    read_dump(text)
    return text


def read_end(value: Mapping[str, Any]) -> tuple[int, int]:
    """Read the expected numbers of steps and episodes."""
    _Fields(value, "the line", "end")
    fields = _Fields(value["end"], "the end", "steps", "episodes")
    return fields.number("steps"), fields.number("episodes")


class _Fields:
    """The fields of an object, each checked when it is asked for; unknown ones are refused at once."""

    def __init__(self, value: Any, what: str, *known: str) -> None:
        if not isinstance(value, dict):
            raise InputError(f"{what} must be an object, not {type(value).__name__}")
        unknown = [name for name in value if name not in known]
        if unknown:
            raise InputError(f"{what} has the unknown field {safe_repr(unknown[0])}")
        self._value = value
        self._what = what

    def number(self, name: str, least: int = 0, most: int = MOST) -> int:
        """A whole number."""
        number = self._value.get(name)
        if type(number) is not int or not least <= number <= most:
            raise InputError(
                f"{name} of {self._what} must be a whole number from {least} to {most}, not {safe_repr(number)}"
            )
        return number

    def flag(self, name: str) -> bool:
        """True or false; false where it is missing."""
        flag = self._value.get(name, False)
        if type(flag) is not bool:
            raise InputError(f"{name} of {self._what} must be true or false, not {safe_repr(flag)}")
        return flag

    def text(self, name: str, or_none: bool = False) -> str | None:
        """A string, with what cannot be stored replaced."""
        text = self._value.get(name)
        if not isinstance(text, str) and not (or_none and text is None):
            raise InputError(f"{name} of {self._what} must be a string, not {safe_repr(text)}")
        return None if text is None else clean(text)
