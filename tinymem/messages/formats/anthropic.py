"""Messages as Anthropic's Messages API has them: content in blocks, the results of tools in the user's message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tinymem.errors import MessageError, kind_of
from tinymem.messages.formats.anthropic_blocks import blocks_of, call_of, made_of, parts_of, result_of, shortened
from tinymem.messages.formats.anthropic_turns import Piece, Sent, breakpoints, cached, turns_of, written
from tinymem.messages.formats.conversation import Placed
from tinymem.messages.formats.items import ItemConversation, Known, Source
from tinymem.messages.formats.objects import plain_value
from tinymem.messages.formats.parts import said
from tinymem.steps.step import Message

__all__ = ["AnthropicConversation"]

SYSTEM = -1  # the place of the system prompt, which stands beside the messages


class AnthropicConversation(ItemConversation):
    """A list of messages, or a request: a dict with `messages`, `system`, and keys that stay as they are."""

    format: ClassVar[str] = "anthropic"

    def __init__(self, items: Any, known: Known | None = None) -> None:
        given = items if isinstance(items, Mapping) else {"messages": items}
        self._request = {key: plain_value(given[key]) for key in given if key not in ("messages", "system")}
        self._system = plain_value(given.get("system"))
        super().__init__(given.get("messages"), known)

    def known(self, items: Any) -> Known:
        """Compare this conversation with how it comes again."""
        return super().known(items.get("messages") or () if isinstance(items, Mapping) else items)

    def _natives(self, index: int) -> list[dict[str, Any]]:
        item, _, places = self._sources[index]
        own = blocks_of(self._system if item == SYSTEM else self._native(item)["content"], None)
        return [own[at] for at in places]

    def _plain(self, item: Any) -> Any:
        return _as_sent(plain_value(item))

    def _prompts(self) -> Iterator[tuple[Message, Source]]:
        if self._system is not None:
            blocks = blocks_of(self._system, None)
            content = said([part for block in blocks for part in parts_of(block, None)])
            yield {"role": "system", "content": content}, Source(SYSTEM, SYSTEM + 1, tuple(range(len(blocks))))

    def _read(self, start: int, end: int) -> Iterator[tuple[Message, Source]]:
        for at in range(start, end):
            for message, blocks in _read(self._items[at], at):
                yield message, Source(at, at + 1, blocks)

    def _written(
        self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        pieces = [self._piece(one) for one in placed]
        above = [piece for piece in pieces if piece.role == "system" and piece.item in (SYSTEM, None)]
        turns = turns_of([piece for piece in pieces if piece not in above])
        items: dict[int | None, dict[str, Any]] = {
            piece.item: self._native(piece.item) for piece in pieces if piece.item is not None and piece.item != SYSTEM
        }
        messages = [sent for turn in turns for sent in written(turn, items)]
        system = Sent(self._system_of(above), [block for piece in above for block in piece.blocks])
        if cache_control is not None:
            last = [block for piece in pieces if piece.at < stable for block in piece.blocks]
            used = breakpoints([self._request, system.content, [sent.content for sent in messages]])
            system, *messages = cached([system, *messages], last, cache_control, used)
        request = {**self._request, **({} if system.content is None else {"system": system.content})}
        return {**request, "messages": [sent.message for sent in messages]}

    def _piece(self, one: Placed) -> Piece:
        role = str(one.message["role"])
        role = {"tool": "user", "developer": "system"}.get(role, role)
        if one.input is None:
            return Piece(one.at, role, made_of(one.message))
        blocks = self._natives(one.input)
        if one.shortened:
            return Piece(one.at, role, shortened(blocks, one.message))
        source = self._sources[one.input]
        return Piece(one.at, role, blocks, source.start, source.blocks)

    def _system_of(self, pieces: Sequence[Piece]) -> Any:
        """Return the system prompt: as it came, if nothing was added to it."""
        if len(pieces) == 1 and pieces[0].item == SYSTEM:
            return self._system
        blocks = [block for piece in pieces for block in piece.blocks]
        return blocks[0]["text"] if len(blocks) == 1 and blocks[0].keys() == {"type", "text"} else blocks or None


def _as_sent(item: Any) -> Any:
    """Return an answer, as the API gave it, as a message that can be sent back."""
    if not isinstance(item, dict) or item.get("type") != "message":
        return item
    return {key: item[key] for key in ("role", "content") if key in item}


def _read(item: dict[str, Any], index: int) -> Iterator[tuple[Message, tuple[int, ...]]]:
    """Yield the messages of a chat that an item is, with their blocks: results of tools one by one, then the rest."""
    role, blocks = item.get("role"), blocks_of(item.get("content"), index)
    if role not in ("user", "assistant", "system"):
        raise MessageError(f"role must be user, assistant or system, not {kind_of(role)}: name another format", index)
    inside = "tool_use" if role == "assistant" else "tool_result"
    apart = [at for at, block in enumerate(blocks) if block.get("type") == inside]
    rest = tuple(at for at in range(len(blocks)) if at not in apart)
    content = said([part for at in rest for part in parts_of(blocks[at], index)])
    if role == "assistant":
        calls = [call_of(blocks[at], index) for at in apart]
        more = {"content": content or None, "tool_calls": calls} if calls else {"content": content}
        yield {"role": role, **more}, tuple(range(len(blocks)))
        return
    for at in apart:
        yield result_of(blocks[at], index), (at,)
    if rest or not apart:
        yield {"role": role, "content": content}, rest
