"""Items as OpenAI's Responses API has them.

An answer of the model is several items there (reasoning, messages, calls), and one message in a chat: they stay
together, so that no reasoning item loses the item that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tinymem.errors import MessageError, kind_of, shown
from tinymem.messages.formats.conversation import Placed
from tinymem.messages.formats.items import ItemConversation, Source
from tinymem.messages.formats.parts import said, text_part, texts_of, with_notes, with_texts
from tinymem.messages.formats.response_items import (
    CALLS,
    HOSTED,
    OUTPUTS,
    SILENT,
    call_of,
    chat_parts,
    hosted_text,
    input_text,
    items_from,
    kind_of_item,
    message_content,
    output_of,
    part_text,
    replaced_part,
)
from tinymem.steps.step import Message

__all__ = ["ResponsesConversation"]

ELSEWHERE = ("item_reference", "compaction", "context_compaction", "compaction_trigger")


@dataclass
class _Turn:
    """An answer so far, which begins with the item at `start`."""

    start: int
    parts: list[Message] = field(default_factory=list)
    calls: list[Message] = field(default_factory=list)
    has_message: bool = False

    @property
    def message(self) -> Message:
        """The message of a chat."""
        if not self.calls:
            return {"role": "assistant", "content": said(self.parts)}
        return {"role": "assistant", "content": said(self.parts) or None, "tool_calls": self.calls}


class ResponsesConversation(ItemConversation):
    """Input and output items, dicts or objects of the SDK."""

    format: ClassVar[str] = "responses"

    def _read(self, start: int, end: int) -> Iterator[tuple[Message, Source]]:
        return _read(self._items[start:end], start)

    def _written(
        self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None
    ) -> list[dict[str, Any]]:
        custom: set[str] = set()
        found: list[dict[str, Any]] = []
        for one in placed:
            items = None if one.input is None else self._natives(one.input)
            if items is None:
                items = items_from(one.message, custom)
            elif one.shortened:
                items = _shortened(items, one.message)
            custom |= {item["call_id"] for item in items if item.get("type") == "custom_tool_call"}
            found += items
        return found


def _read(items: Sequence[dict[str, Any]], start: int) -> Iterator[tuple[Message, Source]]:
    """Yield the messages of a chat that items are, the first of which is at `start`."""
    turn: _Turn | None = None
    for index, item in enumerate(items, start):
        kind = kind_of_item(item)
        if kind in ELSEWHERE:
            raise MessageError(
                f"a {kind} stands for items that are not in the list: give all items, with the encrypted content of "
                "reasoning included, and without compaction",
                index,
            )
        is_answer = kind in CALLS or kind in HOSTED or kind in SILENT or kind == "message:assistant"
        begins = turn is not None and turn.has_message and not turn.calls and kind in ("reasoning", "message:assistant")
        if turn is not None and (begins or not is_answer):
            yield turn.message, Source(turn.start, index)
            turn = None
        if is_answer:
            turn = turn or _Turn(index)
            _take(turn, index, item, kind)
        else:
            yield _single(item, index, kind), Source(index, index + 1)
    if turn is not None:
        yield turn.message, Source(turn.start, start + len(items))


def _take(turn: _Turn, index: int, item: dict[str, Any], kind: str) -> None:
    """Add an item to the answer that it is part of."""
    if kind == "message:assistant":
        turn.has_message = True
        turn.parts += message_content(item, index)
    elif kind in CALLS:
        turn.calls.append(call_of(item, kind, index))
    elif kind in HOSTED:
        turn.parts.append(text_part(hosted_text(item, kind)))


def _single(item: dict[str, Any], index: int, kind: str) -> Message:
    """Return the message of an item that is no part of an answer."""
    if kind in OUTPUTS:
        return output_of(item, kind, index)
    if kind.startswith("message:"):
        return {"role": item["role"], "content": said(message_content(item, index))}
    raise MessageError(
        f"an item of the unknown type {shown(item.get('type'))}, with {kind_of(item.get('role'))} as role: leave it "
        "out, or name another format",
        index,
    )


def _shortened(items: Sequence[dict[str, Any]], message: Message) -> list[dict[str, Any]]:
    """Return copies of `items` with the texts of `message`; reasoning and calls as they are."""
    natives: list[tuple[int, dict[str, Any]]] = []
    for at, item in enumerate(items):
        key = _text_key(item)
        value = item.get(key) if key else None
        parts = value if isinstance(value, list) else [text_part(value)] if isinstance(value, str) else []
        natives += [(at, part) for part in (parts if key else [item])]
    texts = texts_of(message.get("content"))
    own = with_notes([part for _, part in natives], chat_parts, texts, input_text)
    new = with_texts(own, part_text, texts, replaced_part)
    found = []
    for at, item in enumerate(items):
        key = _text_key(item)
        own = [part for (place, _), part in zip(natives, new, strict=True) if place == at and part]
        if key and own:
            found.append({**item, key: own[0]["text"] if isinstance(item.get(key), str) else own})
        elif not key or kind_of_item(item) in OUTPUTS:
            found.append(item)
    return found


def _text_key(item: dict[str, Any]) -> str | None:
    """Return the key of what is said in an item; None where nothing in it is to be shortened."""
    kind = kind_of_item(item)
    if kind.startswith("message:"):
        return "content"
    return "output" if kind in OUTPUTS and isinstance(item.get("output"), (str, list)) else None
