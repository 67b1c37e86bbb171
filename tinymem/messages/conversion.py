"""Conversion of chat messages, as OpenAI and compatible servers have them, to steps and back without loss.

`steps_from_messages` then `messages_from_steps` is the identity, also for messages that no API would accept:
`tinymem.messages.validity` makes them acceptable when they are sent. A *group* must stay together: an assistant's turn
with tool calls, and all its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from tinymem.errors import MessageError, StepError, describe_type
from tinymem.messages.answers import OpenCall, answered_by
from tinymem.messages.sendable import name_and_arguments, plain, raw_calls
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.checks import Time, check_iterable, to_utc
from tinymem.steps.content import check_content, to_json
from tinymem.steps.step import Message, Step, Style, check_steps, diff_overlay
from tinymem.steps.types import ROLES, MessageStep, SystemPromptStep, TaskStep

__all__ = ["groups", "messages_from_steps", "messages_of_each", "steps_from_messages"]

LONGEST_NAME = 20  # characters of a tool's name in the id of a call that was given none


def messages_from_steps(steps: Iterable[Step], summary_mode: bool = False, style: Style = "auto") -> list[Message]:
    """Render the chat messages of `steps`, in order; see `Step.to_messages`.

    In style `"auto"` an action is sent with tool calls, whatever its form, where one of `steps` is a tool message that
    answers it; a tool message whose call is not among `steps` is sent as text.
    """
    return [message for _, messages in messages_of_each(steps, summary_mode, style) for message in messages]


def messages_of_each(
    steps: Iterable[Step], summary_mode: bool = False, style: Style = "auto"
) -> Iterator[tuple[Step, list[Message]]]:
    """Render each step with the others around it, as `messages_from_steps` does."""
    steps = check_steps("steps", steps)
    late = {step.tool_call_id for step in steps if _is_result(step)}
    called = {call.id for step in steps if isinstance(step, ActionStep) for call in step.tool_calls} if late else set()

    def form(step: Step) -> Style:
        if isinstance(step, ActionStep) and any(call.id in late for call in step.tool_calls):
            return "tools"
        return "observation" if _is_result(step) and step.tool_call_id not in called else style

    for step in steps:
        yield step, step.to_messages(summary_mode, form(step) if late and style == "auto" else style)


def _is_result(step: Step) -> TypeGuard[MessageStep]:
    return isinstance(step, MessageStep) and step.role == "tool"


def steps_from_messages(
    messages: Iterable[Mapping[str, Any]],
    *,
    session: str | None = None,
    timestamp: Time | None = None,
    pending: Iterable[str | OpenCall] = (),
) -> list[Step]:
    """Make typed steps of chat messages, as OpenAI, Ollama, Gemini, vLLM and others have them.

    A system message that comes first becomes a SystemPromptStep; in a run with tool calls the first user message
    becomes a TaskStep; an assistant's message with tool calls and the results that follow become one ActionStep; the
    rest are MessageSteps. A call without an id, or with one that its turn used before, gets an id of its own in the
    step, and a result without one answers the first open call of the tool that it names, or of any tool.

    Args:
        messages: The messages, oldest first.
        session: The session of all steps.
        timestamp: The time of all steps; by default the present.
        pending: Calls made before these messages, or their ids, whose results may come now.

    Raises:
        MessageError: A message is malformed, or answers no call; the error has its index.
    """
    listed = [_checked(message, index) for index, message in enumerate(check_iterable("messages", messages))]
    is_run = any(raw_calls(message) or message["role"] == "tool" for message in listed)
    shared: dict[str, Any] = {"session": session}
    if timestamp is not None:
        shared["timestamp"] = to_utc("timestamp", timestamp)
    steps: list[Step] = []
    earlier = [
        call if isinstance(call, OpenCall) else OpenCall(call, "", call) for call in check_iterable("pending", pending)
    ]
    waiting, at = [*earlier], 0
    step: Step
    while at < len(listed):
        message = listed[at]
        try:
            if raw_calls(message):
                step, taken, new = _action(listed, at, shared)
                again = {call.id for call in step.tool_calls}  # a history that is given again makes its calls again
                others = [call for call in waiting if call.id not in again or all(call is not one for one in earlier)]
                waiting = [*new, *others]  # of calls with one id, the newest is answered
            else:
                may_be_task = is_run and all(isinstance(step, SystemPromptStep) for step in steps)
                step, taken = _single(message, at, may_be_task, waiting, shared), 1
        except StepError as error:
            raise MessageError(str(error), at) from error
        rendered = step.to_messages(style="tools")
        layers = [diff_overlay(*pair) for pair in zip(rendered, listed[at : at + taken], strict=True)]
        steps.append(step.evolve(overlay=tuple(layers)) if any(layers) else step)
        at += taken
    return steps


def _checked(message: Mapping[str, Any], index: int) -> Message:
    if not isinstance(message, Mapping):
        raise MessageError(f"must be a mapping with role and content, not {type(message).__name__}", index)
    if message.get("role") not in ROLES:
        raise MessageError(f"role must be one of {', '.join(ROLES)}, not {describe_type(message.get('role'))}", index)
    if not isinstance(message.get("tool_calls") or [], Sequence):
        raise MessageError(f"tool_calls must be a list, not {type(message['tool_calls']).__name__}", index)
    try:
        check_content(message.get("content"), "content")  # here, so that a result's index is its own and not its call's
    except StepError as error:
        raise MessageError(str(error), index) from error
    _refuse_blocks(message.get("content"), index)
    return dict(message)


def _refuse_blocks(content: Any, index: int) -> None:
    """Refuse calls and results among the parts of content, whose text and place would be lost."""
    kinds = [part.get("type") for part in content or ()] if isinstance(content, (list, tuple)) else []
    if kind := next((kind for kind in kinds if kind in ("tool_use", "tool_result")), None):
        raise MessageError(
            f"a {kind} is a block of Anthropic's: add the messages of "
            "tinymem.messages.formats.conversation_from(messages, 'anthropic')",
            index,
        )


def _single(message: Message, at: int, may_be_task: bool, waiting: list[OpenCall], shared: dict[str, Any]) -> Step:
    role, content = message["role"], message.get("content")
    name = message.get("name")
    speaker: dict[str, Any] = {"speaker": name} if isinstance(name, str) and role not in ("tool", "function") else {}
    if at == 0 and role in ("system", "developer") and content is not None:
        return SystemPromptStep(content, **shared, **speaker)
    if role == "user" and may_be_task and content is not None:
        return TaskStep(content, **shared, **speaker)
    if role in ("tool", "function") and (found := answered_by(message, waiting)) is not None:
        return MessageStep("tool", content, waiting.pop(found).id, **shared)
    if role == "tool":
        raise MessageError(_answers_nothing(message, waiting), at)
    return MessageStep(role, content, **shared, **speaker)


def _answers_nothing(message: Message, waiting: Sequence[OpenCall]) -> str:
    id = message.get("tool_call_id")
    what = "without a tool_call_id" if id is None else f"for call {id!r:.60}"
    ids = ", ".join(sorted(call.given or call.id for call in waiting))
    known = f"open calls: {ids}" if waiting else "no call is open"
    return f"the tool result {what} answers no call before it ({known}): add the message that makes the call first"


def _action(listed: Sequence[Message], at: int, shared: dict[str, Any]) -> tuple[ActionStep, int, list[OpenCall]]:
    """Read the action that starts at `at`, with the results that follow it in the order of its calls.

    Returns:
        The action, the number of messages that it takes, and the calls that still wait.
    """
    message = listed[at]
    calls = _calls(message, at)
    waiting = [OpenCall(call.id, call.name, given) for call, given in calls]
    results: dict[int, Message] = {}
    end, first_free = at + 1, 0
    while end < len(listed) and listed[end]["role"] in ("tool", "function"):
        found = answered_by(listed[end], waiting[first_free:])
        if found is None or listed[end].get("content") is None:
            break  # out of order, or for another call: it becomes a step of its own
        results[first_free + found], first_free, end = listed[end], first_free + found + 1, end + 1
    answered = [
        ToolCall(call.name, call.arguments, call.id, results[i]["content"]) if i in results else call
        for i, (call, _) in enumerate(calls)
    ]
    name = message.get("name")
    speaker = name if isinstance(name, str) else None
    step = ActionStep(message.get("content"), answered, speaker=speaker, **shared)
    return step, end - at, [call for i, call in enumerate(waiting) if i not in results]


def _calls(message: Message, at: int) -> list[tuple[ToolCall, str]]:
    """Read the calls of a message, each with an id that no other has, and with the id that its provider gave."""
    found: list[tuple[ToolCall, str]] = []
    used: set[str] = set()
    for raw in raw_calls(message):
        given = raw.get("id") if isinstance(raw, Mapping) else raw
        if not isinstance(raw, Mapping) or not isinstance(given, (str, type(None))):
            raise MessageError(
                f"a tool call must be a mapping, with an id that is a text, not {describe_type(given)}", at
            )
        name, arguments = name_and_arguments(raw)
        if not isinstance(name, str):
            raise MessageError(f"tool call {given!r:.60} has no name: its function must be a mapping with one", at)
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
            at = asked.pop(step.tool_call_id)
            found[at:] = [[s for group in found[at:] for s in group]]
            asked = {call: min(group, at) for call, group in asked.items()}
    return found
