"""The JSON of an AgentMemory."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tinymem.errors import FormatError, InputError, safe_repr
from tinymem.steps.checks import check_str
from tinymem.steps.display import short_repr, type_name
from tinymem.steps.redaction import Redact, redact_json
from tinymem.steps.values import to_plain

__all__ = ["FORMAT", "SCRATCHPAD", "Saved", "as_text", "read_dump", "write_dump"]

SCRATCHPAD = "scratchpad"  # the scratchpad, as JSON
FORMAT = 1


class Saved(NamedTuple):
    """The content of a scratchpad."""

    variables: dict[str, Any]
    observations: list[str]
    failed_approaches: list[str]


def as_text(value: object) -> str:
    """Return `value` if it is a text, else its short repr; the lists are public, so they may hold anything."""
    return str.__str__(value) if isinstance(value, str) else short_repr(value)


def write_dump(state: Saved, redact: Redact | None = None) -> str:
    """Return the content as a text that `read_dump` reads, with `redact` applied to all but names."""

    def redacted(value: Any) -> Any:
        return value if redact is None else redact_json(value, redact)

    record = {
        "format": FORMAT,
        "variables": {as_text(name): redacted(_plain(value)) for name, value in state.variables.items()},
        "observations": redacted([as_text(text) for text in state.observations]),
        "failed_approaches": redacted([as_text(text) for text in state.failed_approaches]),
    }
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def _plain(value: object) -> Any:
    """Return a value as JSON holds it, or a text that says what it was."""
    try:
        return to_plain(value)
    except InputError:
        return f"<{type_name(value)}, not kept over a restart: {short_repr(value)}>"


def read_dump(text: str) -> Saved:
    """Read a text of `write_dump`; FormatError for any other."""
    check_str("text", text)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is not the dump of a scratchpad: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        version = record.get("format") if isinstance(record, dict) else None
        raise FormatError(f"format {safe_repr(version)} is not one that this version reads ({FORMAT}): upgrade tinymem")
    parts = [record.get(field) for field in Saved._fields]
    if [type(part) for part in parts] != [dict, list, list]:
        raise FormatError(f"a scratchpad has an object and two lists: {', '.join(Saved._fields)}")
    return Saved._make(parts)
