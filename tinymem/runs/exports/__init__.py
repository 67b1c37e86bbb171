"""Exports of chats and records of agents, each conversation read as chat messages.

- ChatGPT: `conversations.json`, in which a conversation is a tree; what was shown last is read;
- Claude.ai: `conversations.json`, with projects and memories beside it;
- Gemini CLI: a session file below `~/.gemini/tmp`, JSON or, of newer versions, a log of JSON lines;
- OpenCode: what `opencode export` writes of a session;
- Slack: the messages of one channel, as in a day's file.

Formats as of November 2026. What has no text, and branches that were left, are counted and left out. A conversation
that cannot be read is counted too, and costs only itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tinymem.runs.exports.chatgpt import CHATGPT, instructions_in, read_chatgpt
from tinymem.runs.exports.chats import Entry, ExportedChat
from tinymem.runs.exports.claude import read_claude
from tinymem.runs.exports.gemini import is_gemini_log, read_gemini, read_gemini_log
from tinymem.runs.exports.opencode import read_opencode
from tinymem.runs.exports.slack import Names, is_slack, read_channel
from tinymem.runs.values import value_in

__all__ = ["ExportedChat", "conversations_of", "is_gemini_log", "read_gemini_log"]

DAMAGED = "conversation that is damaged"
FAULTS = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)
Reader = Callable[[Entry], ExportedChat]


def conversations_of(value: Any, name: str) -> Iterator[ExportedChat] | None:
    """Return the conversations of an export, or None for what is none of them; `name` is that of the file."""
    if isinstance(value, list) and any(map(is_slack, value)):
        return iter([read_channel(value, Names(), f"slack/{name}")])
    entries = value if isinstance(value, list) else [value]
    first = next(filter(None, map(_reader, entries)), None)
    return None if first is None else _read_each(entries, first)


def _read_each(entries: list[Any], read: Reader) -> Iterator[ExportedChat]:
    """Read conversations, less those that are damaged; then the custom instructions of them all."""
    damaged, instructions = 0, dict[str, None]()
    for entry in entries:
        try:
            reader = _reader(entry) or read
            conversation = reader(entry)
            instructions.update(dict.fromkeys(instructions_in(entry)))
        except FAULTS:  # whatever an entry holds: it is not trusted
            damaged += 1
            continue
        conversation.skipped.update({DAMAGED: damaged} if damaged else {})
        damaged = 0
        yield conversation
    if instructions or damaged:
        chat = ExportedChat(f"{CHATGPT}/custom instructions")
        chat.leave_out(DAMAGED, damaged)
        for text in instructions:
            chat.say("user", text, None)
        yield chat


def _reader(entry: Any) -> Reader | None:
    if isinstance(value_in(entry, "mapping"), Mapping):
        return read_chatgpt
    if isinstance(value_in(entry, "chat_messages"), list):
        return read_claude
    if isinstance(value_in(entry, "sessionId"), str) and isinstance(entry.get("messages"), list):
        return read_gemini
    if isinstance(value_in(entry, "info", "id"), str) and isinstance(entry.get("messages"), list):
        return read_opencode
    return None
