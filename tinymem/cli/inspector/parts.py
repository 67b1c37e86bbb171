"""The parts of a context: for each message that is sent, its tier and its tokens."""

from __future__ import annotations

from dataclasses import dataclass

from tinymem.memory.context.context import Context, Entry
from tinymem.messages.tokens import count_message
from tinymem.protocols import TokenCounter

__all__ = ["ContextPart", "context_parts"]

_TIERS = {"episodes": "episodes", "scratchpad": "scratchpad", "recalled": "recall"}


@dataclass(frozen=True)
class ContextPart:
    """A message of a context.

    Attributes:
        tier: `"fixed"`, `"episodes"`, `"window"`, `"scratchpad"` or `"recall"`, as in `Context.items`.
        entry: The message, and where it comes from.
        tokens: Its tokens.
        stable: True if it stays the same from call to call, until the window jumps.
    """

    tier: str
    entry: Entry
    tokens: int
    stable: bool


def context_parts(context: Context, counter: TokenCounter) -> tuple[ContextPart, ...]:
    """Return the parts of a context, in the order in which they are sent.

    >>> from tinymem import HierarchicalMemory, TaskStep
    >>> with HierarchicalMemory() as memory:
    ...     step = memory.add(TaskStep("Ship version 2.4."))
    ...     [part.tier for part in context_parts(memory.context(), memory.long_term.counter)]
    ['fixed']
    """
    fixed = {item.step.id for item in context.items if item.tier == "fixed"}

    def tier(entry: Entry) -> str:
        in_window = "fixed" if any(step.id in fixed for step in entry.steps) else "window"
        return _TIERS.get(entry.kind, in_window)

    return tuple(
        ContextPart(tier(entry), entry, count_message(entry.message, counter), place < context.stable)
        for place, entry in enumerate(context.entries)
    )
