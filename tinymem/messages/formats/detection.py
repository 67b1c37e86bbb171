"""Detection of a conversation's format by the shape of its items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tinymem.errors import MessageError
from tinymem.messages.formats.anthropic_blocks import THINKING, is_server_result
from tinymem.messages.formats.objects import plain_value
from tinymem.messages.formats.response_items import kind_of_item

__all__ = ["detected", "marks_of"]

_ANTHROPIC = {"tool_use", "tool_result", "document", "server_tool_use", "search_result", *THINKING}
_CALLS = {"tool_use", "tool_result"}  # lost in a chat, so a guess is not enough
_RESPONSES = {"input_text", "output_text", "input_file", "input_image"}


def detected(marks: Mapping[str, int]) -> str:
    """Return the name of the format that marks speak for; OpenAI's chat where none speaks for another.

    Raises:
        MessageError: There are marks of several formats.

    >>> detected(marks_of([{"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}]))
    'responses'
    """
    if "item" in marks:
        return "responses"
    if "chat" in marks:
        if "call" in marks:
            calls = "has Anthropic's tool_use or tool_result among OpenAI's messages: name the format"
            raise MessageError(calls, marks["call"])
        return "openai"
    return next((marked for marked in ("anthropic", "responses") if marked in marks), "openai")


def marks_of(items: Iterable[Any], start: int = 0) -> dict[str, int]:
    """Return the marks of formats in items, the first of which is at `start`, each with the place of its first."""
    found: dict[str, int] = {}
    for at, item in enumerate(items, start):
        for mark in _marks(plain_value(item)):
            found.setdefault(mark, at)
    return found


def _marks(item: Any) -> Iterator[str]:
    if not isinstance(item, Mapping):
        return
    if "role" not in item and isinstance(item.get("type"), str):
        yield "item"
    if item.get("role") in ("tool", "function") or item.get("tool_calls"):
        yield "chat"
    if item.get("type") == "message" and kind_of_item(item) != "unknown":
        yield "responses"
    for kind in _kinds(item):
        if kind in _CALLS:
            yield "call"
        if kind in _ANTHROPIC or is_server_result(kind):
            yield "anthropic"
        if kind in _RESPONSES:
            yield "responses"


def _kinds(item: Mapping[str, Any]) -> Iterable[Any]:
    content = item.get("content")
    if not isinstance(content, list):
        return
    for part in content:
        if isinstance(part, Mapping):
            yield part.get("type")
            if part.get("type") == "image" and "source" in part:
                yield "document"
