"""Change: all that can be done to a window at once, and the checks of steps that are added."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from tinymem.errors import InputError, MessageError, kind_of
from tinymem.messages.answers import open_calls
from tinymem.steps.step import Step
from tinymem.steps.types import ActionStep, MessageStep
from tinymem.window.strategy import PruneReport

__all__ = ["Change", "check_new", "check_step", "is_result", "note_calls"]


@dataclass(frozen=True)
class Change:
    """A change of a window, with the `report` of it where a strategy made it.

    Steps that are `added` come behind the others. Those with the ids `taken` leave. A step that is `put` stands in the
    place of the one with its id, if that is shown still; one that comes `back` stands where its number says. The calls
    `lapsed` wait for their results no longer.
    """

    added: Sequence[Step] = ()
    taken: Collection[str] = ()
    put: Mapping[str, Step] = field(default_factory=dict)
    back: Mapping[str, Step] = field(default_factory=dict)
    lapsed: Collection[str] = ()
    report: PruneReport | None = None

    def __bool__(self) -> bool:
        return bool(self.added or self.taken or self.put or self.back or self.lapsed)


def check_new(steps: Sequence[Step], window: Container[str], waiting: Mapping[str, int]) -> None:
    """Raise InputError or MessageError unless steps can be added behind a window while calls are `waiting`."""
    calls, new = dict(waiting), set[str]()
    for step in steps:
        check_step(step, new)
        check_step(step, window)
        if is_result(step) and step.tool_call_id not in calls:
            known = f"open calls: {', '.join(sorted(calls))}" if calls else "no call is open"
            raise MessageError(f"the tool result for call {step.tool_call_id!r} answers no call before it ({known})")
        note_calls(step, calls)
        new.add(step.id)


def check_step(step: Step, held: Container[str]) -> None:
    """Raise InputError for anything but a step, or for one that is `held` already."""
    if not isinstance(step, Step):
        raise InputError(f"only steps can be added, not {kind_of(step)}")
    if step.id in held:
        raise InputError(
            f"step {step.id} is held already: a step is added once, "
            "step.evolve(id=tinymem.steps.new_id()) makes another"
        )


def is_result(step: Step) -> TypeGuard[MessageStep]:
    """Return whether a step is a message with a tool's result."""
    return isinstance(step, MessageStep) and step.role == "tool"


def note_calls(step: Step, waiting: dict[str, int]) -> None:
    """Update `waiting`, the calls without a result, for a step."""
    if isinstance(step, ActionStep):
        waiting.update(dict.fromkeys(sorted(open_calls([step])), step.step_number or 0))
    elif is_result(step):
        waiting.pop(step.tool_call_id or "", None)
