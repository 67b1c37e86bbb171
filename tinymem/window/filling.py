"""The filling of a window's free tokens with the passages that add most for their cost, their groups around them.

A group is opened with its first passage and costs its calls, its short texts and the overhead of its messages; each
further slice of its long texts costs only itself. The ranking goes by estimates, the limit by exact tokens.

Passages are chosen by facility location: every passage asks to be represented, the more relevant, the louder. A
choice S is worth

    F(S) = sum over passages i of weight(i) * max over j in S of similarity(i, j)

so that a passage adds little when one like it is chosen already, and much when it stands for others that matter. Lin
and Bilmes, Multi-document Summarization via Budgeted Maximization of Submodular Functions (2010); A Class of
Submodular Functions for Document Summarization (2011). Their greedy divides the gain by a power of the cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tinymem.messages.prices import Prices
from tinymem.protocols import Vectors
from tinymem.steps.step import Step
from tinymem.window.excerpts import Slice, excerpt, long_texts, with_texts
from tinymem.window.step_index import Listed
from tinymem.window.strategy import Group

__all__ = ["Coverage", "Filling", "Selection"]

EXPONENT = 0.25  # of the cost that a gain is divided by
MARK = 6  # tokens of a mark, about
MISSES = 24  # passages in a row that did not fit, after which the window counts as full
SHARPNESS = 5.0  # a passage whose log-odds are lower by 1 weighs this many factors e less
POWER = 8  # of the cosine: vectors of unlike texts are not at right angles
REPRESENTED = 100  # the most relevant passages, which are those that count


class Selection(Protocol):
    """A way to choose passages one after the other, given those chosen already."""

    def gains(self) -> Vectors:
        """Return the gain of each passage: `(n,)`; a passage with a gain of 0 or less is not chosen."""
        ...

    def take(self, passage: int) -> None:
        """Choose a passage."""


class Coverage:
    """The function F for passages with log-odds `scores` `(n,)` and `vectors` `(n, dimensions)`, and a choice."""

    def __init__(self, scores: Vectors, vectors: Vectors) -> None:
        top = np.argsort(-scores, kind="stable")[:REPRESENTED]
        weights = np.exp(SHARPNESS * (scores[top] - scores.max(initial=-np.inf))).astype(np.float32)
        self._similarity = np.maximum(vectors @ vectors[top].T, 0) ** POWER  # (n, represented)
        self._weights = weights
        self._covered = np.zeros(len(top), np.float32)

    def gains(self) -> Vectors:
        """Return the gain in F of each passage: `(n,)`, 0 or more."""
        gains: Vectors = np.maximum(self._similarity - self._covered, 0) @ self._weights
        return gains

    def take(self, passage: int) -> None:
        """Choose a passage."""
        np.maximum(self._covered, self._similarity[passage], out=self._covered)


@dataclass
class Filling:
    """Candidate groups on their way into a window.

    Attributes:
        groups: The candidates.
        found: The passages in them, with scores and vectors.
        price: Counts the tokens of a step.
        costs: The tokens of each whole step, by id.
        room: The tokens that are left.
        shorten: Show of long texts the chosen slices only.
        chosen: The slices of long texts that are shown, by step id and text.
        shown: The groups that are open, by their place: their steps as shown, and the tokens of these.
    """

    groups: Sequence[Group]
    found: Listed
    price: Prices
    costs: Mapping[str, int]
    room: int
    shorten: bool
    chosen: dict[tuple[str, str], list[Slice]] = field(default_factory=dict)
    shown: dict[int, tuple[Group, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps = [(at, step) for at, group in enumerate(self.groups) for step in group]
        found, texts = self.found, self.found.texts
        self.long = {step.id: long_texts(step) if self.shorten else [] for _, step in steps}
        self.group = np.array([at for at, _ in steps])[found.step]
        self.step = [steps[at][1] for at in found.step.tolist()]
        said = [texts[at][part] for at, part in zip(found.step.tolist(), found.part.tolist(), strict=True)]
        self.text = [text if text in self.long[step.id] else None for text, step in zip(said, self.step, strict=True)]
        self.apart = np.array([text is not None for text in self.text], np.bool_)
        self.slice_price = np.where(self.apart, (found.end - found.start) / 4 + MARK, 0)
        self.group_price = np.zeros(len(self.groups))
        for (at, step), held in zip(steps, texts, strict=True):
            self.group_price[at] += self._least(step, sum(map(len, held)))

    def _least(self, step: Step, size: int) -> float:
        """Estimate the cost of a step of `size` characters with all long texts left out."""
        share = sum(map(len, self.long[step.id])) / (size + 1)
        return max(8.0, self.costs[step.id] * (1 - share)) + MARK

    def fill(self, coverage: Selection) -> list[Group]:
        """Open groups and add slices, best gain for the cost first, while they fit; return the groups as shown."""
        left: npt.NDArray[np.bool_] = np.ones(len(self.group), np.bool_)
        misses = 0
        while left.any() and misses < MISSES:
            opened = np.isin(self.group, list(self.shown))
            price = self.slice_price + np.where(opened, 0, self.group_price[self.group])
            value = np.where(left, coverage.gains() / np.maximum(price, 1) ** EXPONENT, 0)
            best = int(value.argmax())
            if value[best] <= 0:
                break
            left[best] = False
            if price[best] > 2 * self.room + MARK or not self._take(best):
                misses += 1
                continue
            misses = 0
            coverage.take(best)
            for row in np.flatnonzero(left & (self.group == self.group[best]) & ~self.apart):
                coverage.take(int(row))
                left[row] = False
        return [group for group, _ in self.shown.values()]

    def _take(self, row: int) -> bool:
        """Show the passage `row` with its group, if there is room; otherwise change nothing and return False."""
        at, text = int(self.group[row]), self.text[row]
        slices = dict(self.chosen)
        if text is not None:
            key = (self.step[row].id, text)
            slices[key] = [*slices.get(key, []), (int(self.found.start[row]), int(self.found.end[row]))]
        steps = [
            with_texts(step, {long: excerpt(long, slices.get((step.id, long), [])) for long in self.long[step.id]})
            for step in self.groups[at]
        ]
        tokens = sum(self.price.count(step) for step in steps)
        more = tokens - (self.shown[at][1] if at in self.shown else 0)
        if more > self.room:
            return False
        self.chosen, self.shown[at] = slices, (steps, tokens)
        self.room -= more
        return True
