"""Messages as Anthropic's Messages API has them: content in blocks, the results of tools in the user's message.

Entries are written in turns: adjacent ones of one role as one message, results of tools first. What came as a whole
message goes back as it came, also beside others of its role, which the API combines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar

from tinymem.errors import MessageError, describe_type
from tinymem.messages.formats.anthropic_blocks import (
    THINKING,
    Block,
    call_of,
    made_of,
    parts_in,
    result_of,
    shortened,
)
from tinymem.messages.formats.conversation import ItemConversation, Placed, plain_value
from tinymem.messages.formats.parts import answer_of, blocks_of, said, text_part
from tinymem.steps.step import Message

__all__ = ["AnthropicConversation"]

SYSTEM = -1  # the place of the system prompt, which stands beside the messages
MOST_BREAKPOINTS = 4  # marks of caches that a request may have
PAUSE = "…"  # said by the user where two answers would touch, or an answer would come first


class AnthropicConversation(ItemConversation):
    """A list of messages, or a request: a dict with `messages`, `system`, and keys that stay as they are."""

    format: ClassVar[str] = "anthropic"

    def __init__(self, items: Any, known: Sequence[dict[str, Any]] = ()) -> None:
        given = items if isinstance(items, Mapping) else {"messages": items}
        self._request = {key: plain_value(given[key]) for key in given if key not in ("messages", "system")}
        self._system = plain_value(given.get("system"))
        super().__init__(given.get("messages"), known)

    def _natives(self, index: int) -> list[dict[str, Any]]:
        return self._blocks[index][0]

    def _plain(self, item: Any) -> Any:
        """Return an item as it can be sent back, also an answer as the API gave it."""
        found = plain_value(item)
        if not isinstance(found, dict) or found.get("type") != "message":
            return found
        return {key: found[key] for key in ("role", "content") if key in found}

    def _read(self) -> list[tuple[Message, list[dict[str, Any]]]]:
        read: list[tuple[Message, list[Block], int]] = []
        if self._system is not None:
            blocks = blocks_of(self._system, None)
            read.append(({"role": "system", "content": said(parts_in(blocks, None))}, blocks, SYSTEM))
        for index, item in enumerate(self.items):
            read += [(message, blocks, index) for message, blocks in _read(item, index)]
        self._blocks = [(blocks, index) for _, blocks, index in read]  # of each message, and the place of its item
        return [(message, [] if index == SYSTEM else [self.items[index]]) for message, _, index in read]

    def _written(
        self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        pieces = [self._piece(entry) for entry in placed]
        if cache_control is not None:
            used = breakpoints([self._request, [piece.blocks for piece in pieces]])
            pieces = pieces if used >= MOST_BREAKPOINTS else with_mark(pieces, stable, cache_control)
        above = [piece for piece in pieces if piece.role == "system" and piece.item in (SYSTEM, None)]
        turns = turns_of([piece for piece in pieces if piece not in above])
        request = dict(self._request)
        if (system := self._system_of(above)) is not None:
            request["system"] = system
        return {**request, "messages": [*chain.from_iterable(written(turn, self.items) for turn in turns)]}

    def _piece(self, entry: Placed) -> EntryBlocks:
        role = str(entry.message["role"])
        role = {"tool": "user", "developer": "system"}.get(role, role)
        if entry.input is None:
            return EntryBlocks(entry.place, role, made_of(entry.message))
        blocks, item = self._blocks[entry.input]
        if entry.shortened:
            return EntryBlocks(entry.place, role, shortened(blocks, entry.message))
        return EntryBlocks(entry.place, role, blocks, item, True)

    def _system_of(self, pieces: Sequence[EntryBlocks]) -> Any:
        """Return the system prompt: as it came, if nothing was added to it."""
        blocks = blocks_in(pieces)
        if blocks and len(pieces) == 1 and pieces[0].is_whole:
            return self._system
        return said(blocks) or None


def _read(item: dict[str, Any], index: int) -> list[tuple[Message, list[Block]]]:
    """Return the messages of a chat that an item is, with their blocks: results of tools one by one, then the rest."""
    role, blocks = item.get("role"), blocks_of(item.get("content"), index)
    if role not in ("user", "assistant", "system"):
        raise MessageError(
            f"role must be user, assistant or system, not {describe_type(role)}: name another format", index
        )
    inside = "tool_use" if role == "assistant" else "tool_result"
    apart = [block for block in blocks if block.get("type") == inside]
    rest = [block for block in blocks if block.get("type") != inside]
    content = said(parts_in(rest, index))
    if role == "assistant":
        return [(answer_of(content, [call_of(block, index) for block in apart]), blocks)]
    found = [(result_of(block, index), [block]) for block in apart]
    return found if apart and not rest else [*found, ({"role": role, "content": content}, rest)]


@dataclass(frozen=True)
class EntryBlocks:
    """The blocks of the entry at a place, and the `item` that they are of; the `is_whole` ones were not changed."""

    place: int
    role: str
    blocks: Sequence[Block]
    item: int | None = None
    is_whole: bool = False


def blocks_in(pieces: Iterable[EntryBlocks]) -> list[Block]:
    """Return the blocks of all pieces, in order."""
    return [*chain.from_iterable(piece.blocks for piece in pieces)]


def turns_of(pieces: Sequence[EntryBlocks]) -> list[list[EntryBlocks]]:
    """Group pieces by their role; thinking always begins a turn, as the API wants it in the newest one."""
    turns: list[list[EntryBlocks]] = []
    for piece in pieces:
        before = turns[-1][-1] if turns else None
        thinks = piece.role == "assistant" and any(block.get("type") in THINKING for block in piece.blocks)
        if before and before.role == piece.role and (not thinks or _goes_on(before, piece)):
            turns[-1].append(piece)
            continue
        if piece.role == "assistant" and (before.role == "assistant" if before else piece.item != 0):
            turns.append([EntryBlocks(piece.place, "user", [text_part(PAUSE)])])
        turns.append([piece])
    return turns


def _goes_on(before: EntryBlocks, piece: EntryBlocks) -> bool:
    """Return True if two pieces stood one behind the other as they came."""
    return before.item is not None and piece.item is not None and piece.item - before.item in (0, 1)


def written(turn: Sequence[EntryBlocks], items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a turn: those that came, if it is made of them; else one."""
    numbers = [*dict.fromkeys(piece.item for piece in turn if piece.item is not None)]
    given = items[numbers[0] : numbers[-1] + 1] if numbers else []
    count = sum(len(blocks_of(item["content"], None)) for item in given)
    blocks = blocks_in(turn)
    if all(piece.is_whole for piece in turn) and count == len(blocks):
        return [*given]
    blocks = [block for block in blocks if not _is_blank(block)]
    if turn[0].role == "user":
        blocks.sort(key=lambda block: block.get("type") != "tool_result")
    keys = given[0] if len({piece.item for piece in turn}) == 1 and given else {}
    return [{**keys, "role": turn[0].role, "content": blocks}] if blocks else []


def _is_blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text")).strip()


def with_mark(pieces: list[EntryBlocks], stable: int, mark: Mapping[str, Any]) -> list[EntryBlocks]:
    """Put the `mark` of a cache on the last block of the `stable` entries that may have one."""
    found = [*pieces]
    for number, piece in reversed([*enumerate(pieces)]):
        blocks = [*piece.blocks]
        places = [place for place, block in enumerate(blocks) if _may_be_marked(block)]
        if piece.place < stable and places:
            last = places[-1]
            if not blocks[last].get("cache_control"):
                blocks[last] = {**blocks[last], "cache_control": dict(mark)}
                found[number] = replace(piece, blocks=blocks, is_whole=False)
            break
    return found


def _may_be_marked(block: Block) -> bool:
    return block.get("type") not in THINKING and not _is_blank(block)


def breakpoints(value: Any) -> int:
    """Count the marks of caches in a request, in tools and results too."""
    if isinstance(value, Mapping):
        inside = [inner for key, inner in value.items() if key not in ("cache_control", "input")]
        return bool(value.get("cache_control")) + sum(map(breakpoints, inside))
    return sum(map(breakpoints, value)) if isinstance(value, (list, tuple)) else 0
