"""The question that a window asks by itself, where nobody gives one: what its agent is after."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.messages.conversion import groups
from tinymem.recall.query.words import stretch_of
from tinymem.steps.standins import newest_of, newest_request
from tinymem.steps.step import Step
from tinymem.steps.types import TaskStep

__all__ = ["QUERY_STEPS", "default_query"]

QUERY_GROUPS = 2  # newest groups that are asked for
QUERY_STEPS = 200  # newest steps that these are looked for in


def default_query(steps: Sequence[Step], task: Step | None = None) -> str:
    """Return the newest groups as a stretch, behind the beginning of the task: the given, or the current one."""
    newest = [step for group in groups(steps[-QUERY_STEPS:])[-QUERY_GROUPS:] for step in group]
    if task is None:
        request = newest_request(steps)
        task = newest_of(steps, TaskStep) if request is None or request in newest else request
    return stretch_of(newest, task.text if task else "")
