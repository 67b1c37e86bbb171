"""Chat messages in OpenAI's shape: to steps and back without loss, groups, and repair.

`steps_from_messages` then `messages_from_steps` is the identity. A *group* is what must stay together: an assistant's
turn with tool calls, and all its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tinymem.actions import ActionStep, ToolCall
from tinymem.base import Message, Step, Style, overlay_of
from tinymem.content import checked, is_empty
from tinymem.errors import MessageError, StepError
from tinymem.quiet import kind_of, shown
from tinymem.steps import ROLES, MessageStep, SystemPromptStep, TaskStep

__all__ = ["groups", "messages_from_steps", "open_calls", "problems", "repair", "steps_from_messages"]

NO_RESULT = "[no result was recorded]"


def messages_from_steps(steps: Iterable[Step], summary_mode: bool = False, style: Style = "tools") -> list[Message]:
    """The chat messages of `steps`, in order."""
    return [message for step in steps for message in step.to_messages(summary_mode, style)]


def steps_from_messages(
    messages: Iterable[Mapping[str, Any]],
    *,
    session: str | None = None,
    timestamp: datetime | None = None,
    pending: Iterable[str] = (),
) -> list[Step]:
    """Typed steps of OpenAI chat messages.

    A system message that comes first becomes a SystemPromptStep; in a run with tool calls the first user message
    becomes a TaskStep; an assistant's message with tool calls and the results that follow become one ActionStep; the
    rest are MessageSteps. `pending` are ids of calls made before these messages, whose results may come now.

    Raises MessageError, with the index of the message, for one that is malformed or answers no call.
    """
    listed = [_checked(message, index) for index, message in enumerate(messages)]
    is_run = any(message.get("tool_calls") or message["role"] == "tool" for message in listed)
    shared: dict[str, Any] = {"session": session} | ({"timestamp": timestamp} if timestamp else {})
    steps: list[Step] = []
    waiting, at = set(pending), 0
    step: Step
    while at < len(listed):
        message = listed[at]
        try:
            if message.get("tool_calls"):
                step, taken = _action(listed, at, shared)
                waiting = _waiting(step)
            else:
                step, taken = _single(message, at, is_run and not _has_task(steps), waiting, shared), 1
        except StepError as error:
            raise MessageError(str(error), at) from error
        layers = [overlay_of(*pair) for pair in zip(step.to_messages(), listed[at : at + taken], strict=True)]
        steps.append(step.evolve(overlay=tuple(layers)) if any(layers) else step)
        at += taken
    return steps


def _checked(message: Mapping[str, Any], index: int) -> Message:
    if not isinstance(message, Mapping):
        raise MessageError(f"must be a mapping with role and content, not {type(message).__name__}", index)
    if message.get("role") not in ROLES:
        raise MessageError(f"role must be one of {', '.join(ROLES)}, not {shown(message.get('role'))}", index)
    if not isinstance(message.get("tool_calls") or [], Sequence):
        raise MessageError(f"tool_calls must be a list, not {type(message['tool_calls']).__name__}", index)
    try:
        checked(message.get("content"), "content")  # here, so that a result's index is its own and not its call's
    except StepError as error:
        raise MessageError(str(error), index) from error
    return dict(message)


def _has_task(steps: Sequence[Step]) -> bool:
    return any(not isinstance(step, SystemPromptStep) for step in steps)


def _single(message: Message, at: int, may_be_task: bool, waiting: set[str], shared: dict[str, Any]) -> Step:
    role, content = message["role"], message.get("content")
    name = message.get("name")
    speaker: dict[str, Any] = {"speaker": name} if isinstance(name, str) and role not in ("tool", "function") else {}
    if at == 0 and role in ("system", "developer") and content is not None:
        return SystemPromptStep(content, **shared, **speaker)
    if role == "user" and may_be_task and content is not None:
        return TaskStep(content, **shared, **speaker)
    if role == "tool":
        call = message.get("tool_call_id")
        if not isinstance(call, str) or call not in waiting:
            known = f"open calls: {', '.join(sorted(waiting))}" if waiting else "no call is open"
            raise MessageError(f"the tool result for call {call!r} answers no call before it ({known})", at)
        waiting.discard(call)
        return MessageStep(role, content, call, **shared)
    return MessageStep(role, content, **shared, **speaker)


def _action(listed: Sequence[Message], at: int, shared: dict[str, Any]) -> tuple[ActionStep, int]:
    """The action that starts at `at`, with the results that follow it in the order of its calls."""
    message = listed[at]
    calls = [_call(raw, at) for raw in message["tool_calls"]]
    results: dict[int, Message] = {}
    end, first_free = at + 1, 0
    while end < len(listed) and listed[end]["role"] == "tool":
        fits = [i for i in range(first_free, len(calls)) if calls[i].id == listed[end].get("tool_call_id")]
        if not fits or listed[end].get("content") is None:
            break  # out of order, or for another call: it stands as a step of its own
        results[fits[0]], first_free, end = listed[end], fits[0] + 1, end + 1
    answered = [
        ToolCall(call.name, call.arguments, call.id, results[i]["content"]) if i in results else call
        for i, call in enumerate(calls)
    ]
    name = message.get("name")
    return ActionStep(
        message.get("content"), answered, speaker=name if isinstance(name, str) else None, **shared
    ), end - at


def _call(raw: Any, at: int) -> ToolCall:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("id"), str):
        raise MessageError(f"a tool call must be a mapping with an id, not {kind_of(raw)}", at)
    kind = raw.get("function") or raw.get("custom")
    if not isinstance(kind, Mapping) or not isinstance(kind.get("name"), str):
        raise MessageError(f"tool call {raw['id']!r} has no name", at)
    return ToolCall(kind["name"], kind.get("arguments", kind.get("input", "")), raw["id"])


def _waiting(step: Step) -> set[str]:
    return {call.id for call in step.tool_calls if not call.answered} if isinstance(step, ActionStep) else set()


def open_calls(steps: Sequence[Step]) -> set[str]:
    """Ids of the newest action's calls that have no result yet, in it or in a later tool message."""
    waiting: set[str] = set()
    for step in steps:
        if isinstance(step, ActionStep):
            waiting = _waiting(step)
        elif isinstance(step, MessageStep) and step.role == "tool":
            waiting.discard(step.tool_call_id or "")
    return waiting


def groups(steps: Sequence[Step]) -> list[list[Step]]:
    """`steps` cut into groups: an action stays with the tool messages that answer it, and what stands between them.

    >>> [len(group) for group in groups([TaskStep("a"), ActionStep("b")])]
    [1, 1]
    """
    found: list[list[Step]] = []
    asked: dict[str, int] = {}  # open call id -> the group that made the call
    for step in steps:
        found.append([step])
        if isinstance(step, ActionStep):
            asked.update(dict.fromkeys(_waiting(step), len(found) - 1))
        elif isinstance(step, MessageStep) and step.tool_call_id in asked:
            at = asked.pop(step.tool_call_id)
            found[at:] = [[s for group in found[at:] for s in group]]
            asked = {call: min(group, at) for call, group in asked.items()}
    return found


def problems(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the chat APIs would refuse about this sequence; empty when it is valid."""
    found: list[str] = []
    waiting: list[str] = []
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                found.append(f"message {i}: a tool result that answers no open call")
            continue
        if waiting:
            found.append(f"message {i}: calls {', '.join(waiting)} before it have no result")
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if not waiting and "tool_calls" in message:
            found.append(f"message {i}: tool_calls is empty")
        if not waiting and is_empty(message.get("content")) and not message.get("function_call"):
            found.append(f"message {i}: nothing in it")
    return found + ([f"the end: calls {', '.join(waiting)} have no result"] if waiting else [])


def repair(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """`messages` as a sequence that OpenAI and Anthropic accept; repairing twice changes nothing more.

    Results move to just behind their calls, in the order of the calls; results without a call and messages without
    content are left out; a call without a result gets one that says so.
    """
    repaired: list[Message] = []
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            continue  # placed with its call
        kept = dict(message)
        if not kept.get("tool_calls"):
            kept.pop("tool_calls", None)
            if not is_empty(kept.get("content")) or kept.get("function_call"):
                repaired.append(kept)
            continue
        repaired.append(kept)
        repaired.extend(_results(messages, i))
    return repaired


def _results(messages: Sequence[Mapping[str, Any]], at: int) -> list[Message]:
    """One result for each call of message `at`, from what follows up to where one of the ids is used again."""
    ids = [call["id"] for call in messages[at]["tool_calls"]]
    found: dict[str, list[Message]] = {call: [] for call in ids}
    for message in messages[at + 1 :]:
        if any(call["id"] in found for call in message.get("tool_calls") or ()):
            break
        if message["role"] == "tool" and message.get("tool_call_id") in found:
            found[message["tool_call_id"]].append(dict(message))
    return [
        found[call].pop(0) if found[call] else {"role": "tool", "tool_call_id": call, "content": NO_RESULT}
        for call in ids
    ]
