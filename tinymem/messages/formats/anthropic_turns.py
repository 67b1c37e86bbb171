"""Turns of Anthropic's Messages API: adjacent pieces of one role as one message, results of tools first.

What came as a whole message goes back as it came, also beside others of its role, which the API combines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinymem.messages.formats.anthropic_blocks import THINKING, Block
from tinymem.messages.formats.parts import text_part

__all__ = ["Piece", "Sent", "Turn", "breakpoints", "cached", "turns_of", "written"]

MOST_BREAKPOINTS = 4  # marks of caches that a request may have
PAUSE = "…"  # said by the user where two answers would touch, or an answer would come first


@dataclass(frozen=True)
class Piece:
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
    pieces: list[Piece] = field(default_factory=list)


def turns_of(pieces: Sequence[Piece]) -> list[Turn]:
    """Group pieces by their role; thinking always begins a turn, as the API wants it in the newest one."""
    turns: list[Turn] = []
    for piece in pieces:
        role = turns[-1].role if turns else None
        if role == piece.role and not (_thinks(piece) and not _goes_on(turns[-1].pieces[-1], piece)):
            turns[-1].pieces.append(piece)
            continue
        if piece.role == "assistant" and role in (None, "assistant") and not (role is None and piece.item == 0):
            turns.append(Turn("user", [Piece(piece.at, "user", [text_part(PAUSE)])]))
        turns.append(Turn(piece.role, [piece]))
    return turns


def _thinks(piece: Piece) -> bool:
    return piece.role == "assistant" and any(block.get("type") in THINKING for block in piece.blocks)


def _goes_on(before: Piece, piece: Piece) -> bool:
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
    last = next((block for block in reversed(stable) if _may_be_cached(block)), None)
    if last is None or last.get("cache_control") or used >= MOST_BREAKPOINTS:
        return list(sent)
    marked = {**last, "cache_control": dict(mark)}
    return [
        Sent([marked if block is last else block for block in one.blocks], one.blocks, one.keys)
        if any(block is last for block in one.blocks)
        else one
        for one in sent
    ]


def _may_be_cached(block: Block) -> bool:
    return block.get("type") not in THINKING and not _is_blank(block)


def breakpoints(value: Any) -> int:
    """Count the marks of caches in a request, in tools and results too."""
    if isinstance(value, Mapping):
        own = 1 if value.get("cache_control") else 0
        return own + sum(breakpoints(one) for key, one in value.items() if key not in ("cache_control", "input"))
    return sum(map(breakpoints, value)) if isinstance(value, (list, tuple)) else 0
