"""The part of a window that a journal keeps beside its steps: calls that wait for a result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tinymem.errors import describe_type
from tinymem.messages.answers import open_calls
from tinymem.protocols import Journal
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Step
from tinymem.window.window import WindowChange, note_calls

__all__ = ["CLEARED", "MOST_CALLS", "OPEN_CALLS", "keep_calls", "read_calls"]

OPEN_CALLS = "open_calls"  # calls without a result: the number of the step, by call id, as JSON
CLEARED = "cleared"  # the number of the next step when the window was last cleared
MOST_CALLS = 256  # calls without a result that are kept, the newest


def keep_calls(journal: Journal, kept: str, calls: Mapping[str, int], change: WindowChange) -> str:
    """Keep the open `calls` as they are after a change, if they differ from the text that is kept; return the text."""
    if not change.added and not change.lapsed:
        return kept
    after = {id: number for id, number in calls.items() if id not in change.lapsed}
    for step in change.added:
        note_calls(step, after)
    text = json.dumps(dict([*after.items()][-MOST_CALLS:]))
    if text == (kept or "{}"):
        return kept
    journal.keep({OPEN_CALLS: text})
    return text


def read_calls(journal: Journal, kept: str, steps: Sequence[Step]) -> dict[str, int]:
    """Read open calls from the text that was kept, or where none ever was, from the steps of the window."""
    if not kept:
        waiting = open_calls(steps)
        found: dict[str, int] = {}
        for step in steps:
            if isinstance(step, ActionStep):
                ids = waiting.intersection(call.id for call in step.tool_calls if not call.answered)
                found.update(dict.fromkeys(sorted(ids), step.step_number or 0))
        return found
    try:
        return {str(id): int(number) for id, number in json.loads(kept).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise journal.damaged(f"{describe_type(kept)} is not a list of open calls") from error
