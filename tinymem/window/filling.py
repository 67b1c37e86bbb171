"""The filling of a window's free tokens with the most relevant passages for their cost, their groups around them.

A group is opened with its first passage and costs its calls, its short texts and the overhead of its messages; each
further slice of its long texts costs only itself. The ranking goes by estimates, the limit by exact tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tinymem.messages.tokens import Prices
from tinymem.protocols import Vectors
from tinymem.recall.diversity import SHORT, Said, Sayings
from tinymem.recall.render import said_by
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Step
from tinymem.window.excerpts import Slice, excerpt, long_texts, with_texts
from tinymem.window.step_index import Listed
from tinymem.window.strategy import Group

__all__ = ["Filling"]

EXPONENT = 0.25  # of the cost that relevance is divided by
WIDTH = 3.0  # log-odds by which a passage is worse that is e times less relevant
LOOKED_AT = 100  # the most relevant passages, which are those that count
ARGUMENTS = 100  # characters of each text in the arguments of a call, where what was found is not in the call
MARK = 6  # tokens of a mark, about
MISSES = 24  # passages in a row that did not fit, after which the window counts as full


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
        asked: The question.
        chosen: The slices of long texts that are shown, by step id and text.
        whole: The ids of the steps whose calls are shown with all their arguments.
        shown: The groups that are open, by their place: their steps as shown, and the tokens of these.
    """

    groups: Sequence[Group]
    found: Listed
    price: Prices
    costs: Mapping[str, int]
    room: int
    shorten: bool
    asked: str = ""
    chosen: dict[tuple[str, str], list[Slice]] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    shown: dict[int, tuple[Group, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps = [(at, step) for at, group in enumerate(self.groups) for step in group]
        found, texts = self.found, self.found.texts
        self.long = {step.id: long_texts(step) if self.shorten else [] for _, step in steps}
        self.brief = {step.id: self._with_brief_calls(step) for _, step in steps}
        self.group = np.array([at for at, _ in steps])[found.step]
        self.step = [steps[at][1] for at in found.step.tolist()]
        self.said = [texts[at][part] for at, part in zip(found.step.tolist(), found.part.tolist(), strict=True)]
        whose = zip(self.said, self.step, strict=True)
        self.text = [text if text in self.long[step.id] else None for text, step in whose]
        places = zip(found.step.tolist(), found.part.tolist(), strict=True)
        long_calls = [_calls_of(step) if self.brief[step.id] is not step else () for _, step in steps]
        self.in_call = np.array([part in long_calls[at] for at, part in places], np.bool_)
        self.apart = self.in_call | np.array([text is not None for text in self.text], np.bool_)
        sizes = np.where(self.in_call, [*map(len, self.said)], found.end - found.start)
        self.slice_price = np.where(self.apart, sizes / 4 + MARK, 0)
        self.group_price = np.zeros(len(self.groups))
        for (at, step), held in zip(steps, texts, strict=True):
            self.group_price[at] += self._least(step, sum(map(len, held)))

    def _with_brief_calls(self, step: Step) -> Step:
        if not self.shorten or step.pinned or not isinstance(step, ActionStep):
            return step
        return step.shorten_arguments(ARGUMENTS)

    def _least(self, step: Step, size: int) -> float:
        """Estimate the cost of a step of `size` characters with all long texts left out, and brief calls."""
        gone = sum(map(len, self.long[step.id])) + _size_of_calls(step) - _size_of_calls(self.brief[step.id])
        return max(8.0, self.costs[step.id] * (1 - gone / (size + 1))) + MARK

    def fill(self) -> list[Group]:
        """Open groups and add slices, the most relevant for the cost first, while they fit; return these groups."""
        relevance = self._relevance()
        left: npt.NDArray[np.bool_] = np.ones(len(self.group), np.bool_)
        misses = 0
        while left.any() and misses < MISSES:
            opened = np.isin(self.group, list(self.shown))
            price = self.slice_price + np.where(opened, 0, self.group_price[self.group])
            value = np.where(left, relevance / np.maximum(price, 1) ** EXPONENT, 0)
            best = int(value.argmax())
            if value[best] <= 0:
                break
            left[best] = False
            if price[best] > 2 * self.room + MARK or not self._take(best):
                misses += 1
                continue
            misses = 0
            left[(self.group == self.group[best]) & ~self.apart] = False
        return [group for group, _ in self.shown.values()]

    def _relevance(self) -> Vectors:
        """Return the relevance of each passage: `(n,)`, at most 1; 0 for all but the best, and for repetitions.

        Of passages that say the same, the best counts, or the newest of these: long ones word for word, short ones as
        `Sayings` has them.
        """
        scores = self.found.scores.copy()
        said = [*map(self._said, range(len(scores)))]
        sayings = Sayings(said, self.asked)
        known: set[object] = set()
        for row in np.lexsort((-np.arange(len(scores)), -scores)).tolist():
            same = sayings.of(said[row]) if said[row].words else said[row].text
            if same in known:
                scores[row] = -np.inf
            known.add(same)
        listed = np.argsort(np.argsort(-scores, kind="stable")) < LOOKED_AT
        found: Vectors = np.where(listed, np.exp((scores - scores.max(initial=-np.inf)) / WIDTH), 0)
        return found

    def _said(self, row: int) -> Said:
        step, text = self.step[row], self.said[row][self.found.start[row] : self.found.end[row]]
        is_short = len(text) < SHORT
        return Said.of(text, said_by(step, step.parts()[self.found.part[row]]) if is_short else "")

    def _take(self, row: int) -> bool:
        """Show the passage `row` with its group, if there is room; otherwise change nothing and return False."""
        at, text = int(self.group[row]), self.text[row]
        slices = dict(self.chosen)
        if text is not None:
            key = (self.step[row].id, text)
            slices[key] = [*slices.get(key, []), (int(self.found.start[row]), int(self.found.end[row]))]
        whole = self.whole | ({self.step[row].id} if self.in_call[row] else set())
        steps = [
            with_texts(
                step if step.id in whole else self.brief[step.id],
                {long: excerpt(long, slices.get((step.id, long), [])) for long in self.long[step.id]},
            )
            for step in self.groups[at]
        ]
        tokens = sum(self.price.count(step) for step in steps)
        more = tokens - (self.shown[at][1] if at in self.shown else 0)
        if more > self.room:
            return False
        self.chosen, self.whole, self.shown[at] = slices, whole, (steps, tokens)
        self.room -= more
        return True


def _size_of_calls(step: Step) -> int:
    return sum(len(call.arguments_json) for call in step.tool_calls) if isinstance(step, ActionStep) else 0


def _calls_of(step: Step) -> set[int]:
    """Return which of the parts of a step are calls."""
    return {at for at, part in enumerate(step.parts()) if part.kind == "call"}
