"""Detection of a conversation's format by the shape of its items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tinymem.errors import MessageError
from tinymem.messages.formats.anthropic_blocks import THINKING, is_server_result
from tinymem.messages.formats.objects import items_of
from tinymem.messages.formats.response_items import kind_of_item

__all__ = ["detected"]

_ANTHROPIC = {"tool_use", "tool_result", "document", "server_tool_use", "search_result", *THINKING}
_CALLS = {"tool_use", "tool_result"}  # lost in a chat, so a guess is not enough
_RESPONSES = {"input_text", "output_text", "input_file", "input_image"}


def detected(items: Any) -> str:
    """Return the name of the format of `items`; OpenAI's chat where nothing speaks for another.

    Raises:
        MessageError: The items have marks of several formats.

    >>> detected([{"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}])
    'responses'
    """
    if isinstance(items, Mapping):
        return "anthropic"
    listed = items_of(items)
    if any("role" not in item and isinstance(item.get("type"), str) for item in listed):
        return "responses"
    kinds = [(at, kind) for at, item in enumerate(listed) for kind in _kinds(item)]
    is_chat = any(item.get("role") in ("tool", "function") or item.get("tool_calls") for item in listed)
    calls = next((at for at, kind in kinds if kind in _CALLS), None)
    if is_chat and calls is not None:
        raise MessageError("has Anthropic's tool_use or tool_result among OpenAI's messages: name the format", calls)
    if not is_chat and any(kind in _ANTHROPIC or is_server_result(kind) for _, kind in kinds):
        return "anthropic"
    is_response = any(kind in _RESPONSES for _, kind in kinds)
    is_answer = any(item.get("type") == "message" and kind_of_item(item) != "unknown" for item in listed)
    return "responses" if not is_chat and (is_response or is_answer) else "openai"


def _kinds(item: Mapping[str, Any]) -> Iterable[Any]:
    content = item.get("content")
    if not isinstance(content, list):
        return
    for part in content:
        if isinstance(part, Mapping):
            yield part.get("type")
            if part.get("type") == "image" and "source" in part:
                yield "document"
