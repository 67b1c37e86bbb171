"""Chat messages as OpenAI's chat completions and compatible servers have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tinymem.errors import MessageError, describe_type
from tinymem.messages.formats.conversation import ItemConversation, Placed
from tinymem.messages.formats.parts import joined, rewritten, said, text_part, texts_of
from tinymem.steps.content import to_json
from tinymem.steps.step import Message
from tinymem.steps.types import ROLES

__all__ = ["ChatConversation"]


class ChatConversation(ItemConversation):
    """Messages as they are, dicts or objects of the SDK."""

    format: ClassVar[str] = "openai"

    def _of_sdk(self, found: Any) -> Any:
        """Return an item without keys that say nothing, as `refusal`, or repeat what others say."""
        item = {key: value for key, value in found.items() if key == "content" or value not in (None, [])}
        item.pop("parsed", None)
        for call in item.get("tool_calls", ()):
            call.pop("index", None)  # of a stream
            call.get("function", {}).pop("parsed_arguments", None)
        return item

    def _read(self) -> list[tuple[Message, list[dict[str, Any]]]]:
        return [(_message(item, place), [item]) for place, item in enumerate(self.items)]

    def _written(
        self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None
    ) -> list[dict[str, Any]]:
        return [self._item(entry) for entry in placed]

    def _item(self, entry: Placed) -> dict[str, Any]:
        if entry.input is None:
            return entry.message
        (item,) = self.read_of[entry.input]
        if not entry.shortened:
            return item
        now = {"content": _shortened(item.get("content"), entry.message), "tool_calls": entry.message.get("tool_calls")}
        return {**item, **{key: value for key, value in now.items() if key in item}}


def _message(item: dict[str, Any], index: int) -> Message:
    """Return the message without marks of caches, which wander from message to message."""
    if item.get("role") not in ROLES:
        given = describe_type(item.get("role"))
        raise MessageError(f"role must be one of {', '.join(ROLES)}, not {given}: or name another format", index)
    content = item.get("content")
    if isinstance(content, list):
        parts = [*map(_part, content)]
        return item if parts == content else {**item, "content": said(parts)}
    if content is not None and not isinstance(content, str):
        raise MessageError(f"content must be a text or a list of parts, not {describe_type(content)}", index)
    return item


def _part(part: Any) -> Message:
    """Return a part of content; a call or a result of Anthropic's as the text of it."""
    if not isinstance(part, Mapping):
        return text_part(part) if isinstance(part, str) else part
    if part.get("type") == "tool_use":
        return text_part(f"{part.get('name')}({to_json(part.get('input'))})")
    if part.get("type") == "tool_result":
        return text_part(joined(part.get("content")))
    return {key: value for key, value in part.items() if key != "cache_control"}


def _shortened(content: Any, message: Message) -> Any:
    """Return the content of `message`, with the files that `content` has."""
    now = message.get("content")
    if not isinstance(content, list):
        return now
    return rewritten(content, lambda part: [_part(part)], texts_of(now), text_part)
