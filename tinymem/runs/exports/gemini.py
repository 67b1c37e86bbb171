"""Sessions of Gemini CLI: one JSON file, or, of newer versions, a log of lines that change what earlier ones say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinymem.runs.exports.chats import BRANCH, Entry, ExportedChat, as_json, first_name
from tinymem.runs.harness import own_words
from tinymem.runs.values import joined_texts, mapping_in, mappings_in, text_in

__all__ = ["is_gemini_log", "read_gemini", "read_gemini_log", "response_texts"]

ROLES = {"user": "user", "gemini": "assistant"}


def read_gemini(entry: Entry) -> ExportedChat:
    """Read a session."""
    parent, session = text_in(entry, "parentSessionId"), first_name(entry["sessionId"])
    name = f"{first_name(parent)}/{session}" if parent else session
    chat = ExportedChat(name, is_spawned=bool(parent) or entry.get("kind") == "subagent")
    for message in mappings_in(entry["messages"]):
        _read_message(message, chat)
    return chat


def _read_message(message: Entry, chat: ExportedChat) -> None:
    kind, when = message.get("type"), message.get("timestamp")
    text, calls = joined_texts(message.get("content")), mappings_in(message, "toolCalls")
    role = ROLES.get(str(kind))
    chat.leave_out("thinking", len(mappings_in(message, "thoughts")))
    if role is None:
        chat.leave_out(str(kind or "message without a type"))
    elif role == "user" or not calls:
        said = own_words({"role": role, "content": text}, chat.skipped)
        chat.say(role, said["content"], when)
    else:
        for call in calls:
            given = call.get("args") or {}
            id = chat.call(first_name(call.get("id")), first_name(call.get("name")), given, when, text)
            text = ""
            if (seen := _result(call)) is not None:
                chat.result(id, seen, when)


def is_gemini_log(value: Any) -> bool:
    """Return True for the first line of a session's log."""
    return isinstance(mapping_in(value).get("sessionId"), str) and "projectHash" in value


def read_gemini_log(lines: Iterable[Any]) -> ExportedChat:
    """Read the lines of a session's log: later ones change what earlier ones say, as an agent that goes back does."""
    header: Entry = {"sessionId": ""}
    messages: dict[str, Entry] = {}
    left = 0
    for line in map(mapping_in, lines):
        if isinstance(line.get("id"), str):
            messages[line["id"]] = line  # with the results of its calls, it comes again
        elif isinstance(line.get("$rewindTo"), str):
            ids = [*messages]
            place = ids.index(line["$rewindTo"]) if line["$rewindTo"] in messages else 0
            left += len(ids) - place
            messages = {id: messages[id] for id in ids[:place]}
        else:
            header = line if isinstance(line.get("sessionId"), str) else header
            changed = mapping_in(line, "$set") if "$set" in line else line
            if isinstance(changed.get("messages"), list):  # as after a compression
                messages = {str(message.get("id")): message for message in mappings_in(changed, "messages")}
    found = read_gemini({**header, "messages": [*messages.values()]})
    found.skipped.update({BRANCH: left} if left else {})
    return found


def _result(call: Entry) -> str | None:
    """Return what came back from a call: what the functions responded, else what was displayed; None for nothing."""
    seen: list[str] = []
    for part in mappings_in(call, "result"):
        seen += response_texts(part)
        seen += [part["text"]] if isinstance(part.get("text"), str) else []
    if not any(seen) and isinstance(call.get("resultDisplay"), str):
        return text_in(call, "resultDisplay")
    return "\n".join(seen) if seen else None


def response_texts(part: Entry) -> list[str]:
    """Return the texts in which a part of Gemini's API says what a function responded."""
    response = mapping_in(part, "functionResponse", "response")
    keys = [key for key in ("output", "error") if key in response]
    return [as_json(response[key]) for key in keys] or ([as_json(response)] if response else [])
