"""ATIF, the Agent Trajectory Interchange Format of Harbor, read as chat messages: versions 1.0 to 1.7.

What a reader of a memory does not need is left out: metrics, token ids, costs. `tinymem.runs.exports.atif` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tinymem.runs.exports.chats import Chat, ExportedChat, first_name
from tinymem.runs.values import joined_texts, mappings_in

__all__ = ["is_trajectory", "read_trajectory"]

ROLES = {"system": "system", "user": "user", "agent": "assistant"}  # by source
DEEPEST, LONGEST = 20, 1_000  # subagents in subagents; characters of a session


def is_trajectory(value: Mapping[str, Any]) -> bool:
    """Return True for what looks like a trajectory."""
    return str(value.get("schema_version", "")).startswith("ATIF") and isinstance(value.get("steps"), list)


def read_trajectory(value: Mapping[str, Any], within: str = "", depth: int = 0) -> Iterator[ExportedChat]:
    """Yield the conversation of a trajectory, and those of subagents inside of it."""
    session = within + first_name(value.get("session_id"), value.get("trajectory_id"), "atif")
    chat = Chat(depth > 0)
    for step in mappings_in(value, "steps"):
        _read_step(step, chat)
    inside = [*filter(is_trajectory, mappings_in(value, "subagent_trajectories"))]
    if depth == DEEPEST:
        chat.leave_out("trajectory of a subagent", len(inside))
        inside = []
    yield chat.done(session[:LONGEST])
    for inner in inside:
        yield from read_trajectory(inner, f"{session}/", depth + 1)


def _read_step(step: Mapping[str, Any], chat: Chat) -> None:
    when, said = step.get("timestamp"), joined_texts(step.get("message"))
    role = ROLES.get(str(step.get("source")), "user")
    thinking = step.get("reasoning_content")
    more = {"reasoning_content": thinking} if isinstance(thinking, str) and role == "assistant" else {}
    calls = mappings_in(step, "tool_calls")
    if not calls:
        chat.say(role, said, when, **more)
    for call in calls:
        id, name = first_name(call.get("tool_call_id"), "call"), first_name(call.get("function_name"))
        chat.call(id, name, call.get("arguments"), when, said, **more)
        said, more = "", {}
    for result in mappings_in(step, "observation", "results"):
        chat.result(result.get("source_call_id"), joined_texts(result.get("content")), when)
