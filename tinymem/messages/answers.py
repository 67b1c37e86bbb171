"""The matching of tool results to calls, also where the provider gives calls no ids, or the same id twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Reversible, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeGuard

from tinymem.messages.sendable import raw_calls
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

__all__ = ["OpenCall", "answered_by", "call_ids", "is_result", "open_calls", "pending_calls", "without_lone_results"]


class OpenCall(NamedTuple):
    """A call that waits for its result.

    Attributes:
        id: Its id in the memory.
        name: The name of its tool; "" where that is not known any more.
        given: The id that its provider gave it; "" for none.
    """

    id: str
    name: str = ""
    given: str = ""


def answered_by(result: Mapping[str, Any], waiting: Sequence[OpenCall]) -> int | None:
    """Find the place of the call in `waiting` that the message `result` answers.

    It is the call with the id of the result; where there are no ids, the first call of the tool that the result names
    (`tool_name` or `name`), or the first of all where it names none. None where no call fits.

    >>> answered_by({"role": "tool", "tool_name": "read"}, [OpenCall("1", "list"), OpenCall("2", "read")])
    1
    """
    id, name = result.get("tool_call_id"), result.get("tool_name") or result.get("name")
    if result["role"] == "function":  # it answers a call of the time before there were ids
        return _first(waiting, lambda call: not call.given and call.name == name)
    if isinstance(id, str) and id:
        exact = _first(waiting, lambda call: id in (call.id, call.given))
        return _first(waiting, lambda call: not call.given and call.name == id) if exact is None else exact
    if id not in ("", None) or not waiting:
        return None
    if not isinstance(name, str) or not name or (len(waiting) == 1 and not waiting[0].name):
        return 0
    return _first(waiting, lambda call: call.name == name)


def _first(waiting: Sequence[OpenCall], fits: Callable[[OpenCall], bool]) -> int | None:
    return next((place for place, call in enumerate(waiting) if fits(call)), None)


def open_calls(steps: Sequence[Step]) -> set[str]:
    """Return the ids of the calls that have no result yet, in their action or in a later tool message."""
    waiting: set[str] = set()
    for step in steps:
        if isinstance(step, ActionStep):
            waiting |= {call.id for call in step.tool_calls if not call.answered}
        elif isinstance(step, MessageStep) and step.tool_call_id is not None:
            waiting.discard(step.tool_call_id)
    return waiting


def call_ids(steps: Iterable[Step]) -> set[str]:
    """Return the ids of the calls that these steps make."""
    calls = chain.from_iterable(step.tool_calls for step in steps if isinstance(step, ActionStep))
    return {call.id for call in calls}


def is_result(step: Step) -> TypeGuard[MessageStep]:
    """Return whether a step is a tool's result."""
    return isinstance(step, MessageStep) and step.role == "tool"


def without_lone_results(steps: Sequence[Step], others: Iterable[Step] = ()) -> list[Step]:
    """Return the steps less the results whose calls are neither among them nor among the others."""
    called = call_ids([*steps, *others])
    return [step for step in steps if not is_result(step) or step.tool_call_id in called]


def pending_calls(steps: Reversible[Step], ids: Collection[str]) -> list[OpenCall]:
    """Find the calls of these `ids` in `steps`, those of the newest step first.

    Calls that no step made are known by their ids alone.
    """
    found: list[OpenCall] = []
    left = set(ids)
    for step in reversed(steps) if ids else ():
        if isinstance(step, ActionStep) and not left.isdisjoint(call_ids([step])):
            raw = raw_calls(step.to_messages(style="tools")[0])
            pairs = zip(step.tool_calls, raw, strict=False)
            found += [OpenCall(call.id, call.name, given.get("id") or "") for call, given in pairs if call.id in left]
            left -= call_ids([step])
            if not left:
                break
    return [*found, *(OpenCall(id, "", id) for id in sorted(left))]
