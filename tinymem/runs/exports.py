"""Exports of chats and records of agents, each conversation read as chat messages.

- ChatGPT: `conversations.json`, in which a conversation is a tree; what was shown last is read;
- Claude.ai: `conversations.json`;
- Gemini CLI: a session file below `~/.gemini/tmp`, JSON or, of newer versions, a log of JSON lines;
- ATIF, the Agent Trajectory Interchange Format: see `tinymem.runs.atif`;
- Slack: the messages of one channel, as in a day's file.

Formats as of November 2026. What has no text, and branches that were left, are counted and left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tinymem.runs import atif
from tinymem.runs.harness import own_words

__all__ = ["Conversation", "conversations_of", "is_gemini_log", "is_slack", "read_gemini_log", "slack_messages"]

Message: TypeAlias = dict[str, Any]
Entry: TypeAlias = Mapping[str, Any]

SAID = ("bot_message", "thread_broadcast", "me_message", "file_share")  # subtypes of Slack's messages that people said
CLAUDE, CHATGPT, SLACK = "claude.ai", "chatgpt", "slack"


class Conversation(NamedTuple):
    """A conversation: the name of its session, its messages, and what was left out, by kind."""

    session: str
    messages: Sequence[Message]
    skipped: Counter[str]


def conversations_of(value: Any, name: str) -> Iterator[Conversation] | None:
    """Return the conversations of an export, or None for what is none of them; `name` is that of the file."""
    if isinstance(value, Mapping):
        if (read := _reader(value)) is not None:
            return iter([read(value)])
        if atif.is_trajectory(value):
            return (Conversation(*found, Counter()) for found in atif.read_trajectory(value))
        return None
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return None
    if is_slack(value[0]):
        skipped: Counter[str] = Counter()
        return iter([Conversation(f"{SLACK}/{name}", slack_messages(value, {}, skipped), skipped)])
    if _reader(value[0]) is None:
        return None
    return (read(entry) for entry in value if isinstance(entry, Mapping) and (read := _reader(entry)) is not None)


def _reader(entry: Entry) -> Callable[[Entry], Conversation] | None:
    if isinstance(entry.get("mapping"), Mapping):
        return _of_chatgpt
    if isinstance(entry.get("chat_messages"), list):
        return _of_claude
    if isinstance(entry.get("sessionId"), str) and isinstance(entry.get("messages"), list):
        return _of_gemini
    return None


class _Chat:
    """The messages of a conversation as they are read; a call is written down once its result is there."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.skipped: Counter[str] = Counter()

    def say(self, role: str, text: str, when: Any, **more: Any) -> None:
        """Add what somebody said; nothing where that has no text."""
        if text.strip():
            self.messages.append({"role": role, "content": text, **_time(when), **more})

    def call(self, said: str, calls: Sequence[tuple[str, str, Any, str]], when: Any) -> None:
        """Add what the assistant said and called (id, name, arguments), and what came back."""
        made = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": _as_json(given)}}
            for id, name, given, _ in calls
        ]
        self.messages.append({"role": "assistant", "content": said or None, "tool_calls": made, **_time(when)})
        for id, _, _, seen in calls:
            self.messages.append({"role": "tool", "tool_call_id": id, "content": seen, **_time(when)})

    def done(self, session: str) -> Conversation:
        return Conversation(session, self.messages, self.skipped)


def _time(when: Any) -> Message:
    return {"timestamp": when} if when else {}


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _mappings(value: Any) -> list[Entry]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _mapping(value: Any) -> Entry:
    return value if isinstance(value, Mapping) else {}


def _name(*values: Any) -> str:
    return next((value for value in values if isinstance(value, str) and value), "unnamed")


# -- ChatGPT ----------------------------------------------------------------------------------------------------------


def _of_chatgpt(entry: Entry) -> Conversation:
    chat, path = _Chat(), _shown_path(entry)
    nodes = [_mapping(_mapping(node).get("message")) for node in entry["mapping"].values()]
    if left := sum(bool(node) for node in nodes) - len(path):
        chat.skipped["message of another branch"] += left
    at = 0
    while at < len(path):
        message, after = path[at], path[at + 1] if at + 1 < len(path) else {}
        role, tool = _role(message), message.get("recipient") or "all"
        text, when = _text_of_chatgpt(message, chat.skipped), message.get("create_time")
        at += 1
        if _mapping(message.get("metadata")).get("is_visually_hidden_from_conversation") is True:
            chat.skipped["hidden message"] += 1
        elif role == "assistant" and tool != "all" and _role(after) == "tool":
            seen = _text_of_chatgpt(after, chat.skipped)
            chat.call("", [(_name(message.get("id")), str(tool), {"input": text}, seen)], when)
            at += 1
        elif role in ("user", "assistant", "system"):
            chat.say(role, text, when)
        elif text:
            chat.skipped[f"message of {role or 'nobody'}"] += 1
    return chat.done(f"{CHATGPT}/{_name(entry.get('conversation_id'), entry.get('id'), entry.get('title'))}")


def _shown_path(entry: Entry) -> list[Entry]:
    """Return the messages from the root to the node that was shown last; without one, to the newest leaf."""
    mapping = entry["mapping"]
    at = entry.get("current_node")
    if at not in mapping:
        leaves = [key for key, node in mapping.items() if not _mapping(node).get("children")]
        at = max(leaves, key=lambda key: _moment(mapping[key]), default=None)
    path: list[Entry] = []
    seen: set[Any] = set()
    while isinstance(at, str) and at in mapping and at not in seen:
        seen.add(at)
        if message := _mapping(_mapping(mapping[at]).get("message")):
            path.append(message)
        at = _mapping(mapping[at]).get("parent")
    return path[::-1]


def _moment(node: Any) -> float:
    when = _mapping(_mapping(node).get("message")).get("create_time")
    return float(when) if isinstance(when, (int, float)) else 0.0


def _role(message: Entry) -> str:
    return str(_mapping(message.get("author")).get("role") or "")


def _text_of_chatgpt(message: Entry, skipped: Counter[str]) -> str:
    content = _mapping(message.get("content"))
    kind = content.get("content_type")
    if kind in ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"):
        skipped[str(kind)] += 1
        return ""
    texts = []
    for part in content.get("parts") or [content.get("text"), content.get("result")]:
        if isinstance(part, Mapping):
            part = part.get("text") or part.get("transcription") or _skip(part, skipped)
        if isinstance(part, str) and part:
            texts.append(part)
    return "\n".join(texts)


def _skip(part: Entry, skipped: Counter[str]) -> str:
    """Count a part without a text, and return the text that it has: none."""
    skipped[str(part.get("content_type") or part.get("type") or "part")[:40]] += 1
    return ""


# -- Claude.ai --------------------------------------------------------------------------------------------------------


def _of_claude(entry: Entry) -> Conversation:
    chat = _Chat()
    for message in _mappings(entry["chat_messages"]):
        role = "assistant" if message.get("sender") == "assistant" else "user"
        when, said = message.get("created_at"), list[str]()
        blocks = _mappings(message.get("content")) or [{"type": "text", "text": message.get("text")}]
        while blocks:
            block, kind = blocks[0], blocks.pop(0).get("type")
            if kind == "text":
                said.append(str(block.get("text") or ""))
            elif kind == "tool_use" and blocks and blocks[0].get("type") == "tool_result":
                id = _name(block.get("id"), f"{message.get('uuid')}-{len(blocks)}")
                seen = _text_of_claude(blocks.pop(0).get("content"), chat.skipped)
                chat.call("\n".join(said), [(id, _name(block.get("name")), block.get("input"), seen)], when)
                said = []
            else:
                _skip(block, chat.skipped)
        for file in _mappings(message.get("attachments")) + _mappings(message.get("files")):
            if isinstance(text := file.get("extracted_content"), str) and text:
                said.append(f"{file.get('file_name') or 'attachment'}:\n{text}")
            else:
                chat.skipped["file without its text"] += 1
        chat.say(role, "\n\n".join(filter(None, said)), when)
    return chat.done(f"{CLAUDE}/{_name(entry.get('uuid'), entry.get('name'))}")


def _text_of_claude(content: Any, skipped: Counter[str]) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return "\n".join(str(part.get("text") or _skip(part, skipped)) for part in _mappings(content))


# -- Gemini CLI -------------------------------------------------------------------------------------------------------


def _of_gemini(entry: Entry) -> Conversation:
    chat = _Chat()
    for message in _mappings(entry["messages"]):
        kind, when = message.get("type"), message.get("timestamp")
        text = _text_of_gemini(message.get("content"))
        calls = [
            (_name(call.get("id")), _name(call.get("name")), call.get("args") or {}, _result_of_gemini(call))
            for call in _mappings(message.get("toolCalls"))
        ]
        if kind == "gemini" and calls:
            chat.call(text, calls, when)
        elif kind in ("user", "gemini"):
            said = {"role": "user" if kind == "user" else "assistant", "content": text}
            chat.say(said["role"], own_words(said, chat.skipped)["content"], when)
        else:
            chat.skipped[str(kind or "message without a type")[:40]] += 1
    return chat.done(str(entry["sessionId"]))


def is_gemini_log(value: Any) -> bool:
    """Return True for the first line of a session's log."""
    return isinstance(value, Mapping) and isinstance(value.get("sessionId"), str) and "projectHash" in value


def read_gemini_log(lines: Iterable[Any]) -> Conversation:
    """Read the lines of a session's log: later ones change what earlier ones say, as an agent that goes back does."""
    session, left = "", 0
    messages: dict[str, Entry] = {}
    for line in map(_mapping, lines):
        if isinstance(line.get("id"), str):
            messages[line["id"]] = line  # with the results of its calls, it comes again
        elif isinstance(begin := line.get("$rewindTo"), str):
            ids = [*messages]
            gone = ids[ids.index(begin) :] if begin in messages else ids
            left += len(gone)
            for id in gone:
                del messages[id]
        else:
            session = str(line.get("sessionId") or session)
            changed = _mapping(line.get("$set", line)).get("messages")
            if isinstance(changed, list):  # as after a compression
                messages = {str(one.get("id")): one for one in _mappings(changed)}
    found = _of_gemini({"sessionId": session, "messages": [*messages.values()]})
    found.skipped.update({"message that was gone back on": left} if left else {})
    return found


def _text_of_gemini(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in _mappings(content) if part.get("text"))


def _result_of_gemini(call: Entry) -> str:
    """Return what came back from a call: what the functions responded, else what was displayed."""
    seen = []
    for part in _mappings(call.get("result")):
        response = _mapping(_mapping(part.get("functionResponse")).get("response"))
        found = response.get("output") or response.get("error") or (response or part.get("text"))
        seen.append(_as_json(found) if found else "")
    shown = call.get("resultDisplay")
    return "\n".join(filter(None, seen)) or (shown if isinstance(shown, str) else "")


# -- Slack ------------------------------------------------------------------------------------------------------------


def is_slack(value: Any) -> bool:
    """Return True for what looks like a message of a Slack export."""
    return isinstance(value, Mapping) and value.get("type") == "message" and isinstance(value.get("ts"), str)


def slack_messages(entries: Iterable[Any], names: Mapping[str, str], skipped: Counter[str]) -> list[Message]:
    """Return the messages of a channel in order; `names` are those of people, by their ids. Joins and the like go."""
    chat = _Chat()
    for entry in entries:
        if not is_slack(entry):
            skipped["entry without a message"] += 1
        elif (kind := entry.get("subtype")) is not None and kind not in SAID:
            skipped[str(kind)[:40]] += 1
        elif not str(entry.get("text") or "").strip():
            skipped["message without a text"] += 1
        else:
            by = _name(_mapping(entry.get("user_profile")).get("real_name"), names.get(str(entry.get("user"))),
                       entry.get("username"), entry.get("user"))  # fmt: skip
            chat.say("user", _with_names(str(entry["text"]), names), _seconds(entry["ts"]), name=by)
    return sorted(chat.messages, key=lambda message: message.get("timestamp") or 0)


def _with_names(text: str, names: Mapping[str, str]) -> str:
    """Return a text in which people are called by their names, not `<@U024BE7LH>`."""
    for id in names:
        text = text.replace(f"<@{id}>", f"@{names[id]}") if f"<@{id}>" in text else text
    return text


def _seconds(ts: str) -> float | None:
    try:
        return float(ts)
    except ValueError:
        return None
