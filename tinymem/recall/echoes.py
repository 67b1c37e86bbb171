"""A memory's own blocks inside other texts: what it told comes back in tool results and answers, and is no news.

A text that holds such a block is kept whole, since that is what was said. But no passage is made of the block, and no
summary: what was recalled is not found again under another step, and a memory does not grow by its own echoes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from tinymem.base import Step
from tinymem.recall.render import KINDS, is_block, is_mark

__all__ = ["between", "is_own_message", "own_blocks", "without_echoes"]

MOST = 100  # fences that are tried in one text: a hostile one may hold millions
LONGEST = 2_000_000  # characters of a block
_OPENING = re.compile(rf"<((?:{'|'.join(KINDS)})-([0-9a-f]{{8,64}})) [^>\n]{{0,100}}>\n")


def is_own_message(message: object, key: bytes) -> bool:
    """Whether a chat message is a block of this memory. A tool's result is none: its call would be left without it."""
    if not isinstance(message, Mapping) or message.get("role") != "user":
        return False
    content = message.get("content")
    return isinstance(content, str) and is_block(content, key)


def own_blocks(text: str, key: bytes) -> list[tuple[int, int]]:
    """Where blocks that the memory with this `key` made stand in `text`: `[start, end)`, in order, disjoint."""
    found: list[tuple[int, int]] = []
    for tried, opening in enumerate(_OPENING.finditer(text)):
        if tried == MOST:
            break
        if found and opening.start() < found[-1][1]:
            continue  # inside of one
        closing = f"\n</{opening[1]}>"
        end = text.find(closing, opening.end() - 1, opening.end() + LONGEST)
        if end >= 0 and is_mark(opening[2], text[opening.end() : end], key):
            found.append((opening.start(), end + len(closing)))
    return found


def between(length: int, taken: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What `taken` leaves of `[0, length)`, empty stretches left out.

    >>> list(between(9, [(2, 4)]))
    [(0, 2), (4, 9)]
    """
    start = 0
    for first, last in (*taken, (length, length)):
        if start < first:
            yield start, first
        start = last


def without_echoes(step: Step, key: bytes) -> Step:
    """`step` less the memory's own blocks in its texts; the same object where there are none."""
    if not any(own_blocks(part.text, key) for part in step.parts()):
        return step
    return step._map_text(partial(_without, key=key))


def _without(text: str, key: bytes) -> str:
    return "".join(text[start:end] for start, end in between(len(text), own_blocks(text, key)))
