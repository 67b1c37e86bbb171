"""Claude.ai's export: conversations, the documents and instructions of projects, and what Claude remembered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tinymem.runs.exports.chats import (
    BRANCH,
    Chat,
    Conversation,
    Entry,
    as_mapping,
    first_name,
    mappings_in,
    shown_branch,
)

__all__ = ["CLAUDE", "read_claude", "read_memories", "read_projects"]

CLAUDE = "claude.ai"
REMEMBERED = ("content", "text", "memory", "conversations_memory")  # keys of what an assistant remembered


def read_claude(entry: Entry) -> Conversation:
    """Read a conversation; of several branches, the one with the newest message."""
    chat = Chat()
    for message in _shown(entry, chat):
        role = "assistant" if message.get("sender") == "assistant" else "user"
        when, said = message.get("created_at"), list[str]()
        for block in mappings_in(message.get("content")) or [{"type": "text", "text": message.get("text")}]:
            kind = block.get("type")
            if kind == "text":
                said.append(str(block.get("text") or ""))
            elif kind == "tool_use":
                made = first_name(block.get("id"), f"{message.get('uuid')}-{len(chat.messages)}")
                chat.call(made, first_name(block.get("name")), block.get("input"), when, "\n".join(said))
                said = []
            elif kind == "tool_result":
                name = str(block.get("name") or "")
                answered = block.get("tool_use_id") or chat.caller(name)
                chat.result(answered, _text(block.get("content"), chat), when, name)
            else:
                chat.skip(block)
        for file in mappings_in(message.get("attachments")) + mappings_in(message.get("files")):
            if isinstance(text := file.get("extracted_content"), str) and text:
                said.append(f"{file.get('file_name') or 'attachment'}:\n{text}")
            else:
                chat.skipped["file without its text"] += 1
        chat.say(role, "\n\n".join(filter(None, said)), when)
    return chat.done(f"{CLAUDE}/{first_name(entry.get('uuid'), entry.get('name'))}")


def _shown(entry: Entry, chat: Chat) -> Sequence[Entry]:
    """Return the messages that were shown last; those of other branches are counted."""
    messages = mappings_in(entry["chat_messages"])
    by_id = {message["uuid"]: message for message in messages if isinstance(message.get("uuid"), str)}
    parents = {id: message.get("parent_message_uuid") for id, message in by_id.items()}
    if len(by_id) < len(messages) or not any(isinstance(id, str) and id in by_id for id in parents.values()):
        return messages  # of an older export, in a row
    last = entry.get("current_leaf_message_uuid")
    if not isinstance(last, str) or last not in by_id:
        last = max(by_id, key=lambda id: str(by_id[id].get("created_at") or ""))
    path = shown_branch(parents, last)
    chat.skipped.update({BRANCH: len(messages) - len(path)} if len(path) < len(messages) else {})
    return [by_id[id] for id in path]


def _text(content: Any, chat: Chat) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts = []
    for part in mappings_in(content):
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            chat.skip(part)
    return "\n".join(texts)


def read_projects(value: Any) -> Iterator[Conversation]:
    """Read projects: a session each, with its instructions and documents as their person wrote them."""
    for project in mappings_in(value):
        chat = Chat()
        for key, title in (("description", "Description"), ("prompt_template", "Instructions")):
            if isinstance(project.get(key), str) and project[key].strip():
                chat.say("user", f"{title}: {project[key]}", project.get("created_at"))
        for document in mappings_in(project.get("docs")):
            if isinstance(text := document.get("content"), str) and text.strip():
                name = first_name(document.get("filename"), "document")
                chat.say("user", f"{name}:\n{text}", document.get("created_at") or project.get("created_at"))
            else:
                chat.skipped["file without its text"] += 1
        if chat.messages or chat.skipped:
            yield chat.done(f"{CLAUDE}/project {first_name(project.get('name'))} {first_name(project.get('uuid'))}")


def read_memories(value: Any, program: str) -> Conversation:
    """Read what an assistant remembered of a person: texts, or mappings with one or several."""
    chat = Chat()
    entries = value if isinstance(value, list) else as_mapping(value).get("memories", [value])
    for entry in entries if isinstance(entries, list) else ():
        fields = as_mapping(entry)
        texts = [entry, *(fields.get(key) for key in REMEMBERED), *as_mapping(fields.get("project_memories")).values()]
        when = fields.get("updated_at") or fields.get("created_at") or fields.get("create_time")
        for text in texts:
            if isinstance(text, str):
                chat.say("assistant", text, when)
    return chat.done(f"{program}/memories")
