"""Conversations of ChatGPT's export: trees, of which the branch that was shown last is read."""

from __future__ import annotations

from typing import Any

from tinymem.runs.exports.chats import BRANCH, Entry, ExportedChat, first_name, shown_branch
from tinymem.runs.values import mapping_in, text_in, value_in

__all__ = ["CHATGPT", "instructions_in", "read_chatgpt"]

CHATGPT = "chatgpt"
INSTRUCTIONS = {"user_profile": "About the user", "user_instructions": "How to answer", "model_set_context": "Memory"}
TEXTS = ("title", "url", "text", "result", "summary", "transcription")  # of a content or of a part of one
CALLED = ("tool_call_id", "call_id", "parent_id")  # keys of a result's metadata that may name its call
UNCOUNTED = ("text", "code", "execution_output", None)  # types of contents that may be empty


def read_chatgpt(entry: Entry) -> ExportedChat:
    """Read a conversation; results go to their calls by id, by the tool's name, or else in order."""
    session = first_name(entry.get("conversation_id"), entry.get("id"), entry.get("title"))
    chat, path = ExportedChat(f"{CHATGPT}/{session}"), _shown_path(entry)
    messages = [*filter(None, map(_message, entry["mapping"].values()))]
    chat.leave_out(BRANCH, len(messages) - len(path))
    calls: dict[str, str] = {}  # the call of each message
    for message in path:
        content = mapping_in(message, "content")
        if INSTRUCTIONS.keys().isdisjoint(content):  # they are read once, by `instructions_in`
            _read_message(message, _text(content, chat), chat, calls)
    return chat


def _read_message(message: Entry, text: str, chat: ExportedChat, calls: dict[str, str]) -> None:
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
        chat.result(named, text, when, tool)
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
    """Return the messages from the root to the node that was shown last; without one, to the last of all."""
    mapping, last = entry["mapping"], entry.get("current_node")
    if last not in mapping:
        last = next(reversed(mapping), None)
    parents = {key: value_in(node, "parent") for key, node in mapping.items()}
    return [*filter(None, (_message(mapping[key]) for key in shown_branch(parents, last)))]


def _message(node: Any) -> Entry:
    return mapping_in(node, "message")


def _text(content: Entry, chat: ExportedChat) -> str:
    """Return the text of a content: of its parts, or its own; what has none is counted."""
    parts, texts = content.get("parts"), list[str]()
    for part in parts if isinstance(parts, list) and parts else [content]:
        found = [*filter(str.strip, [text_in(part), *(text_in(part, key) for key in TEXTS)])]
        if not found and value_in(part, "content_type") not in UNCOUNTED:
            chat.skip(part)
        texts += found
    return "\n".join(texts)
