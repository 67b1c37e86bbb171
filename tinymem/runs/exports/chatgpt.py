"""Conversations of ChatGPT's export: trees, of which the branch that was shown last is read."""

from __future__ import annotations

from typing import Any

from tinymem.runs.exports.chats import (
    BRANCH,
    Chat,
    Conversation,
    Entry,
    as_mapping,
    as_time,
    first_name,
    mappings_in,
    shown_branch,
)

__all__ = ["CHATGPT", "instructions_in", "read_chatgpt"]

CHATGPT = "chatgpt"
INSTRUCTIONS = {"user_profile": "About the user", "user_instructions": "How to answer", "model_set_context": "Memory"}
TEXTS = ("title", "url", "text", "result", "summary", "transcription")  # of a content or of a part of one


def read_chatgpt(entry: Entry) -> Conversation:
    """Read a conversation; results go to their calls by id, by the tool's name, or else in order."""
    chat, path = Chat(), _shown_path(entry)
    nodes = [_message(node) for node in entry["mapping"].values()]
    if left := sum(bool(node) for node in nodes) - len(path):
        chat.skipped[BRANCH] += left
    calls: dict[str, str] = {}  # the call of each message
    for message in path:
        role, tool = _role(message), first_name(message.get("recipient"), "all")
        metadata, when, id = as_mapping(message.get("metadata")), message.get("create_time"), message.get("id")
        content = as_mapping(message.get("content"))
        if INSTRUCTIONS.keys() & content.keys():
            continue  # they are read once, by `instructions_in`
        text = _text(content, chat)
        if metadata.get("is_visually_hidden_from_conversation") is True:
            chat.skipped["hidden message"] += 1
        elif role == "assistant" and tool != "all":
            called = chat.call(first_name(id), tool, {"input": text}, when)
            calls[first_name(id)] = called
        elif role == "tool":
            name = as_mapping(message.get("author")).get("name")
            given = (metadata.get(key) for key in ("tool_call_id", "call_id", "parent_id"))
            named = next((calls[key] for key in given if isinstance(key, str) and key in calls), None)
            tool = name if isinstance(name, str) else ""
            chat.result(named or chat.caller(tool), text, when, tool)
        elif role in ("user", "assistant", "system"):
            chat.say(role, text, when)
        elif text:
            chat.skipped[f"message of {role or 'nobody'}"[:40]] += 1
    return chat.done(f"{CHATGPT}/{first_name(entry.get('conversation_id'), entry.get('id'), entry.get('title'))}")


def instructions_in(entry: Entry) -> list[str]:
    """Return the custom instructions and memories of ChatGPT that a conversation came with."""
    found = []
    for message in map(_message, as_mapping(entry.get("mapping")).values()):
        content = as_mapping(message.get("content"))
        texts = [f"{title}: {content[key]}" for key, title in INSTRUCTIONS.items() if _is_text(content.get(key))]
        found += ["\n".join(texts)] if texts else []
    return found


def _shown_path(entry: Entry) -> list[Entry]:
    """Return the messages from the root to the node that was shown last; without one, to the newest leaf."""
    mapping = entry["mapping"]
    last = entry.get("current_node")
    if not isinstance(last, str) or last not in mapping:
        leaves = [key for key, node in mapping.items() if not as_mapping(node).get("children")]
        last = max(leaves, key=lambda key: as_time(_message(mapping[key]).get("create_time")) or 0, default=None)
    parents = {key: as_mapping(node).get("parent") for key, node in mapping.items()}
    return [message for key in shown_branch(parents, last) if (message := _message(mapping[key]))]


def _message(node: Any) -> Entry:
    return as_mapping(as_mapping(node).get("message"))


def _role(message: Entry) -> str:
    role = as_mapping(message.get("author")).get("role")
    return role if isinstance(role, str) else ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _text(content: Entry, chat: Chat) -> str:
    """Return the text of a content: of its parts, or its own; what has none is counted."""
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        texts = [content[key] for key in TEXTS if _is_text(content.get(key))]
        is_left_out = not texts and content.get("content_type") not in ("text", "code", "execution_output", None)
        if is_left_out or mappings_in(content.get("thoughts")):
            chat.skip(content)
        return "\n".join(texts)
    texts = [part for part in parts if _is_text(part)]
    for part in mappings_in(parts):
        said = [part[key] for key in TEXTS if _is_text(part.get(key))]
        texts += said
        if not said:
            chat.skip(part)
    return "\n".join(texts)
