"""Serialization of steps: to lines of JSON and back, with a format version.

The JSON is ASCII (`json.dumps` escapes the rest), so lone surrogates and NUL survive any file or database.
"""

from __future__ import annotations

import json

from tinymem.errors import StepError
from tinymem.steps.types import Step

__all__ = ["dump_step", "load_step"]


def dump_step(step: Step) -> str:
    """Write `step` as one line of ASCII JSON; StepError says which value is not JSON."""
    try:
        return json.dumps(step.to_dict(), separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise StepError(f"{type(step).__name__} {step.id} cannot be saved: {error}") from error


def load_step(line: str) -> Step:
    """Read the step that `dump_step` wrote."""
    try:
        record = json.loads(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise StepError(f"not a step's record: {error}") from error
    return Step.from_dict(record)
