"""Forks of a history: a message that was edited, or an answer that was made again, takes the place of another one.

What stood there, and behind it, is corrected by what stands there now: recall gives that instead, and `get` both.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.steps.step import Step
from tinymem.stores.words import words

__all__ = ["is_fork"]

TURN = 2  # steps that an edit takes back at most, where words do not tell it from a summary of them
ALIKE = 0.3  # share of their words, all together, that what takes the place of another message has in common with it


def is_fork(dropped: Sequence[Step], new: Sequence[Step], has_begun: bool) -> bool:
    """Return whether what is new in a history stands in the place of what was dropped, and is no summary of it.

    Args:
        dropped: The steps that a history no longer has at its end.
        new: The steps that it has there now, and never had before.
        has_begun: The steps before them are the same.
    """
    if not dropped or not new or _role(dropped[0]) != _role(new[0]):
        return False
    old, now = {*words(dropped[0].text)}, {*words(new[0].text)}
    is_alike = len(old & now) >= ALIKE * (len(old | now) or 1)
    if has_begun:
        return is_alike or len(dropped) <= TURN
    return is_alike and len(dropped) <= 2 * TURN  # or it is another conversation


def _role(step: Step) -> str:
    messages = step.to_messages()
    return str(messages[0]["role"]) if messages else ""
