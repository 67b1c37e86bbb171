"""Lists in which frameworks write down their messages, read as chat messages.

- LangChain: `messages_to_dict(messages)`, or `dumpd(messages)`;
- smolagents: `agent.memory.get_full_steps()`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tinymem.runs.values import mappings_in, text_in, value_in

__all__ = ["chat_of"]

ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "tool": "tool"}
PARTS = ("text", "image_url")  # of a content; calls stand beside it, and thinking is left out
STEPS = ("task", "plan", "step_number", "system_prompt", "final_answer", "output")  # keys by which a step is known
SAID = {"system_prompt": "system", "task": "user", "plan": "assistant"}  # keys of what a step says by itself
Messages = list[dict[str, Any]]


def chat_of(value: Any) -> tuple[Messages, Counter[str]] | None:
    """Read a dump.

    Returns:
        Its messages, and the number of entries left out, by their kind; None for a list of another kind.
    """
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping) or "role" in value[0]:
        return None
    read: Callable[[Mapping[str, Any]], Messages]
    fields = _fields(value[0])
    if fields is not value[0] and "content" in fields:
        read, name = _of_langchain, "type"
    elif not value[0].keys().isdisjoint(STEPS) and "traj" not in value[0]:
        read, name = _of_step, "step"
    else:
        return None
    messages: Messages = []
    skipped: Counter[str] = Counter()
    for entry in value:
        new = read(entry) if isinstance(entry, Mapping) else []
        messages += new
        if not new:
            skipped[f"{name} {_kind(entry)[:40]}"] += 1
    return messages, skipped


def _kind(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return type(entry).__name__
    return str(_fields(entry).get("type") or next(iter(entry), "of nothing"))


# -- LangChain --------------------------------------------------------------------------------------------------------


def _fields(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a message, in either kind of dump."""
    inner = entry.get("kwargs") if entry.get("lc") else entry.get("data")
    return inner if isinstance(inner, Mapping) else entry


def _of_langchain(entry: Mapping[str, Any]) -> Messages:
    fields = _fields(entry)
    role = ROLES.get(str(fields.get("type") or entry.get("type")))
    if role is None:
        return []
    message: dict[str, Any] = {"role": role, "content": _content(fields.get("content"))}
    if role == "tool":
        message["tool_call_id"] = fields.get("tool_call_id")
    calls = [_call(call.get("id"), call.get("name"), call.get("args")) for call in mappings_in(fields, "tool_calls")]
    return [message | {"tool_calls": calls}] if calls and role == "assistant" else [message]


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    return [part for part in mappings_in(parts) if part.get("type") in PARTS] or None


def _call(id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


# -- smolagents -------------------------------------------------------------------------------------------------------


def _of_step(entry: Mapping[str, Any]) -> Messages:
    for key, role in SAID.items():
        if isinstance(entry.get(key), str):
            return [{"role": role, "content": entry[key]}]
    if "step_number" not in entry:
        return []
    seen, error = text_in(entry, "observations"), value_in(entry, "error", "message")
    seen = "\n".join(filter(None, [seen, f"Error: {error}" if error else ""]))
    calls = []
    for call in mappings_in(entry, "tool_calls"):
        if isinstance(call.get("function"), Mapping):
            calls.append(_call(call.get("id"), call["function"].get("name"), call["function"].get("arguments")))
    messages: Messages = [{"role": "assistant", "content": entry.get("model_output")}]
    if calls:
        messages[0]["tool_calls"] = calls
    elif seen:
        messages.append({"role": "user", "content": seen})
    for call in calls:  # the results of several calls come as one
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": seen})
        seen = ""
    timing = entry.get("timing")
    when = {"timestamp": timing.get("start_time")} if isinstance(timing, Mapping) else {}
    return [message | when for message in messages]
