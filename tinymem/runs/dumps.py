"""Lists in which frameworks write down their messages, read as chat messages.

- LangChain: `messages_to_dict(messages)`, or `dumpd(messages)`;
- smolagents: `agent.memory.get_full_steps()`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["chat_of"]

ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "tool": "tool"}
PARTS = ("text", "image_url")  # of a content; calls stand beside it, and thinking is left out
STEPS = ("task", "plan", "step_number", "system_prompt", "final_answer", "output")  # keys by which a step is known
Messages = list[dict[str, Any]]


def chat_of(value: Any) -> tuple[Messages, Counter[str]] | None:
    """Read a dump.

    Returns:
        Its messages, and the number of entries left out, by their kind; None for a list of another kind.
    """
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping) or "role" in value[0]:
        return None
    read: Callable[[Mapping[str, Any]], Messages]
    if _fields(value[0]) is not value[0] and "content" in _fields(value[0]):
        read, name = _of_langchain, "type"
    elif any(key in value[0] for key in STEPS) and "traj" not in value[0]:
        read, name = _of_step, "step"
    else:
        return None
    messages: Messages = []
    skipped: Counter[str] = Counter()
    for entry in value:
        new = read(entry) if isinstance(entry, Mapping) else []
        if not new:
            is_mapping = isinstance(entry, Mapping)
            kind = _fields(entry).get("type") or next(iter(entry), "of nothing") if is_mapping else type(entry).__name__
            skipped[f"{name} {str(kind)[:40]}"] += 1
        messages += new
    return messages, skipped


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
    calls = [_call(call.get("id"), call.get("name"), call.get("args")) for call in _mappings(fields.get("tool_calls"))]
    return [message | {"tool_calls": calls}] if calls and role == "assistant" else [message]


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
    return [part for part in _mappings(parts) if part.get("type") in PARTS] or None


def _mappings(value: Any) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _call(id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


# -- smolagents -------------------------------------------------------------------------------------------------------


def _of_step(entry: Mapping[str, Any]) -> Messages:
    for key, role in (("system_prompt", "system"), ("task", "user"), ("plan", "assistant")):
        if isinstance(entry.get(key), str):
            return [{"role": role, "content": entry[key]}]
    if "step_number" not in entry:
        return []
    timing = entry.get("timing")
    when = {"timestamp": timing.get("start_time")} if isinstance(timing, Mapping) else {}
    made = [(call, call.get("function")) for call in _mappings(entry.get("tool_calls"))]
    calls = [_call(c.get("id"), f.get("name"), f.get("arguments")) for c, f in made if isinstance(f, Mapping)]
    said = {"role": "assistant", "content": entry.get("model_output"), **when}
    error, seen = entry.get("error"), entry.get("observations")
    seen = seen if isinstance(seen, str) else ""
    if isinstance(error, Mapping) and error.get("message"):
        seen = "\n".join(filter(None, (seen, f"Error: {error['message']}")))
    if not calls:
        return [said, {"role": "user", "content": seen, **when}] if seen else [said]
    texts = [seen, *[""] * (len(calls) - 1)]  # the results of several calls come as one
    answers = [{"role": "tool", "tool_call_id": c["id"], "content": t} for c, t in zip(calls, texts, strict=True)]
    return [said | {"tool_calls": calls}, *(answer | when for answer in answers)]
