"""The JSON of an AgentMemory; an error on reading names the place that is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tinymem.errors import FormatError, InputError, describe_type, safe_repr
from tinymem.steps.checks import check_str
from tinymem.steps.display import one_line, short_repr, type_name
from tinymem.steps.redaction import Redact, redact_json
from tinymem.steps.values import to_plain

__all__ = ["FORMAT", "Saved", "Unsaved", "as_text", "classify_values", "read_dump", "write_dump"]

FORMAT = 1


class Unsaved(NamedTuple):
    """A value that could not be saved: the name of its type, and its short repr."""

    type: str
    repr: str


class Saved(NamedTuple):
    """The content of a scratchpad; `lost` are values that it had before a restart, by name."""

    variables: dict[str, Any]
    observations: list[str]
    failed_approaches: list[str]
    lost: dict[str, Unsaved]


def as_text(value: object) -> str:
    """Return `value` if it is a text, else its short repr; the lists are public, so they may hold anything."""
    return str.__str__(value) if isinstance(value, str) else short_repr(value)


def classify_values(state: Saved) -> tuple[dict[str, Any], dict[str, Unsaved]]:
    """Return the values that can be saved, as JSON, and by name those that cannot."""
    values: dict[str, Any] = {}
    unsaved = dict(state.lost)
    for name, value in state.variables.items():
        try:
            values |= to_plain({name: value})  # the name must be a text, too
        except InputError:
            unsaved[as_text(name)] = Unsaved(type_name(value), short_repr(value))
    return values, unsaved


def write_dump(state: Saved, redact: Redact | None = None) -> str:
    """Return the content as a text that `read_dump` reads, with `redact` applied to all but names and types."""
    values, unsaved = classify_values(state)

    def redacted(value: Any) -> Any:
        return value if redact is None else redact_json(value, redact)

    record = {
        "format": FORMAT,
        "variables": {name: redacted(value) for name, value in values.items()},
        "observations": redacted([as_text(text) for text in state.observations]),
        "failed_approaches": redacted([as_text(text) for text in state.failed_approaches]),
        "unsaved": {name: {"type": what.type, "repr": redacted(what.repr)} for name, what in unsaved.items()},
    }
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def read_dump(text: str) -> Saved:
    """Read a text of `write_dump`; a FormatError names the place that is wrong."""
    check_str("text", text)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is not the dump of a scratchpad: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        version = record.get("format") if isinstance(record, dict) else None
        raise FormatError(f"format {safe_repr(version)} is not one that this version reads ({FORMAT}): upgrade tinymem")
    observations, failed = (_texts(record, field) for field in ("observations", "failed_approaches"))
    lost = {name: _unsaved(name, value) for name, value in _object(record, "unsaved").items()}
    return Saved(_object(record, "variables"), observations, failed, lost)


def _object(record: Mapping[str, Any], field: str) -> dict[str, Any]:
    value = record.get(field)
    if not isinstance(value, dict):
        raise FormatError(f"{field} must be an object, not {describe_type(value)}")
    return value


def _texts(record: Mapping[str, Any], field: str) -> list[str]:
    value = record.get(field)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise FormatError(f"{field} must be a list of strings, not {describe_type(value)}")
    return value


def _unsaved(name: str, value: Any) -> Unsaved:
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in Unsaved._fields):
        raise FormatError(f"unsaved.{name:.80} must have the texts type and repr, not {describe_type(value)}")
    return Unsaved(one_line(value["type"]), one_line(value["repr"]))
