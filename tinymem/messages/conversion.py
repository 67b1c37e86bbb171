"""Conversion of chat messages, as OpenAI and compatible servers have them, to steps and back without loss.

`steps_from_messages` then `messages_from_steps`, in style `"tools"`, is the identity, also for messages that no API
would accept: `tinymem.messages.validity` makes them acceptable when they are sent. A *group* must stay together: an
assistant's turn with tool calls, and all its results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Reversible, Sequence
from datetime import datetime
from heapq import heappop, heappush
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple, TypeGuard, TypeVar

from tinymem.errors import MessageError, StepError, describe_type
from tinymem.messages.calls import OpenCall, answered_by, name_and_arguments, plain, raw_calls
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.checks import Time, check_iterable, to_utc
from tinymem.steps.content import check_content, to_json
from tinymem.steps.step import CAME, Message, Step, Style, check_steps, diff_overlay
from tinymem.steps.types import ROLES, MessageStep, SystemPromptStep, TaskStep

__all__ = [
    "call_ids", "grouped", "groups", "in_order", "is_result", "message_places", "messages_from_steps",
    "messages_of_each", "open_calls", "pending_calls", "steps_from_messages", "steps_of_history",
    "without_lone_results",
]  # fmt: skip

T = TypeVar("T")

LONGEST_NAME = 20  # characters of a tool's name in the id of a call that was given none


def messages_from_steps(steps: Iterable[Step], summary_mode: bool = False, style: Style = "auto") -> list[Message]:
    """Render the chat messages of `steps`, in order; see `Step.to_messages`.

    In style `"auto"` an action is sent with tool calls, whatever its form, where one of `steps` is a tool message that
    answers it; a tool message whose call is not among `steps` is sent as text.
    """
    steps = check_steps("steps", steps)
    each = messages_of_each(steps, summary_mode, style)
    return in_order(each, message_places(steps, each))


def messages_of_each(steps: Sequence[Step], summary_mode: bool, style: Style) -> list[list[Message]]:
    """Render each step with the others around it, as `messages_from_steps` does."""
    late = {step.tool_call_id for step in steps if is_result(step)} if style == "auto" else ()
    called = call_ids(steps) if late else ()
    rendered: list[list[Message]] = []
    for step in steps:
        form = style
        if isinstance(step, ActionStep) and any(call.id in late for call in step.tool_calls):
            form = "tools"
        elif late and is_result(step) and step.tool_call_id not in called:
            form = "observation"
        rendered.append(step.to_messages(summary_mode, form))
    return rendered


def message_places(steps: Sequence[Step], each: Sequence[Sequence[object]]) -> list[list[int]]:
    """Return for each of `steps` the places of its messages, which `each` has, among the messages of all.

    They adjoin, unless the results of an action came behind messages of the steps after it.
    """
    places: list[list[int]] = [[] for _ in steps]
    due: list[tuple[int, int]] = []  # how far a message is to stand, and its step
    placed = 0
    offsets = [_offsets(step, len(messages)) for step, messages in zip(steps, each, strict=True)]
    for number, step_offsets in enumerate([*offsets, ()]):
        while due and (due[0][0] <= placed or number == len(steps)):
            places[heappop(due)[1]].append(placed)
            placed += 1
        for offset in step_offsets:
            heappush(due, (placed + offset, number))
    return places


def _offsets(step: Step, count: int) -> Sequence[int]:
    """Return how far behind a step's first message each of its messages stands."""
    came = step.overlay[0].get(CAME, ()) if step.overlay else ()
    return [0, *sorted(came)] if came and len(came) == count - 1 else range(count)


def in_order(each: Iterable[Iterable[T]], places: Iterable[Iterable[int]]) -> list[T]:
    """Put what `each` step has for its messages in the order of their `places`."""
    pairs = zip(chain.from_iterable(places), chain.from_iterable(each), strict=True)
    return [item for _, item in sorted(pairs, key=itemgetter(0))]


def steps_from_messages(
    messages: Iterable[Mapping[str, Any]],
    *,
    session: str | None = None,
    timestamp: Time | None = None,
    pending: Iterable[str | OpenCall] = (),
) -> list[Step]:
    """Make typed steps of chat messages, as OpenAI, Ollama, Gemini, vLLM and others have them.

    A system message that comes first becomes a SystemPromptStep; in a run with tool calls the first user message
    becomes a TaskStep; an assistant's message with tool calls becomes an ActionStep, with the results that these
    messages have for its calls, in whatever order and wherever they stand; the rest are MessageSteps. A call without an
    id, or with one that its turn used before, gets an id of its own in the step, and a result without one answers the
    first open call of the tool that it names, or of any tool. Of open calls with the same id the newest is answered. A
    result that answers no call is kept as a tool's message.

    Args:
        messages: The messages, oldest first.
        session: The session of all steps.
        timestamp: The time of all steps; by default the present.
        pending: Calls made before these messages, or their ids, whose results may come now.

    Raises:
        MessageError: A message is malformed; the error has its index.
    """
    listed = _checked(check_iterable("messages", messages))
    shared: dict[str, Any] = {"session": session}
    if timestamp is not None:
        shared["timestamp"] = to_utc("timestamp", timestamp)
    earlier = check_iterable("pending", pending)
    waiting = [call if isinstance(call, OpenCall) else OpenCall(call, "", call) for call in earlier]
    return [step for step, _ in _read(listed, waiting, shared)]


def steps_of_history(
    messages: Iterable[Mapping[str, Any]], session: str, timestamp: datetime
) -> list[tuple[Step, list[int]]]:
    """Make steps of a history, each with the indices of its messages, in order; errors as in `steps_from_messages`."""
    return _read(_checked(messages), (), {"session": session, "timestamp": timestamp})


class _CallTurn(NamedTuple):
    """The calls of a message, and where the results of some stand, by the places of the calls."""

    made: list[ToolCall]
    calls: list[OpenCall]
    results: dict[int, int]


def _read(
    listed: Sequence[Message], pending: Iterable[OpenCall], shared: dict[str, Any]
) -> list[tuple[Step, list[int]]]:
    turns, late = _find_results(listed, pending)
    taken = {*chain.from_iterable(turn.results.values() for turn in turns.values())}
    may_be_task = bool(turns) or any(message["role"] == "tool" for message in listed)
    found: list[tuple[Step, list[int]]] = []
    for index, message in enumerate(listed):
        if index in taken:
            continue
        came: list[int] = []
        try:
            if index in turns:
                step: Step = _action(message, turns[index], listed, shared)
                came = [place for _, place in sorted(turns[index].results.items())]
            else:
                step = _single(message, index, may_be_task, late.get(index), shared)
        except StepError as error:
            raise MessageError(str(error), index) from error
        may_be_task = may_be_task and isinstance(step, SystemPromptStep)
        found.append((_as_it_came(step, index, came, listed), [index, *sorted(came)]))
    return found


def _as_it_came(step: Step, index: int, came: list[int], listed: Sequence[Message]) -> Step:
    """Return a step with the overlay that makes its messages those that it was read from.

    They stand at its index, and where the results `came`, in the order of their calls.
    """
    pairs = zip([index, *came], step.to_messages(style="tools"), strict=True)
    layers = {place: diff_overlay(rendered, listed[place]) for place, rendered in pairs}
    behind = [place - index for place in came]
    if behind != [*range(1, len(came) + 1)]:
        layers[index][CAME] = behind
    return step.evolve(overlay=[layers[place] for place in sorted(layers)]) if any(layers.values()) else step


def _find_results(
    listed: Sequence[Message], pending: Iterable[OpenCall]
) -> tuple[dict[int, _CallTurn], dict[int, str]]:
    """Return the turns with calls, by their indices, and by those of results the ids of the pending calls answered."""
    waiting: list[tuple[OpenCall, _CallTurn | None, int]] = [(call, None, 0) for call in pending]
    turns: dict[int, _CallTurn] = {}
    late: dict[int, str] = {}
    for index, message in enumerate(listed):
        if raw_calls(message):
            turns[index] = turn = _calls(message, index)
            again = {call.id for call in turn.calls}  # a history that is given again makes its calls again
            before = [entry for entry in waiting if entry[1] is not None or entry[0].id not in again]
            waiting = [*((call, turn, place) for place, call in enumerate(turn.calls)), *before]
        elif message["role"] in ("tool", "function"):
            found = answered_by(message, [call for call, _, _ in waiting])
            if found is not None:
                call, asked, place = waiting.pop(found)
                if asked is None:
                    late[index] = call.id
                else:
                    asked.results[place] = index
    return turns, late


def _checked(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Return copies of messages that can be read."""
    listed: list[Message] = []
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise MessageError(f"must be a mapping with role and content, not {type(message).__name__}", index)
        role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
        if role not in ROLES:
            raise MessageError(f"role must be one of {', '.join(ROLES)}, not {describe_type(role)}", index)
        if not isinstance(calls or [], Sequence):
            raise MessageError(f"tool_calls must be a list, not {type(calls).__name__}", index)
        try:
            check_content(content, "content")  # here, so that a result's index is its own and not its call's
        except StepError as error:
            raise MessageError(str(error), index) from error
        kinds = [part.get("type") for part in content] if isinstance(content, (list, tuple)) else ()
        if "tool_use" in kinds or "tool_result" in kinds:  # their text and place would be lost
            raise MessageError(
                "a tool_use or tool_result is a block of Anthropic's: add the messages of "
                "tinymem.messages.formats.conversation_from(messages, 'anthropic')",
                index,
            )
        listed.append(dict(message))
    return listed


def _single(message: Message, index: int, may_be_task: bool, answered: str | None, shared: dict[str, Any]) -> Step:
    role, content = message["role"], message.get("content")
    if role == "tool" and answered is None:
        answered = message.get("tool_call_id")
        if not isinstance(answered, (str, NoneType)):
            raise MessageError(f"the tool_call_id of a result must be a text, not {describe_type(answered)}", index)
        answered = answered or ""
    if answered is not None:
        return MessageStep("tool", content, answered, **shared)
    speaker = None if role == "function" else _speaker(message)
    if index == 0 and role in ("system", "developer") and content is not None:
        return SystemPromptStep(content, speaker=speaker, **shared)
    if role == "user" and may_be_task and content is not None:
        return TaskStep(content, speaker=speaker, **shared)
    return MessageStep(role, content, speaker=speaker, **shared)


def _speaker(message: Message) -> str | None:
    name = message.get("name")
    return name if isinstance(name, str) else None


def _action(message: Message, turn: _CallTurn, listed: Sequence[Message], shared: dict[str, Any]) -> ActionStep:
    """Return an action with its results; a result without content is empty, since its call was answered."""
    calls: list[ToolCall] = []
    for place, call in enumerate(turn.made):
        if place in turn.results:
            content = listed[turn.results[place]].get("content")
            call = ToolCall(call.name, call.arguments, call.id, "" if content is None else content)
        calls.append(call)
    return ActionStep(message.get("content"), calls, speaker=_speaker(message), **shared)


def _calls(message: Message, index: int) -> _CallTurn:
    """Read the calls of a message, each with an id that no other has, and with the id that its provider gave."""
    turn = _CallTurn([], [], {})
    used: set[str] = set()
    for raw in raw_calls(message):
        given = raw.get("id") if isinstance(raw, Mapping) else raw
        if not isinstance(raw, Mapping) or not isinstance(given, (str, NoneType)):
            raise MessageError(
                f"a tool call must be a mapping, with an id that is a text, not {describe_type(given)}", index
            )
        name, arguments = name_and_arguments(raw)
        if not isinstance(name, str):
            raise MessageError(f"tool call {given!r:.60} has no name: its function must be a mapping with one", index)
        if not isinstance(arguments, (str, Mapping)):
            arguments = to_json(arguments)
        id = _new_id(given or "", name, used)
        used.add(id)
        turn.made.append(ToolCall(name, arguments, id))
        turn.calls.append(OpenCall(id, name, given or ""))
    return turn


def _new_id(given: str, name: str, used: Collection[str]) -> str:
    """Return the id of a call: the same when its message is given again, and no hash of what it says."""
    id, place = given, len(used)
    while not id or id in used:
        id, place = f"call_{plain(name, LONGEST_NAME)}_{place}", place + 1
    return id


def groups(steps: Sequence[Step]) -> list[list[Step]]:
    """Cut `steps` into groups: an action, the tool messages that answer it, and the steps between them.

    >>> [len(group) for group in groups([TaskStep("a"), ActionStep("b")])]
    [1, 1]
    """
    return grouped(check_steps("steps", steps))


def grouped(steps: Iterable[Step]) -> list[list[Step]]:
    """Cut steps of the library's own into groups."""
    found: list[list[Step]] = []
    asked: dict[str, int] = {}  # open call id -> the group that made the call
    for step in steps:
        found.append([step])
        if isinstance(step, ActionStep):
            asked |= dict.fromkeys(open_calls([step]), len(found) - 1)
        elif isinstance(step, MessageStep) and step.tool_call_id in asked:
            asking = asked.pop(step.tool_call_id)
            found[asking:] = [[*chain.from_iterable(found[asking:])]]
            asked = {call: min(place, asking) for call, place in asked.items()}
    return found


# -- calls and their results in steps ---------------------------------------------------------------------------------


def open_calls(steps: Sequence[Step]) -> set[str]:
    """Return the ids of the calls that have no result yet, in their action or in a later tool message."""
    waiting: set[str] = set()
    for step in steps:
        if isinstance(step, ActionStep):
            waiting |= {call.id for call in step.tool_calls if call.observation is None and call.error is None}
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


def without_lone_results(steps: Sequence[Step]) -> list[Step]:
    """Return the steps less the results whose calls are not among them."""
    called = call_ids(steps)
    return [step for step in steps if not is_result(step) or step.tool_call_id in called]


def pending_calls(steps: Reversible[Step], ids: Iterable[str]) -> list[OpenCall]:
    """Find the calls of these `ids` in `steps`, those of the newest step first.

    Calls that no step made are known by their ids alone.
    """
    found: list[OpenCall] = []
    left = set(ids)
    for step in reversed(steps):
        if not left:
            break
        if isinstance(step, ActionStep) and (mine := left & call_ids([step])):
            raw = raw_calls(step.to_messages(style="tools")[0])
            pairs = zip(step.tool_calls, raw, strict=False)
            found += [OpenCall(call.id, call.name, given.get("id") or "") for call, given in pairs if call.id in mine]
            left -= mine
    return [*found, *(OpenCall(id, "", id) for id in sorted(left))]
