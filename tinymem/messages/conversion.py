"""Conversion of chat messages, as OpenAI and compatible servers have them, to steps and back without loss.

`steps_from_messages` then `messages_from_steps`, in style `"tools"`, is the identity, also for messages that no API
would accept: `tinymem.messages.validity` makes them acceptable when they are sent. A *group* must stay together: an
assistant's turn with tool calls, and all its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple, TypeVar

from tinymem.errors import MessageError, StepError, describe_type
from tinymem.messages.answers import OpenCall, answered_by, call_ids, is_result
from tinymem.messages.sendable import name_and_arguments, plain, raw_calls
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.checks import Time, check_iterable, to_utc
from tinymem.steps.content import check_content, to_json
from tinymem.steps.step import CAME, Message, Step, Style, check_steps, diff_overlay
from tinymem.steps.types import ROLES, MessageStep, SystemPromptStep, TaskStep

__all__ = ["groups", "in_order", "message_places", "messages_from_steps", "messages_of_each", "steps_from_messages"]

T = TypeVar("T")

LONGEST_NAME = 20  # characters of a tool's name in the id of a call that was given none


def messages_from_steps(steps: Iterable[Step], summary_mode: bool = False, style: Style = "auto") -> list[Message]:
    """Render the chat messages of `steps`, in order; see `Step.to_messages`.

    In style `"auto"` an action is sent with tool calls, whatever its form, where one of `steps` is a tool message that
    answers it; a tool message whose call is not among `steps` is sent as text.
    """
    each = [*messages_of_each(steps, summary_mode, style)]
    rendered = [messages for _, messages in each]
    return in_order(rendered, message_places([step for step, _ in each], rendered))


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


def messages_of_each(
    steps: Iterable[Step], summary_mode: bool = False, style: Style = "auto"
) -> Iterator[tuple[Step, list[Message]]]:
    """Render each step with the others around it, as `messages_from_steps` does."""
    steps = check_steps("steps", steps)
    late = {step.tool_call_id for step in steps if is_result(step)}
    called = call_ids(steps) if late else ()

    def form(step: Step) -> Style:
        if isinstance(step, ActionStep) and any(call.id in late for call in step.tool_calls):
            return "tools"
        return "observation" if is_result(step) and step.tool_call_id not in called else style

    for step in steps:
        yield step, step.to_messages(summary_mode, form(step) if late and style == "auto" else style)


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
    listed = [_checked(message, index) for index, message in enumerate(check_iterable("messages", messages))]
    shared: dict[str, Any] = {"session": session}
    if timestamp is not None:
        shared["timestamp"] = to_utc("timestamp", timestamp)
    earlier = check_iterable("pending", pending)
    waiting = [_Waiting(call if isinstance(call, OpenCall) else OpenCall(call, "", call)) for call in earlier]
    turns: dict[int, _CallTurn] = {}
    late: dict[int, str] = {}  # by the places of results: the ids of calls that were made before
    for index, message in enumerate(listed):
        if raw_calls(message):
            turns[index] = turn = _CallTurn(_calls(message, index), {})
            again = {call.id for call, _ in turn.calls}  # a history that is given again makes its calls again
            before = [entry for entry in waiting if entry.turn is not None or entry.call.id not in again]
            new = [OpenCall(call.id, call.name, given) for call, given in turn.calls]
            waiting = [*(_Waiting(call, turn, place) for place, call in enumerate(new)), *before]
        elif message["role"] in ("tool", "function"):
            found = answered_by(message, [entry.call for entry in waiting])
            if found is not None:
                call, asked, place = waiting.pop(found)
                if asked is None:
                    late[index] = call.id
                else:
                    asked.results[place] = index
    return _steps(listed, turns, late, shared)


class _CallTurn(NamedTuple):
    """The calls of a message, and where the results of some stand, by the places of the calls."""

    calls: Sequence[tuple[ToolCall, str]]
    results: dict[int, int]


class _Waiting(NamedTuple):
    """A call that waits for its result, and its place in a turn of these messages; no turn has one made before."""

    call: OpenCall
    turn: _CallTurn | None = None
    place: int = 0


def _steps(
    listed: Sequence[Message], turns: Mapping[int, _CallTurn], late: Mapping[int, str], shared: dict[str, Any]
) -> list[Step]:
    is_run = bool(turns) or any(message["role"] == "tool" for message in listed)
    taken = {*chain.from_iterable(turn.results.values() for turn in turns.values())}
    steps: list[Step] = []
    for index, message in enumerate(listed):
        if index in taken:
            continue
        results: Mapping[int, int] = turns[index].results if index in turns else {}
        try:
            if index in turns:
                step: Step = _action(message, turns[index], listed, shared)
            else:
                may_be_task = is_run and all(isinstance(step, SystemPromptStep) for step in steps)
                step = _single(message, index, may_be_task, late.get(index), shared)
        except StepError as error:
            raise MessageError(str(error), index) from error
        came = [results[place] - index for place in sorted(results)]
        if came != [*range(1, len(came) + 1)]:
            step = step.evolve(overlay=({CAME: came}, *({} for _ in came)))
        given = [message, *(listed[place] for place in sorted(results.values()))]
        layers = [diff_overlay(*pair) for pair in zip(step.to_messages(style="tools"), given, strict=True)]
        if step.overlay:
            layers[0] = {**layers[0], CAME: came}
        steps.append(step.evolve(overlay=tuple(layers)) if any(layers) else step)
    return steps


def _checked(message: Mapping[str, Any], index: int) -> Message:
    if not isinstance(message, Mapping):
        raise MessageError(f"must be a mapping with role and content, not {type(message).__name__}", index)
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise MessageError(f"role must be one of {', '.join(ROLES)}, not {describe_type(role)}", index)
    if not isinstance(message.get("tool_calls") or [], Sequence):
        raise MessageError(f"tool_calls must be a list, not {type(message['tool_calls']).__name__}", index)
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
    return dict(message)


def _single(message: Message, index: int, may_be_task: bool, answered: str | None, shared: dict[str, Any]) -> Step:
    role, content = message["role"], message.get("content")
    name, id = message.get("name"), message.get("tool_call_id")
    speaker: dict[str, Any] = {"speaker": name} if isinstance(name, str) and role not in ("tool", "function") else {}
    if index == 0 and role in ("system", "developer") and content is not None:
        return SystemPromptStep(content, **shared, **speaker)
    if role == "user" and may_be_task and content is not None:
        return TaskStep(content, **shared, **speaker)
    if role == "tool" and not isinstance(id, (str, NoneType)):
        raise MessageError(f"the tool_call_id of a result must be a text, not {describe_type(id)}", index)
    if role == "tool" or answered is not None:
        return MessageStep("tool", content, (id or "") if answered is None else answered, **shared)
    return MessageStep(role, content, **shared, **speaker)


def _action(message: Message, turn: _CallTurn, listed: Sequence[Message], shared: dict[str, Any]) -> ActionStep:
    """Return an action with its results; one without content is empty, and so is a call's that has none."""
    calls = [
        ToolCall(call.name, call.arguments, call.id, _observation(listed[turn.results[place]]))
        if place in turn.results
        else call
        for place, (call, _) in enumerate(turn.calls)
    ]
    name = message.get("name")
    return ActionStep(message.get("content"), calls, speaker=name if isinstance(name, str) else None, **shared)


def _observation(result: Message) -> Any:
    """Return the content of a result, which is empty where it has none: the call was answered."""
    content = result.get("content")
    return "" if content is None else content


def _calls(message: Message, index: int) -> list[tuple[ToolCall, str]]:
    """Read the calls of a message, each with an id that no other has, and with the id that its provider gave."""
    found: list[tuple[ToolCall, str]] = []
    used: set[str] = set()
    for raw in raw_calls(message):
        given = raw.get("id") if isinstance(raw, Mapping) else raw
        if not isinstance(raw, Mapping) or not isinstance(given, (str, type(None))):
            raise MessageError(
                f"a tool call must be a mapping, with an id that is a text, not {describe_type(given)}", index
            )
        name, arguments = name_and_arguments(raw)
        if not isinstance(name, str):
            raise MessageError(f"tool call {given!r:.60} has no name: its function must be a mapping with one", index)
        if not isinstance(arguments, (str, Mapping)):
            arguments = to_json(arguments)
        id, place = given or "", len(found)
        while not id or id in used:  # the same when the message is given again, and no hash of what it says
            id, place = f"call_{plain(name, LONGEST_NAME)}_{place}", place + 1
        used.add(id)
        found.append((ToolCall(name, arguments, id), given or ""))
    return found


def groups(steps: Sequence[Step]) -> list[list[Step]]:
    """Cut `steps` into groups: an action, the tool messages that answer it, and the steps between them.

    >>> [len(group) for group in groups([TaskStep("a"), ActionStep("b")])]
    [1, 1]
    """
    found: list[list[Step]] = []
    asked: dict[str, int] = {}  # open call id -> the group that made the call
    for step in check_steps("steps", steps):
        found.append([step])
        if isinstance(step, ActionStep):
            asked.update((call.id, len(found) - 1) for call in step.tool_calls if not call.answered)
        elif isinstance(step, MessageStep) and step.tool_call_id in asked:
            asking = asked.pop(step.tool_call_id)
            found[asking:] = [[*chain.from_iterable(found[asking:])]]
            asked = {call: min(place, asking) for call, place in asked.items()}
    return found
