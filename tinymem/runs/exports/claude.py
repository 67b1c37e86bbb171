"""Claude.ai's export: conversations, the documents and instructions of projects, and what Claude remembered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tinymem.runs.exports.chats import BRANCH, Entry, ExportedChat, first_name, shown_branch
from tinymem.runs.values import joined_texts, mapping_in, mappings_in, text_in

__all__ = ["read_claude", "read_memories", "read_projects"]

CLAUDE = "claude.ai"
TEXTLESS = "file without its text"


def read_claude(entry: Entry) -> ExportedChat:
    """Read a conversation; of several branches, the one with the newest message."""
    chat = ExportedChat(f"{CLAUDE}/{first_name(entry.get('uuid'), entry.get('name'))}")
    for message in _shown(entry, chat):
        _read_message(message, chat)
    return chat


def _read_message(message: Entry, chat: ExportedChat) -> None:
    when, said = message.get("created_at"), list[str]()
    for block in mappings_in(message, "content") or [{"type": "text", "text": message.get("text")}]:
        kind = block.get("type")
        if kind == "text":
            said.append(str(block.get("text") or ""))
        elif kind == "tool_use":
            made = first_name(block.get("id"), f"{message.get('uuid')}-{len(chat.messages)}")
            chat.call(made, first_name(block.get("name")), block.get("input"), when, "\n".join(said))
            said = []
        elif kind == "tool_result":
            text = _text(block.get("content"), chat)
            chat.result(block.get("tool_use_id"), text, when, text_in(block, "name"))
        else:
            chat.skip(block)
    for file in mappings_in(message, "attachments") + mappings_in(message, "files"):
        text = text_in(file, "extracted_content")
        said += [f"{file.get('file_name') or 'attachment'}:\n{text}"] if text else []
        chat.leave_out(TEXTLESS, not text)
    role = "assistant" if message.get("sender") == "assistant" else "user"
    chat.say(role, "\n\n".join(filter(None, said)), when)


def _shown(entry: Entry, chat: ExportedChat) -> Sequence[Entry]:
    """Return the messages of the branch with the newest one; those of other branches are counted."""
    messages = mappings_in(entry["chat_messages"])
    by_id = {message["uuid"]: message for message in messages if isinstance(message.get("uuid"), str)}
    parents = {id: message.get("parent_message_uuid") for id, message in by_id.items()}
    if len(by_id) < len(messages) or by_id.keys().isdisjoint(filter(text_in, parents.values())):
        return messages  # of an older export, in a row
    path = shown_branch(parents, max(by_id, key=lambda id: text_in(by_id[id], "created_at")))
    chat.leave_out(BRANCH, len(messages) - len(path))
    return [by_id[id] for id in path]


def _text(content: Any, chat: ExportedChat) -> str:
    for part in mappings_in(content):
        if not isinstance(part.get("text"), str):
            chat.skip(part)
    return joined_texts(content)


def read_projects(value: Any) -> Iterator[ExportedChat]:
    """Read projects: a session each, with its instructions and documents as their person wrote them."""
    for project in mappings_in(value):
        name = f"project {first_name(project.get('name'))} {first_name(project.get('uuid'))}"
        chat, made = ExportedChat(f"{CLAUDE}/{name}"), project.get("created_at")
        for key, title in (("description", "Description"), ("prompt_template", "Instructions")):
            if text_in(project, key).strip():
                chat.say("user", f"{title}: {project[key]}", made)
        for document in mappings_in(project, "docs"):
            text, name = text_in(document, "content"), first_name(document.get("filename"), "document")
            if text.strip():
                chat.say("user", f"{name}:\n{text}", document.get("created_at") or made)
            chat.leave_out(TEXTLESS, not text.strip())
        if chat.messages or chat.skipped:
            yield chat


def read_memories(value: Any) -> ExportedChat:
    """Read what Claude remembered of a person, and of each project."""
    chat = ExportedChat(f"{CLAUDE}/memories")
    for entry in mappings_in(value):
        texts = [entry.get("conversations_memory"), *mapping_in(entry, "project_memories").values()]
        for text in filter(text_in, texts):
            chat.say("assistant", text, None)
    return chat
