"""The JSON of an AgentMemory; an error on reading names the place that is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from tinymem.errors import FormatError, InputError, describe_type, safe_repr
from tinymem.steps.checks import check_str
from tinymem.steps.display import one_line, short_repr, type_name
from tinymem.steps.redaction import Redact, redact_json
from tinymem.steps.values import decode, encode

__all__ = ["FORMAT", "Saved", "Unsaved", "as_text", "classify_values", "read_dump", "redact_dump", "write_dump"]

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
            values[_key(name)] = encode(value)
        except InputError:
            unsaved[as_text(name)] = Unsaved(type_name(value), short_repr(value))
    return values, unsaved


def _key(name: object) -> str:
    key = encode(name)
    if not isinstance(key, str):
        raise InputError(f"{name!r:.80} cannot be the key of a JSON object")
    return key


def write_dump(state: Saved) -> str:
    """Return the content as a text that `read_dump` reads."""
    values, unsaved = classify_values(state)
    record = {
        "format": FORMAT,
        "variables": values,
        "observations": encode(list(map(as_text, state.observations))),
        "failed_approaches": encode(list(map(as_text, state.failed_approaches))),
        "unsaved": {name: what._asdict() for name, what in unsaved.items()},
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
    values = {name: _decoded(f"variables.{name}", value) for name, value in _object(record, "variables").items()}
    observations, failed = (_texts(record, field) for field in ("observations", "failed_approaches"))
    lost = {name: _unsaved(name, value) for name, value in _object(record, "unsaved").items()}
    return Saved(values, observations, failed, lost)


def _object(record: Mapping[str, Any], field: str) -> dict[str, Any]:
    value = record.get(field)
    if not isinstance(value, dict):
        raise FormatError(f"{field} must be an object, not {describe_type(value)}")
    return value


def _texts(record: Mapping[str, Any], field: str) -> list[str]:
    value = _decoded(field, record.get(field))
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise FormatError(f"{field} must be a list of strings, not {describe_type(value)}")
    return value


def _decoded(field: str, value: Any) -> Any:
    try:
        return decode(value)
    except (FormatError, RecursionError) as error:
        raise FormatError(f"{field:.80}: {error}") from error


def _unsaved(name: str, value: Any) -> Unsaved:
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in Unsaved._fields):
        raise FormatError(f"unsaved.{name:.80} must have the texts type and repr, not {describe_type(value)}")
    return Unsaved(one_line(value["type"]), one_line(value["repr"]))


def redact_dump(text: str, redact: Redact | None) -> str:
    """Return a scratchpad's dump with `redact` applied to values, observations and failed approaches, not to names."""
    if redact is None:
        return text
    state = read_dump(text)
    change = partial(redact_json, redact=redact)
    values = {name: change(value) for name, value in state.variables.items()}
    lost = {name: Unsaved(what.type, redact(what.repr)) for name, what in state.lost.items()}
    return write_dump(Saved(values, change(state.observations), change(state.failed_approaches), lost))
