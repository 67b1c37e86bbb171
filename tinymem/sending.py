"""What steps are sent as: valid messages group by group, rendered and counted once."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from tinymem.base import Message, Step, Style
from tinymem.messages import groups, messages_from_steps, repair
from tinymem.protocols import TokenCounter
from tinymem.strategy import Group, Prices
from tinymem.tokens import PER_REPLY, count_message

__all__ = ["Sending", "SentGroup"]


@dataclass(frozen=True)
class SentGroup:
    """A group, its messages as they are sent, and their tokens."""

    group: Group
    messages: list[Message]
    tokens: int


class Sending:
    """What steps are sent as, group by group: rendered and counted once, as long as the group is in the window as it
    is. The messages of groups, one after the other, are a valid sequence, since each group's are."""

    def __init__(self, counter: TokenCounter, style: Style) -> None:
        self.style = style
        self._counter = counter
        self._known: dict[str, SentGroup] = {}  # by the id of a group's first step

    def __call__(self, steps: Sequence[Step]) -> list[SentGroup]:
        """The groups of `steps` as they are sent."""
        found = [self._of(group) for group in groups(steps)]
        self._known = {sent.group[0].id: sent for sent in found}
        return found

    def _of(self, group: Group) -> SentGroup:
        known = self._known.get(group[0].id)
        if known and len(known.group) == len(group) and all(map(operator.is_, known.group, group)):
            return known
        messages = repair(messages_from_steps(group, style=self.style))
        return SentGroup(group, messages, sum(count_message(message, self._counter) for message in messages))

    def cost(self, group: Group) -> int:
        """The tokens of one group."""
        return self._of(group).tokens

    def costs(self, steps: Sequence[Step]) -> dict[str, int]:
        """Tokens by step id, such that those of a group sum up to what it costs: its first step has them all."""
        first = {sent.group[0].id: sent.tokens for sent in self(steps)}
        return {step.id: first.get(step.id, 0) for step in steps}

    def of_each(self, steps: Sequence[Step]) -> dict[str, int]:
        """The tokens of each step by itself, by id."""
        return Prices(self._counter, self.style)(steps)

    def tokens(self, steps: Sequence[Step]) -> int:
        """The tokens of all messages, and of what stands before the reply."""
        return PER_REPLY + sum(sent.tokens for sent in self(steps))
