"""What recall gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinymem.base import Step

__all__ = ["Excerpt", "LeftOut", "Recall"]


@dataclass(frozen=True)
class Excerpt:
    """A slice of a past step: `text` is `step.parts()[part].text[start:end]`, control characters as U+FFFD.

    `tokens` is what it costs in the block. `score` is its log-odds of being evidence, higher is closer; `why` says
    what each feature added to it.
    """

    step: Step
    part: int
    start: int
    end: int
    text: str
    tokens: int
    score: float
    why: Mapping[str, float] = field(repr=False)

    @property
    def whole(self) -> bool:
        """Whether it is all of its part."""
        return self.start == 0 and self.end >= len(self.step.parts()[self.part].text)


@dataclass(frozen=True)
class Recall:
    """The recalled block: `text` as it stands in a prompt (fence included; "" when there is nothing), its exact
    `tokens`, and its `items` in order of time."""

    text: str
    tokens: int
    items: tuple[Excerpt, ...]

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.items)


@dataclass(frozen=True)
class LeftOut:
    """A passage that was considered and did not come back: its `rank` (1 is the best) among those that were, by score
    less the price of its tokens, and the `reason`."""

    excerpt: Excerpt
    rank: int
    reason: str
