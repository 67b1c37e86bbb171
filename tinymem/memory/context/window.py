"""Windows: what of a conversation a context may show, as it is sent, and what of it is always in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tinymem.memory.context.shortening import shorten_group, shortened_ids
from tinymem.messages.conversion import groups
from tinymem.steps.standins import newest_of, newest_request
from tinymem.steps.step import Step
from tinymem.steps.types import TaskStep
from tinymem.window.sending import MessageRenderer, RenderedGroup
from tinymem.window.strategy import critical

__all__ = ["Given", "Window", "current_task", "fit_request", "fixed_steps", "window_of", "with_request"]

REQUEST = 0.5  # share of a context that the newest request has at most, once something was done for it
FILES = 0.75  # and with its files


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
        request: The first step of the group with the newest request, which is shown however old it is.
    """

    sending: MessageRenderer
    steps: Sequence[Step]
    groups: Sequence[RenderedGroup]
    fixed: Collection[str]
    positions: Mapping[str, int]
    partial: Collection[str] = ()
    given: Given | None = None
    request: str | None = None


def window_of(
    steps: Sequence[Step], sending: MessageRenderer, positions: Mapping[str, int], partial: Collection[str]
) -> Window:
    """Return the window of these steps."""
    sent, wanted = sending(steps), _wanted(steps)
    fixed = {one.first for one in sent if not wanted.isdisjoint(step.id for step in one.group)}
    request = newest_request(steps)
    asked = next((one.first for one in sent if request in one.group), None) if request else None
    return Window(sending, steps, sent, fixed, positions, partial, request=asked)


def with_request(window: Window, room: int) -> Window:
    """Return the window with its newest request among the fixed groups, shortened to its share of `room` tokens.

    Where the least of it is more than the whole room, it is left out.
    """
    at = next(at for at, one in enumerate(window.groups) if one.first == window.request)
    request, cut = fit_request(window.groups[at], room, window.sending)
    if request.tokens > room:
        return replace(window, request=None)
    groups = [*window.groups[:at], request, *window.groups[at + 1 :]]
    partial = {*window.partial, *cut}
    return replace(window, groups=groups, fixed={*window.fixed, request.first}, partial=partial, request=None)


def fit_request(whole: RenderedGroup, budget: int, sending: MessageRenderer) -> tuple[RenderedGroup, set[str]]:
    """Return the newest request, shortened to its share of the budget, and the ids of what is not whole then."""
    request = shorten_group(whole, int(REQUEST * budget), int(FILES * budget), sending)
    return request, shortened_ids(request, whole)


def fixed_steps(steps: Sequence[Step]) -> list[Step]:
    """Return what every context holds: newest system prompt, current task and pinned steps, with their groups."""
    wanted = _wanted(steps)
    return [step for group in groups(steps) if not wanted.isdisjoint(s.id for s in group) for step in group]


def _wanted(steps: Sequence[Step]) -> set[str]:
    return {step.id for step in critical(steps, "current")}


def current_task(steps: Iterable[Step]) -> TaskStep | None:
    """Return the newest task, or None."""
    return newest_of(steps, TaskStep)
