"""Redaction: a function of the user over every text of a step, before anything of it is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from tinymem.errors import InputError
from tinymem.steps.content import to_json
from tinymem.steps.standins import marks_of
from tinymem.steps.step import StepT
from tinymem.steps.types import Step

__all__ = ["Redact", "redact_from", "redact_json", "redact_step"]

Redact: TypeAlias = Callable[[str], str]

# By these a step, a call and its result are known; everything else in a record may say something.
_KEPT = ("format", "type", "id", "timestamp", "step_number", "pinned", "is_final", "style", "role",
         "tool_call_id", "covers")  # fmt: skip
_KEPT_OF_MESSAGES, _KEPT_OF_CALLS = ("role", "tool_call_id"), ("id", "type")


def redact_from(redact: Redact | None) -> Redact | None:
    """Return `redact` with a check: InputError where it gives no text."""
    if redact is None:
        return None
    if not callable(redact):
        raise InputError(f"redact must be a callable or None, not a {type(redact).__name__}")

    def checked(text: str) -> str:
        found = redact(text)
        if not isinstance(found, str):
            raise InputError(f"redact must return a string, not a {type(found).__name__}")
        return found

    return checked


def redact_step(step: StepT, redact: Redact | None) -> StepT:
    """Apply `redact` to the texts of a step, and return the same object if nothing changes.

    These are contents, thoughts, code, names and arguments of tools, results, errors, signals, answers of an API,
    metadata (its keys too), overlays, speaker and session, but not ids and roles.
    """
    if redact is None or not isinstance(step, Step):
        return step
    record = step.to_dict()
    marks = marks_of(step)  # ids too
    if marks:
        record["metadata"] = {key: value for key, value in record["metadata"].items() if key not in marks}
    fields = {name: value if name in _KEPT else _field(name, value, redact) for name, value in record.items()}
    if fields == record:
        return step
    if marks:
        fields["metadata"] = {**fields["metadata"], **marks}
    return cast(StepT, Step.from_dict(fields))


def _field(name: str, value: Any, redact: Redact) -> Any:
    if name == "tool_calls":
        return [_call(call, redact) for call in value]
    if name == "overlay":
        return [_layer(layer, redact) for layer in value]
    if name == "signals":
        return [_signal(signal, redact) for signal in value]
    if name == "metadata":
        return redact_json(value, redact)
    return _content(value, redact)


def _signal(signal: Mapping[str, str], redact: Redact) -> dict[str, str]:
    return {key: redact(text) for key, text in signal.items()}


def _call(call: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    """A call as a step's record has it."""
    texts = {key: _content(value, redact) for key, value in call.items() if key not in ("id", "arguments")}
    return {**call, **texts, "arguments": _arguments(call["arguments"], redact)}


def _arguments(value: Any, redact: Redact) -> Any:
    """Arguments; as JSON text they are read too, since a secret may look different in it."""
    if not isinstance(value, str):
        return redact_json(value, redact)
    text = redact(value)
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return text
    changed = redact_json(read, redact)
    return text if changed == read else to_json(changed)


def _layer(layer: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    """Redact what a message had beyond its rendering."""
    changed: dict[str, Any] = {}
    for key, value in layer.get("set", {}).items():
        if key in _KEPT_OF_MESSAGES:
            changed[key] = value
        elif key == "native":
            changed[key] = _content(value, redact, has_own_keys=True)
        elif key == "tool_calls" and isinstance(value, list):
            changed[key] = [_overlaid(call, redact) for call in value]
        else:
            changed[key] = _content(value, redact)
    return {**layer, "set": changed} if changed else dict(layer)


def _overlaid(call: Any, redact: Redact) -> Any:
    """A call as a message has it."""
    if not isinstance(call, Mapping):
        return redact_json(call, redact)
    kinds = {key: call[key] for key in _KEPT_OF_CALLS if key in call}
    function = call.get("function")
    if isinstance(function, Mapping) and "arguments" in function:
        rest = {key: value for key, value in function.items() if key != "arguments"}
        kinds["function"] = {**_content(rest, redact), "arguments": _arguments(function["arguments"], redact)}
    return {key: kinds[key] if key in kinds else _content(value, redact) for key, value in call.items()}


def _content(value: Any, redact: Redact, has_own_keys: bool = False) -> Any:
    """Texts inside of lists and mappings whose types, and keys unless anybody chose them, say only what is what."""
    if isinstance(value, str):
        return redact(value) if value.strip() else value
    if isinstance(value, list):
        return [_content(item, redact, has_own_keys) for item in value]
    if not isinstance(value, Mapping):
        return value
    changed: dict[str, Any] = {}
    for key, item in value.items():
        name = redact(key) if has_own_keys else key
        changed[name] = item if key == "type" else _content(item, redact, has_own_keys)
    return changed


def redact_json(value: Any, redact: Redact) -> Any:
    """Texts wherever they are in a JSON value, keys too."""
    if isinstance(value, str):
        return redact(value) if value.strip() else value
    if isinstance(value, Mapping):
        return {redact_json(key, redact): redact_json(item, redact) for key, item in value.items()}
    return [redact_json(item, redact) for item in value] if isinstance(value, list) else value
