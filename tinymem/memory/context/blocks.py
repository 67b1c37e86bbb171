"""The parts of a context beside the window, fenced, in an exact number of tokens: episodes and the scratchpad."""

from __future__ import annotations

from collections.abc import Callable

from tinymem.archive.archive import Archive
from tinymem.archive.episodes import Episodes
from tinymem.memory.context.context import Block
from tinymem.memory.scratchpad.scratchpad import AgentMemory
from tinymem.recall.render import fenced
from tinymem.steps.types import ScratchpadStep

__all__ = ["episodes_block", "scratchpad_block"]

FENCE = 32  # tokens of a fence, about: what it really takes is counted


def episodes_block(episodes: Episodes, archive: Archive) -> Callable[[int], Block]:
    """Return the maker of the block of episodes: the whole history, what is old in outline."""
    count = archive.counter.count

    def block(tokens: int) -> Block:
        shown = episodes.within(tokens - FENCE)
        while shown:
            body = "\n".join(map(str, shown))
            text = fenced("episodes", "summaries of earlier steps, by their numbers", body, archive.key)
            if count(text) <= tokens:
                return Block(text, [episodes.as_step(episode) for episode in shown])
            shown = shown[1:]
        return Block("")

    return block


def scratchpad_block(scratchpad: AgentMemory, archive: Archive) -> Callable[[int], Block]:
    """Return the maker of the block of the scratchpad."""
    count = archive.counter.count

    def block(tokens: int) -> Block:
        room = tokens - FENCE
        while scratchpad and room > 0:
            body = scratchpad.to_context(room)
            text = fenced("scratchpad", "of this agent", body, archive.key)
            if not body or count(text) <= tokens:
                return Block(text, [ScratchpadStep(body)]) if body else Block("")
            room -= count(text) - tokens
        return Block("")

    return block
