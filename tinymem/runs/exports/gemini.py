"""Sessions of Gemini CLI: one JSON file, or, of newer versions, a log of lines that change what earlier ones say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinymem.runs.exports.chats import BRANCH, Chat, Conversation, Entry, as_json, as_mapping, first_name, mappings_in
from tinymem.runs.harness import own_words

__all__ = ["is_gemini_log", "read_gemini", "read_gemini_log"]


def read_gemini(entry: Entry) -> Conversation:
    """Read a session."""
    chat = Chat()
    for message in mappings_in(entry["messages"]):
        kind, when = message.get("type"), message.get("timestamp")
        text, calls = _text(message.get("content")), mappings_in(message.get("toolCalls"))
        chat.skipped.update({"thinking": count} if (count := len(mappings_in(message.get("thoughts")))) else {})
        if kind == "gemini" and calls:
            for call in calls:
                given = call.get("args") or {}
                id = chat.call(first_name(call.get("id")), first_name(call.get("name")), given, when, text)
                text = ""
                if (seen := _result(call)) is not None:
                    chat.result(id, seen, when)
        elif kind in ("user", "gemini"):
            said = {"role": "user" if kind == "user" else "assistant", "content": text}
            chat.say(said["role"], own_words(said, chat.skipped)["content"], when)
        else:
            chat.skipped[str(kind or "message without a type")[:40]] += 1
    parent, session = entry.get("parentSessionId"), first_name(entry["sessionId"])
    return chat.done(f"{first_name(parent)}/{session}" if isinstance(parent, str) and parent else session)


def is_gemini_log(value: Any) -> bool:
    """Return True for the first line of a session's log."""
    return isinstance(as_mapping(value).get("sessionId"), str) and "projectHash" in value


def read_gemini_log(lines: Iterable[Any]) -> Conversation:
    """Read the lines of a session's log: later ones change what earlier ones say, as an agent that goes back does."""
    header: Entry = {"sessionId": ""}
    left, messages = 0, dict[str, Entry]()
    for line in map(as_mapping, lines):
        if isinstance(line.get("id"), str):
            messages[line["id"]] = line  # with the results of its calls, it comes again
        elif isinstance(begin := line.get("$rewindTo"), str):
            ids = [*messages]
            gone = ids[ids.index(begin) :] if begin in messages else ids
            left += len(gone)
            for id in gone:
                del messages[id]
        else:
            header = line if isinstance(line.get("sessionId"), str) else header
            changed = as_mapping(line.get("$set", line)).get("messages")
            if isinstance(changed, list):  # as after a compression
                messages = {str(message.get("id")): message for message in mappings_in(changed)}
    found = read_gemini({**header, "messages": [*messages.values()]})
    found.skipped.update({BRANCH: left} if left else {})
    return found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in mappings_in(content) if isinstance(part.get("text"), str))


def _result(call: Entry) -> str | None:
    """Return what came back from a call: what the functions responded, else what was displayed; None for nothing."""
    seen: list[str] = []
    for part in mappings_in(call.get("result")):
        response = as_mapping(as_mapping(part.get("functionResponse")).get("response"))
        keys = [key for key in ("output", "error") if key in response]
        seen += [as_json(response[key]) for key in keys] or ([as_json(response)] if response else [])
        seen += [part["text"]] if isinstance(part.get("text"), str) else []
    shown = call.get("resultDisplay")
    if not any(seen) and isinstance(shown, str):
        seen = [shown]
    return "\n".join(seen) if seen else None
