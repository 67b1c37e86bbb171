"""Messages as Anthropic's Messages API has them: content in blocks, the results of tools in the user's message.

Entries are written in turns: adjacent ones of one role as one message, results of tools first. What came as a whole
message goes back as it came, also beside others of its role, which the API combines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tinymem.errors import MessageError, describe_type
from tinymem.messages.formats.anthropic_blocks import (
    THINKING,
    Block,
    blocks_of,
    call_of,
    made_of,
    parts_of,
    result_of,
    shortened,
)
from tinymem.messages.formats.conversation import ItemConversation, Known, Placed, Source
from tinymem.messages.formats.parts import plain_value, said, text_part
from tinymem.steps.step import Message

__all__ = ["AnthropicConversation"]

SYSTEM = -1  # the place of the system prompt, which stands beside the messages
MOST_BREAKPOINTS = 4  # marks of caches that a request may have
PAUSE = "…"  # said by the user where two answers would touch, or an answer would come first


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

    def _piece(self, one: Placed) -> EntryBlocks:
        role = str(one.message["role"])
        role = {"tool": "user", "developer": "system"}.get(role, role)
        if one.input is None:
            return EntryBlocks(one.at, role, made_of(one.message))
        blocks = self._natives(one.input)
        if one.shortened:
            return EntryBlocks(one.at, role, shortened(blocks, one.message))
        source = self._sources[one.input]
        return EntryBlocks(one.at, role, blocks, source.start, source.blocks)

    def _system_of(self, pieces: Sequence[EntryBlocks]) -> Any:
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
        raise MessageError(
            f"role must be user, assistant or system, not {describe_type(role)}: name another format", index
        )
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


@dataclass(frozen=True)
class EntryBlocks:
    """The blocks of one entry: those at `places` of an `item`, unless they were made for it."""

    at: int
    role: str
    blocks: Sequence[Block]
    item: int | None = None
    places: Sequence[int] = ()


@dataclass
class Turn:
    """Adjacent pieces of one role."""

    role: str
    pieces: list[EntryBlocks] = field(default_factory=list)


def turns_of(pieces: Sequence[EntryBlocks]) -> list[Turn]:
    """Group pieces by their role; thinking always begins a turn, as the API wants it in the newest one."""
    turns: list[Turn] = []
    for piece in pieces:
        role = turns[-1].role if turns else None
        thinks = piece.role == "assistant" and any(block.get("type") in THINKING for block in piece.blocks)
        if role == piece.role and (not thinks or _goes_on(turns[-1].pieces[-1], piece)):
            turns[-1].pieces.append(piece)
            continue
        if piece.role == "assistant" and role in (None, "assistant") and not (role is None and piece.item == 0):
            turns.append(Turn("user", [EntryBlocks(piece.at, "user", [text_part(PAUSE)])]))
        turns.append(Turn(piece.role, [piece]))
    return turns


def _goes_on(before: EntryBlocks, piece: EntryBlocks) -> bool:
    """Return True if two pieces stood one behind the other as they came."""
    return before.item is not None and piece.item is not None and piece.item - before.item in (0, 1)


@dataclass(frozen=True)
class Sent:
    """Content as it is sent, its blocks, and the keys of its message."""

    content: Any
    blocks: Sequence[Block]
    keys: Mapping[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> dict[str, Any]:
        """The whole message: the same object as came, if nothing in it was changed."""
        same = self.keys if isinstance(self.keys, dict) and self.keys.get("content") is self.content else None
        return {**self.keys, "content": self.content} if same is None else same


def written(turn: Turn, items: Mapping[int | None, dict[str, Any]]) -> Iterable[Sent]:
    """Return the messages of a turn: those that came, if it is made of them; else one."""
    own = list(dict.fromkeys(piece.item for piece in turn.pieces))
    if _is_whole(turn, own, items):
        return [Sent(items[item]["content"], _own_blocks(turn, item), items[item]) for item in own if item is not None]
    blocks = [block for piece in turn.pieces for block in piece.blocks if not _is_blank(block)]
    if turn.role == "user":
        blocks.sort(key=lambda block: block.get("type") != "tool_result")
    keys = items[own[0]] if len(own) == 1 and own[0] is not None else {}
    return [Sent(blocks, blocks, {**keys, "role": turn.role})] if blocks else []


def _own_blocks(turn: Turn, item: int) -> list[Block]:
    """Return the blocks of an item in the order in which they came."""
    pairs = [
        pair for piece in turn.pieces if piece.item == item for pair in zip(piece.places, piece.blocks, strict=True)
    ]
    return [block for _, block in sorted(pairs, key=lambda pair: pair[0])]


def _is_whole(turn: Turn, own: Sequence[int | None], items: Mapping[int | None, dict[str, Any]]) -> bool:
    """Return True if a turn is exactly some items one behind the other."""
    if None in own or any(b != a + 1 for a, b in itertools.pairwise(own) if a is not None):
        return False
    held = {item: [at for piece in turn.pieces if piece.item == item for at in piece.places] for item in own}

    def length(item: int | None) -> int:
        content = None if item is None else items[item]["content"]
        return 1 if isinstance(content, str) else len(content or ())

    return all(sorted(places) == list(range(length(item))) for item, places in held.items())


def _is_blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text")).strip()


def cached(sent: Sequence[Sent], stable: Sequence[Block], mark: Mapping[str, Any], used: int) -> list[Sent]:
    """Put the `mark` of a cache on the last of the `stable` blocks, unless `used` is as many as there may be."""
    cacheable = (block for block in reversed(stable) if block.get("type") not in THINKING and not _is_blank(block))
    last = next(cacheable, None)
    if last is None or last.get("cache_control") or used >= MOST_BREAKPOINTS:
        return list(sent)
    marked = {**last, "cache_control": dict(mark)}
    return [
        Sent([marked if block is last else block for block in one.blocks], one.blocks, one.keys)
        if any(block is last for block in one.blocks)
        else one
        for one in sent
    ]


def breakpoints(value: Any) -> int:
    """Count the marks of caches in a request, in tools and results too."""
    if isinstance(value, Mapping):
        own = 1 if value.get("cache_control") else 0
        return own + sum(breakpoints(one) for key, one in value.items() if key not in ("cache_control", "input"))
    return sum(map(breakpoints, value)) if isinstance(value, (list, tuple)) else 0
