"""Answers to the hooks of coding agents: what a session begins with, and the transcript that it leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinymem.errors import InputError
from tinymem.memory.inspection.recent import newest_steps
from tinymem.runs.growing import ingest_growing
from tinymem.runs.harness import ABOUT
from tinymem.steps.actions import ActionStep
from tinymem.steps.standins import is_request

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.steps.step import Step

__all__ = ["add_transcript", "greeting", "read_event"]

LONGEST = 1_000_000  # characters of an event


def read_event(text: str) -> Mapping[str, Any]:
    """Read what the agent wrote to standard input."""
    try:
        event = json.loads(text) if len(text) <= LONGEST else None
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise InputError("standard input should be one JSON object, as agents write it for their hooks")
    return event


def greeting(memory: HierarchicalMemory, event: Mapping[str, Any], max_tokens: int) -> str:
    """Return what a session should begin with, in at most `max_tokens` tokens; "" where that is nothing.

    A new session gets what was said last. A session that is resumed has its own steps, and what it was greeted with:
    it gets what others said since. After a compaction it gets its own requests, and then what was said to them.
    """
    session, source = event.get("session_id"), event.get("source")
    left = max_tokens - memory.long_term.counter.count(f"{ABOUT}\n")
    known = next(memory.history(session, newest=True), None) if isinstance(session, str) and session else None
    if known is None or source not in ("resume", "compact"):
        text = newest_steps(memory, left, only=_is_said)
    elif source == "resume":
        number = known.step_number or 0
        text = newest_steps(memory, left, only=lambda step: _is_said(step) and (step.step_number or 0) > number)
    else:
        asked = newest_steps(memory, left // 2, session=session, only=is_request)
        left -= memory.long_term.counter.count(f"{asked}\n")
        said = newest_steps(memory, left, session=session, only=lambda step: _is_said(step) and not is_request(step))
        text = "\n".join(filter(None, (asked, said)))
    return f"{ABOUT}\n{text}" if text else ""


def _is_said(step: Step) -> bool:
    """Return True for what is neither a call of a tool nor its result."""
    return not isinstance(step, ActionStep) and getattr(step, "role", None) != "tool"


def add_transcript(memory: HierarchicalMemory, event: Mapping[str, Any]) -> int:
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
