"""Answers to the hooks of coding agents: what a session begins with, and the transcript that it leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinymem.cli.ingestion.growing import ingest_growing
from tinymem.errors import InputError
from tinymem.memory.inspection.recent import newest_steps

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["event_of", "greeting", "take_in"]

LONGEST = 1_000_000  # characters of an event
ABOUT = "From the memory of earlier sessions. If you have its tools, recall and open find more."


def event_of(text: str) -> Mapping[str, Any]:
    """Read what the agent wrote to standard input."""
    try:
        event = json.loads(text) if len(text) <= LONGEST else None
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise InputError("standard input should be one JSON object, as agents write it for their hooks")
    return event


def greeting(memory: HierarchicalMemory, max_tokens: int) -> str:
    """Return what was said last, in at most `max_tokens` tokens; "" for an empty memory."""
    if not any(memory.history(limit=1)):
        return ""
    left = max_tokens - memory.long_term.counter.count(f"{ABOUT}\n")
    return f"{ABOUT}\n{newest_steps(memory, left, said=True)}"


def take_in(memory: HierarchicalMemory, event: Mapping[str, Any]) -> int:
    """Add what is new in the transcript of the session, and return the number of steps.

    A last line that is still being written is left for the next time.
    """
    given = event.get("transcript_path")
    if not isinstance(given, str) or not given:
        raise InputError("standard input has no transcript_path")
    done = ingest_growing(memory, Path(given).expanduser())
    if done.error is not None:
        raise InputError(done.error)
    return done.steps
