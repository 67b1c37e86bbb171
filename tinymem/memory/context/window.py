"""Windows: what of a conversation a context may show, as it is sent, and what of it is always in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tinymem.messages.conversion import groups
from tinymem.steps.standins import newest_of
from tinymem.steps.step import Step
from tinymem.steps.types import TaskStep
from tinymem.window.sending import Sending, SentGroup
from tinymem.window.strategy import critical

__all__ = ["QUERY_STEPS", "Given", "Window", "current_task", "default_query", "fixed_steps", "window_of"]

QUERY_GROUPS = 2  # newest groups that a context without a query asks for
QUERY_STEPS = 200  # newest steps that these are looked for in
QUERY_LENGTH = 6_000  # characters of them, from the end


class Given(Protocol):
    """The messages that a window was made of, where the caller has them."""

    def inputs(self, step: Step) -> Sequence[int]:
        """Return the indices of a step's messages in the caller's list."""

    def numbers(self, step: Step) -> Collection[int]:
        """Return the numbers of the steps that stand whole in the messages of a step."""


@dataclass(frozen=True)
class Window:
    """The part of a window that a context may show.

    Attributes:
        sending: Renders and counts the steps.
        steps: All steps.
        groups: Their groups as they are sent, in order; those that are too far back to be shown may be missing.
        fixed: The groups that are always shown, by the ids of their first steps.
        positions: How many tokens came before each step of the groups since the memory or the history began, by id.
        partial: The ids of steps that the groups do not show whole; what they lack may be recalled.
        given: The messages that the window was made of, where the caller has them; the newest group is then always in.
    """

    sending: Sending
    steps: Sequence[Step]
    groups: Sequence[SentGroup]
    fixed: Collection[str]
    positions: Mapping[str, int]
    partial: Collection[str] = ()
    given: Given | None = None


def window_of(
    steps: Sequence[Step], sending: Sending, positions: Mapping[str, int], partial: Collection[str]
) -> Window:
    """Return the window of these steps."""
    sent, wanted = sending(steps), _wanted(steps)
    fixed = {one.first for one in sent if not wanted.isdisjoint(step.id for step in one.group)}
    return Window(sending, steps, sent, fixed, positions, partial)


def fixed_steps(steps: Sequence[Step]) -> list[Step]:
    """Return what every context holds: newest system prompt, current task and pinned steps, with their groups."""
    wanted = _wanted(steps)
    return [step for group in groups(steps) if not wanted.isdisjoint(s.id for s in group) for step in group]


def _wanted(steps: Sequence[Step]) -> set[str]:
    return {step.id for step in critical(steps, "current")}


def current_task(steps: Iterable[Step]) -> TaskStep | None:
    """Return the newest task, or None."""
    return newest_of(steps, TaskStep)


def default_query(steps: Sequence[Step], task: Step | None = None) -> str:
    """Return the query of a context that is given none: the task, by default the current one, and the newest steps."""
    task = task or current_task(steps)
    newest = [step.text for group in groups(steps[-QUERY_STEPS:])[-QUERY_GROUPS:] for step in group]
    return "\n".join([*([task.text[:QUERY_LENGTH]] if task else []), "\n".join(newest)[-QUERY_LENGTH:]])
