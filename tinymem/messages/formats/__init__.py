"""Formats of conversations: what frameworks hold, read as OpenAI chat messages, and prompts written back as they came.

conversation = conversation_from(request, "anthropic")   # or "openai", "responses", or None: by its shape
conversation.messages                                    # chat messages, with all that was said
conversation.write(entries)                              # native items, untouched where nothing was shortened
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from tinymem.errors import InputError, MessageError, safe_repr
from tinymem.messages.formats.anthropic import AnthropicConversation
from tinymem.messages.formats.anthropic_blocks import THINKING, is_server_result
from tinymem.messages.formats.conversation import (
    Added,
    Conversation,
    ItemConversation,
    PromptEntry,
    listed,
    plain_value,
)
from tinymem.messages.formats.openai import ChatConversation
from tinymem.messages.formats.responses import ResponsesConversation, kind_of_item
from tinymem.messages.validity import repair

__all__ = [
    "FORMATS", "Conversation", "PromptEntry", "chat_messages", "conversation_from", "detected", "write_messages",
]  # fmt: skip

FORMATS: dict[str, type[ItemConversation]] = {
    kind.format: kind for kind in (ChatConversation, ResponsesConversation, AnthropicConversation)
}


def conversation_from(
    items: Any, format: str | None = None, before: ItemConversation | None = None
) -> ItemConversation:
    """Read a conversation, as a framework holds it.

    Args:
        items: `"openai"`: a list of chat messages; `"responses"`: a list of input and output items of the Responses
            API; `"anthropic"`: a list of messages, or a dict with `messages` and `system`. Everything as dicts, or as
            objects of the SDK.
        format: The name of the format; by default known by its shape. Messages of plain texts fit every format and are
            taken for OpenAI's chat, so name it where prompts go back to another provider.
        before: The same conversation as it came last: items that come again in their places are not copied again.

    Raises:
        MessageError: Something in it is not understood; the error names its index.
        InputError: There is no such format.

    >>> request = {"system": "Be brief.", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}]}
    >>> conversation_from(request).messages
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi.'}]
    """
    if format is not None and (not isinstance(format, str) or format not in FORMATS):
        raise InputError(f"format must be one of {', '.join(FORMATS)}, or None, not {safe_repr(format)}")
    if isinstance(items, Mapping):
        if "messages" not in items:
            raise MessageError(
                "a conversation must be a list of messages, or a request with its messages: put one in a list"
            )
        format = format or AnthropicConversation.format
    else:
        items = listed(items)
    kind = FORMATS[format or detected(items)]
    return kind(items, before.items if isinstance(before, kind) else ())


def chat_messages(messages: Any, format: str | None = None) -> Any:
    """Return messages of any format as OpenAI chat messages; those that are such already as they are.

    So are those that no other format takes by its shape, as a chat with parts of several providers.

    Raises:
        MessageError, InputError: As for `conversation_from`.

    >>> chat_messages([{"type": "function_call_output", "call_id": "call_1", "output": "ok"}])[0]["role"]
    'tool'
    """
    if format is None and not isinstance(messages, Mapping):
        if not isinstance(messages, Iterable) or isinstance(messages, (str, bytes)):
            return messages  # who takes them says what is wrong
        messages = list(messages)
        if (guessed := detected(messages)) != ChatConversation.format:
            with suppress(MessageError):
                return conversation_from(messages, guessed).messages
        return messages
    return conversation_from(messages, format).messages


def write_messages(
    messages: Iterable[Mapping[str, Any]],
    format: str,
    *,
    stable: int = 0,
    cache_control: Mapping[str, Any] | None = None,
) -> Any:
    """Write chat messages in another format.

    Args:
        messages: Messages of a chat, repaired if they are not valid.
        format: `"openai"`, `"responses"` or `"anthropic"`.
        stable: How many messages at the beginning stay the same from call to call.
        cache_control: The mark at the end of the stable messages, as `{"type": "ephemeral"}`; Anthropic only.

    Returns:
        A list of items; for Anthropic a dict with `system`, if there is one, and `messages`.

    Raises:
        MessageError: A message is no mapping with a role.
        InputError: There is no such format, or it has no cache_control.

    >>> write_messages([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}], "anthropic")
    {'system': 'Be brief.', 'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hi.'}]}]}
    """
    entries = [Added(message) for message in repair(list(messages))]
    return conversation_from([], format).write(entries, stable=stable, cache_control=cache_control)


_ANTHROPIC = {"tool_use", "tool_result", "document", "server_tool_use", "search_result", *THINKING}
_CALLS = {"tool_use", "tool_result"}  # lost in a chat, so a guess is not enough
_RESPONSES = {"input_text", "output_text", "input_file", "input_image"}


def detected(items: Iterable[Any]) -> str:
    """Return the name of the format that items speak for; OpenAI's chat where none speaks for another.

    Raises:
        MessageError: There are marks of several formats.

    >>> detected([{"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}])
    'responses'
    """
    marks: dict[str, int] = {}  # each with the place of the first item that has it
    for place, given in enumerate(items):
        item = given if isinstance(given, dict) else plain_value(given)
        for mark in _marks_of_item(item) if isinstance(item, dict) else ():
            marks.setdefault(mark, place)
    if "item" in marks:
        return "responses"
    if "chat" in marks:
        if "call" in marks:
            calls = "has Anthropic's tool_use or tool_result among OpenAI's messages: name the format"
            raise MessageError(calls, marks["call"])
        return "openai"
    return next((marked for marked in ("anthropic", "responses") if marked in marks), "openai")


def _marks_of_item(item: dict[str, Any]) -> Iterator[str]:
    role, type, content = item.get("role"), item.get("type"), item.get("content")
    if "role" not in item and isinstance(type, str):
        yield "item"
    if role in ("tool", "function") or item.get("tool_calls"):
        yield "chat"
    if type == "message" and kind_of_item(item) != "unknown":
        yield "responses"
    for part in map(plain_value, content) if isinstance(content, (list, tuple)) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _CALLS:
            yield "call"
        if kind in _ANTHROPIC or is_server_result(kind) or (kind == "image" and "source" in part):
            yield "anthropic"
        if kind in _RESPONSES:
            yield "responses"
