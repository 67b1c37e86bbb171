"""The part of a window that a journal keeps beside its steps: calls that wait for a result."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tinymem.errors import describe_type
from tinymem.protocols import Journal
from tinymem.window.window import WindowChange, note_calls

__all__ = ["CLEARED", "MOST_CALLS", "OPEN_CALLS", "keep_calls", "read_calls"]

OPEN_CALLS = "open_calls"  # calls without a result: the number of the step, by call id, as JSON
CLEARED = "cleared"  # the number of the next step when the window was last cleared
MOST_CALLS = 256  # calls without a result that are kept, the newest


def keep_calls(journal: Journal, calls: Mapping[str, int], change: WindowChange) -> dict[str, int]:
    """Keep the open `calls` as they are after a change, if it changes them, and return them."""
    after = {id: number for id, number in calls.items() if id not in change.lapsed}
    for step in change.added:
        note_calls(step, after)
    newest = dict([*after.items()][-MOST_CALLS:])
    if newest != calls:
        journal.keep({OPEN_CALLS: json.dumps(newest)})
    return newest


def read_calls(journal: Journal, kept: str) -> dict[str, int]:
    """Read open calls from the text that was kept; none where none ever was."""
    try:
        return {str(id): int(number) for id, number in json.loads(kept or "{}").items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise journal.damaged(f"{describe_type(kept)} is not a list of open calls") from error
