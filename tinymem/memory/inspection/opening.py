"""Opening of one past text: as much of it as fits a budget, in a fence, and how to read on."""

from __future__ import annotations

from collections.abc import Callable

from tinymem.messages.fitting import most_characters
from tinymem.messages.tokens import LONGEST_TOKEN
from tinymem.protocols import TokenCounter
from tinymem.recall.render import block
from tinymem.steps.content import clean

__all__ = ["opened"]


def opened(
    text: str, start: int, budget: int, *, head: str, read_on: Callable[[int], str], key: bytes, counter: TokenCounter
) -> str:
    """Render a text from the character `start` on, in at most `budget` tokens.

    Args:
        text: The whole text.
        start: The first character to show.
        budget: The most tokens, fence and hint included.
        head: The line above it.
        read_on: Gives the call that shows the rest, from a character on.
        key: The key of the memory's fences.
        counter: Counts the tokens.
    """
    text = clean(text)

    def shown(length: int) -> str:
        end = min(start + length, len(text))
        fenced = block([(head, text[start:end])], key)
        if end - start == len(text):
            return fenced
        rest = f" To read on: {read_on(end)}." if end < len(text) else ""
        return f"{fenced}\nCharacters {start} to {end} of {len(text)}.{rest}"

    whole = len(text) - start
    if whole <= LONGEST_TOKEN * budget and counter.count(shown(whole)) <= budget:
        return shown(whole)
    return shown(most_characters(lambda length: counter.count(shown(length)) <= budget, budget, 0))
