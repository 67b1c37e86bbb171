"""Redaction: a function of the user over every text of a step, before anything of it is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from tinymem.errors import InputError
from tinymem.steps.content import map_strings, to_json
from tinymem.steps.standins import marks_of
from tinymem.steps.step import StepT
from tinymem.steps.types import Step

__all__ = ["Redact", "redact_from", "redact_json", "redact_step"]

Redact: TypeAlias = Callable[[str], str]

# By these a step, a call and its result are known, and how they are sent; all else in a record may say something.
_KEPT = frozenset({"format", "type", "id", "timestamp", "step_number", "pinned", "is_final", "style", "role",
                   "tool_call_id", "covers", "tool_calls.id", "overlay.drop", "overlay.set.role",
                   "overlay.set.tool_call_id", "overlay.set.tool_calls.id"})  # fmt: skip
# What somebody else gave the keys of.
_OWN = frozenset({"metadata", "tool_calls.arguments", "overlay.set.native",
                  "overlay.set.tool_calls.function.arguments"})  # fmt: skip


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
    fields = _walked(record, redact)
    if fields == record:
        return step
    if marks:
        fields["metadata"] = {**fields["metadata"], **marks}
    return cast(StepT, Step.from_dict(fields))


def _walked(value: Any, redact: Redact, path: str = "") -> Any:
    """Redact the texts in a part of a record; its types, other than a signal's, say only what is what."""
    if path in _OWN:
        return _arguments(value, redact) if isinstance(value, str) else redact_json(value, redact)
    if isinstance(value, list):
        return [_walked(item, redact, path) for item in value]
    if not isinstance(value, Mapping):
        return redact_json(value, redact)
    changed = {}
    for key, item in value.items():
        name = key.replace(".", "_")  # so that nobody's key reads as a path
        inner = f"{path}.{name}" if path else name
        is_kept = inner in _KEPT or (key == "type" and path != "signals")
        changed[key] = item if is_kept else _walked(item, redact, inner)
    return changed


def _arguments(value: str, redact: Redact) -> str:
    """Redact arguments as text, and as the JSON that it is, since a secret may look different in it."""
    text = redact(value)
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return text
    changed = redact_json(read, redact)
    return text if changed == read else to_json(changed)


def redact_json(value: Any, redact: Redact) -> Any:
    """Redact the texts wherever they are in a JSON value, keys too."""
    return map_strings(value, lambda text: redact(text) if text.strip() else text)
