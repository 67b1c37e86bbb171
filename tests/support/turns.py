"""Messages of a chat in few words: calls, results, and lines that two people take turns to say."""

from __future__ import annotations

from typing import Any

from tinymem.messages.formats import Conversation
from tinymem.messages.formats.conversation import Added

__all__ = ["answers", "asks", "call", "entries_of", "lines", "says"]

Message = dict[str, Any]


def call(id: Any = "1", name: str = "read", arguments: Any = "{}") -> Message:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*calls: Any, content: Any = None, **more: Any) -> Message:
    """An assistant's message with these calls, or calls of these ids."""
    made = [call(one) if isinstance(one, str) else one for one in calls]
    return {"role": "assistant", "content": content, "tool_calls": made, **more}


def answers(id: Any = "1", content: Any = "ok", **more: Any) -> Message:
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


def says(content: Any, role: str = "user", **more: Any) -> Message:
    return {"role": role, "content": content, **more}


def lines(*texts: str) -> list[Message]:
    return [says(text, "assistant" if at % 2 else "user") for at, text in enumerate(texts)]


def entries_of(conversation: Conversation) -> list[Added]:
    """The messages of a conversation as a context has them that leaves none out."""
    return [Added(message, at) for at, message in enumerate(conversation.messages)]
