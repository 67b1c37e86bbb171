"""Serialization of steps: to JSON-ready dicts and back, with a format version.

The JSON is ASCII (`json.dumps` escapes the rest), so lone surrogates and NUL survive any file or database.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tinymem.errors import FormatError, StepError, kind_of, shown
from tinymem.steps import types as _steps
from tinymem.steps.types import ActionStep, Signal, Step, ToolCall

__all__ = ["FORMAT", "dump_step", "load_step", "step_from_dict", "step_to_dict"]

FORMAT = 1

STEP_TYPES: dict[str, type[Step]] = {
    cls.type: cls for cls in vars(_steps).values() if isinstance(cls, type) and issubclass(cls, Step) and cls.type
}
_DEFAULTS = {"metadata": {}, "pinned": False, "is_final": False, "style": "tools"}
_RENAMED = {"output": "observation", "failure": "error"}  # an ActionStep's own fields, as its constructor names them


def step_to_dict(step: Step) -> dict[str, Any]:
    """Write `step` as a dict of JSON values: `format`, `type`, and every field that is not at its default."""
    record: dict[str, Any] = {"format": FORMAT, "type": step.type}
    for f in dataclasses.fields(step):
        value = getattr(step, f.name)
        if value is None or value == () or value == _DEFAULTS.get(f.name):
            continue
        record[_RENAMED.get(f.name, f.name) if isinstance(step, ActionStep) else f.name] = _plain(value)
    return record


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (ToolCall, Signal)):
        return {k: _plain(v) for k, v in vars(value).items() if v is not None}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def step_from_dict(record: Mapping[str, Any]) -> Step:
    """Read the step that `step_to_dict` wrote.

    Raises:
        FormatError: The record is of a newer format.
        StepError: The record is no step; the message names the field.
    """
    if not isinstance(record, Mapping):
        raise StepError(f"a step's record must be a mapping, not {type(record).__name__}")
    fields = dict(record)
    if (version := fields.pop("format", None)) != FORMAT:
        raise FormatError(f"format {shown(version)} is not one that this version reads ({FORMAT}): upgrade tinymem")
    kind = fields.pop("type", None)
    cls = STEP_TYPES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise StepError(f"type {shown(kind)} is not one of {', '.join(STEP_TYPES)}")
    try:
        if "timestamp" in fields:
            fields["timestamp"] = _time(fields["timestamp"])
        if "tool_calls" in fields:
            fields["tool_calls"] = [ToolCall(**call) for call in fields["tool_calls"]]
        if "signals" in fields:
            fields["signals"] = [Signal(**signal) for signal in fields["signals"]]
        step = cls(**fields)
        if step.overlay:
            step.to_messages(style="tools")  # ValueError, if it has another number of messages
        return step
    except (TypeError, ValueError) as error:
        if isinstance(error, StepError):
            raise
        what = error if isinstance(error, TypeError) else f"a field has a value that is none ({type(error).__name__})"
        raise StepError(f"{cls.__name__}: {what}") from error


def _time(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise StepError(f"timestamp must be in ISO 8601, not {kind_of(value)}") from None


def dump_step(step: Step) -> str:
    """Write `step` as one line of ASCII JSON; StepError says which value is not JSON."""
    try:
        return json.dumps(step_to_dict(step), separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise StepError(f"{type(step).__name__} {step.id} cannot be saved: {error}") from error


def load_step(line: str) -> Step:
    """Read the step that `dump_step` wrote."""
    try:
        record = json.loads(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise StepError(f"not a step's record: {error}") from error
    return step_from_dict(record)
