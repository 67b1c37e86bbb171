"""ATIF, the Agent Trajectory Interchange Format of Harbor, read as chat messages: versions 1.0 to 1.7.

What a reader of a memory does not need is left out: metrics, token ids, costs. `tinymem.runs.atif` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tinymem.runs.exports.chats import Chat, Conversation, first_name, mappings_in

__all__ = ["is_trajectory", "read_trajectory"]

ROLES = {"system": "system", "user": "user", "agent": "assistant"}  # by source
DEEPEST, LONGEST = 20, 1_000  # subagents in subagents; characters of a session


def is_trajectory(value: Mapping[str, Any]) -> bool:
    """Return True for what looks like a trajectory."""
    return str(value.get("schema_version", "")).startswith("ATIF") and isinstance(value.get("steps"), list)


def read_trajectory(value: Mapping[str, Any], within: str = "", depth: int = 0) -> Iterator[Conversation]:
    """Yield the conversation of a trajectory, and those of subagents inside of it."""
    session = within + first_name(value.get("session_id"), value.get("trajectory_id"), "atif")
    chat = Chat()
    for step in mappings_in(value["steps"]):
        _read_step(step, chat)
    inside = [inner for inner in mappings_in(value.get("subagent_trajectories")) if is_trajectory(inner)]
    if depth == DEEPEST and inside:
        chat.skipped["trajectory of a subagent"] += len(inside)
        inside = []
    yield chat.done(session[:LONGEST])
    for inner in inside:
        yield from read_trajectory(inner, f"{session}/", depth + 1)


def _read_step(step: Mapping[str, Any], chat: Chat) -> None:
    when, said = step.get("timestamp"), _text(step.get("message"))
    role = ROLES.get(str(step.get("source")), "user")
    thinking = step.get("reasoning_content")
    more = {"reasoning_content": thinking} if isinstance(thinking, str) and role == "assistant" else {}
    calls = mappings_in(step.get("tool_calls"))
    if not calls:
        chat.say(role, said, when, **more)
    for call in calls:
        id, given = first_name(call.get("tool_call_id"), "call"), call.get("arguments")
        chat.call(id, first_name(call.get("function_name")), given, when, said, **more)
        said, more = "", {}
    observation = step.get("observation")
    for result in mappings_in(observation.get("results") if isinstance(observation, Mapping) else None):
        chat.result(result.get("source_call_id"), _text(result.get("content")), when)


def _text(content: Any) -> str:
    """Return the text of a message or a result, which is a text, or a list of parts from version 1.6 on."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in mappings_in(content) if isinstance(part.get("text"), str))
