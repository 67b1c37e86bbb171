"""The report of a context: the place of every step in it, its tokens, and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tinymem.messages.tokens import count_message
from tinymem.recall import Recall
from tinymem.steps.step import Message, Step
from tinymem.window.sending import Sending, SentGroup

__all__ = ["Item", "priced", "report", "shared"]


@dataclass(frozen=True)
class Item:
    """The place of a step in the context, its tokens, and the reason.

    `tier` is `"fixed"`, `"episodes"`, `"window"`, `"scratchpad"`, `"recall"` or `"out"`.
    """

    tier: str
    step: Step
    tokens: int
    score: float | None = None
    why: str = ""

    def __repr__(self) -> str:
        return f"<Item {self.tier}: {self.tokens} tokens: {self.step!r}>"


Priced: TypeAlias = Sequence[tuple[Step, int]]  # steps, each with its tokens


def priced(shown: Iterable[SentGroup]) -> Priced:
    """Return the steps that are shown, with their tokens: the first of a group has all of the group's."""
    return [(step, 0 if at else one.tokens) for one in shown for at, step in enumerate(one.group)]


def shared(steps: Sequence[Step], block: Iterable[Message], sending: Sending) -> Priced:
    """Return the steps of a block, which is one message: they share what that costs by their length."""
    total = sum(count_message(message, sending.counter) for message in block)
    length = sum(len(step.text) for step in steps) or 1
    return [(step, total * len(step.text) // length) for step in steps]


def report(tiers: Mapping[str, Priced], steps: Sequence[Step], found: Recall) -> tuple[Item, ...]:
    """Return an item for every step that is shown or recalled, or is not."""
    items = [Item(tier, step, tokens) for tier, shown in tiers.items() for step, tokens in shown]
    for one in found.items:
        why = ", ".join(f"{name} {value:+.2f}" for name, value in list(one.why.items())[:3])
        items.append(Item("recall", one.step, one.tokens, one.score, why))
    seen = {item.step.id for item in items}
    items += [Item("out", step, 0, None, "over the window's share") for step in steps if step.id not in seen]
    return tuple(items)
