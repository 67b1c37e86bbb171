"""Prices: the tokens of each step of a window, counted once."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.messages.tokens import count_message
from tinymem.protocols import TokenCounter
from tinymem.steps.step import Step, Style

__all__ = ["Prices"]


class Prices:
    """Tokens of each step, counted once as long as the step stays in the window.

    A shortened step has the id of its original, so the cache compares objects; it holds the steps of the newest window
    only.
    """

    def __init__(self, counter: TokenCounter, style: Style) -> None:
        self._counter, self._style = counter, style
        self._known: dict[str, tuple[Step, int]] = {}

    def __call__(self, steps: Sequence[Step]) -> dict[str, int]:
        """Count the tokens of each of `steps`, by id."""
        known = self._known
        fresh = {s.id: known[s.id] if s.id in known and known[s.id][0] is s else (s, self.count(s)) for s in steps}
        self._known = fresh  # one assignment: threads that share a strategy see the old or the new one
        return {key: cost for key, (_, cost) in fresh.items()}

    def count(self, step: Step) -> int:
        """Count the tokens of `step` as it is sent, overhead included."""
        return sum(count_message(message, self._counter) for message in step.to_messages(style=self._style))
