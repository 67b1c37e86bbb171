"""Conversations of ChatGPT's export: trees, of which the branch that was shown last is read."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from tinymem.runs.exports.chats import BRANCH, Chat, Entry, ExportedChat, first_name, shown_branch
from tinymem.runs.values import mapping_in, mappings_in, text_in, time_of, value_in

__all__ = ["CHATGPT", "instructions_in", "read_chatgpt"]

CHATGPT = "chatgpt"
INSTRUCTIONS = {"user_profile": "About the user", "user_instructions": "How to answer", "model_set_context": "Memory"}
TEXTS = ("title", "url", "text", "result", "summary", "transcription")  # of a content or of a part of one
CALLED = ("tool_call_id", "call_id", "parent_id")  # keys of a result's metadata that may name its call
UNCOUNTED = ("text", "code", "execution_output", None)  # types of contents that may be empty
_BEGIN = datetime.min.replace(tzinfo=timezone.utc)


def read_chatgpt(entry: Entry) -> ExportedChat:
    """Read a conversation; results go to their calls by id, by the tool's name, or else in order."""
    chat, path = Chat(), _shown_path(entry)
    messages = [*filter(None, map(_message, entry["mapping"].values()))]
    chat.leave_out(BRANCH, len(messages) - len(path))
    calls: dict[str, str] = {}  # the call of each message
    for message in path:
        content = mapping_in(message, "content")
        if INSTRUCTIONS.keys().isdisjoint(content):  # they are read once, by `instructions_in`
            _read_message(message, _text(content, chat), chat, calls)
    return chat.done(f"{CHATGPT}/{first_name(entry.get('conversation_id'), entry.get('id'), entry.get('title'))}")


def _read_message(message: Entry, text: str, chat: Chat, calls: dict[str, str]) -> None:
    role, when = text_in(message, "author", "role"), message.get("create_time")
    called = first_name(message.get("recipient"), "all")
    if value_in(message, "metadata", "is_visually_hidden_from_conversation") is True:
        chat.leave_out("hidden message")
    elif role == "assistant" and called != "all":
        id = first_name(message.get("id"))
        calls[id] = chat.call(id, called, {"input": text}, when)
    elif role == "tool":
        given = [text_in(message, "metadata", key) for key in CALLED]
        tool = text_in(message, "author", "name")
        named = next((calls[id] for id in given if id in calls), None)
        chat.result(named or chat.caller(tool), text, when, tool)
    elif role in ("user", "assistant", "system"):
        chat.say(role, text, when)
    elif text:
        chat.leave_out(f"message of {role or 'nobody'}")


def instructions_in(entry: Entry) -> list[str]:
    """Return the custom instructions and memories of ChatGPT that a conversation came with."""
    found = []
    for message in map(_message, mapping_in(entry, "mapping").values()):
        texts = {title: text_in(message, "content", key) for key, title in INSTRUCTIONS.items()}
        found.append("\n".join(f"{title}: {text}" for title, text in texts.items() if text.strip()))
    return [*filter(None, found)]


def _shown_path(entry: Entry) -> list[Entry]:
    """Return the messages from the root to the node that was shown last; without one, to the newest leaf."""
    mapping, last = entry["mapping"], entry.get("current_node")
    if not isinstance(last, str) or last not in mapping:
        leaves = [key for key, node in mapping.items() if not mapping_in(node).get("children")]
        last = max(leaves, key=lambda key: time_of(_message(mapping[key]).get("create_time")) or _BEGIN, default=None)
    parents = {key: value_in(node, "parent") for key, node in mapping.items()}
    return [*filter(None, (_message(mapping[key]) for key in shown_branch(parents, last)))]


def _message(node: Any) -> Entry:
    return mapping_in(node, "message")


def _text(content: Entry, chat: Chat) -> str:
    """Return the text of a content: of its parts, or its own; what has none is counted."""
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        texts = _texts_in(content)
        if (not texts and content.get("content_type") not in UNCOUNTED) or mappings_in(content, "thoughts"):
            chat.skip(content)
        return "\n".join(texts)
    texts = [*filter(str.strip, map(text_in, parts))]
    for part in mappings_in(content, "parts"):
        found = _texts_in(part)
        texts += found
        if not found:
            chat.skip(part)
    return "\n".join(texts)


def _texts_in(content: Entry) -> list[str]:
    texts = [text_in(content, key) for key in TEXTS]
    return [text for text in texts if text.strip()]
