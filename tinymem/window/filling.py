"""The filling of a window's free tokens with the most relevant passages for their cost, their groups around them.

A group is opened with its first passage and costs its calls, its short texts and the overhead of its messages; each
further slice of its long texts costs only itself. The ranking goes by estimates, the limit by exact tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tinymem.messages.tokens import Prices
from tinymem.protocols import Vectors
from tinymem.recall.diversity import SHORT, Utterance, UtteranceCounts
from tinymem.recall.fusion import ScoredCandidates
from tinymem.recall.render import speaker_key
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Part, Step
from tinymem.window.excerpts import Slice, excerpt, long_texts, replace_texts
from tinymem.window.strategy import Group

__all__ = ["Filling"]

EXPONENT = 0.25  # of the cost that relevance is divided by
WIDTH = 3.0  # log-odds by which a passage is worse that is e times less relevant
LOOKED_AT = 100  # the most relevant passages, which are those that count
ARGUMENTS = 100  # characters of each text in the arguments of a call, where what was found is not in the call
MARK = 6  # tokens of a mark, about
MISSES = 24  # passages in a row that did not fit, after which the window counts as full


class Filling:
    """Candidate groups on their way into a window.

    Args:
        groups: The candidates.
        found: The passages in them, with scores; steps are numbered by their place in the groups.
        price: Counts the tokens of a step.
        costs: The tokens of each whole step, by id.
        room: The tokens that are left.
        shorten: Show of long texts the chosen slices only.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        found: ScoredCandidates,
        price: Prices,
        costs: Mapping[str, int],
        room: int,
        shorten: bool,
    ) -> None:
        self._groups, self._price, self._room = groups, price, room
        self._scores, self._asked = found.scores, found.query.text
        steps = [(at, step) for at, group in enumerate(groups) for step in group]
        parts = [step.parts() for _, step in steps]
        self._long = {step.id: long_texts(step) if shorten else [] for _, step in steps}
        self._brief = {step.id: _with_brief_calls(step) if shorten else step for _, step in steps}
        catalog, rows = found.catalog, found.rows
        places = catalog.step[rows], catalog.part[rows], catalog.start[rows], catalog.end[rows]
        self._group = np.array([at for at, _ in steps])[places[0]]  # of each passage: its group, its step,
        self._step = [steps[at][1] for at in places[0].tolist()]
        self._part: list[Part] = [parts[at][part] for at, part in zip(*(p.tolist() for p in places[:2]), strict=True)]
        self._slice: list[Slice] = list(zip(*(p.tolist() for p in places[2:]), strict=True))
        whose = list(zip(self._part, self._step, strict=True))
        self._is_long = [part.text in self._long[step.id] for part, step in whose]  # shown in slices, or in a call
        self._in_call = np.array([p.kind == "call" and self._brief[s.id] is not s for p, s in whose], np.bool_)
        self._is_apart = self._in_call | np.array(self._is_long, np.bool_)
        sizes = np.where(self._in_call, [len(part.text) for part in self._part], places[3] - places[2])
        self._slice_price = np.where(self._is_apart, sizes / 4 + MARK, 0)
        self._group_price = np.zeros(len(groups))
        for (at, step), texts in zip(steps, parts, strict=True):  # with long texts left out, and calls brief
            gone = sum(map(len, self._long[step.id])) + _size_of_calls(step) - _size_of_calls(self._brief[step.id])
            share = 1 - gone / (sum(len(part.text) for part in texts) + 1)
            self._group_price[at] += max(8.0, costs[step.id] * share) + MARK
        self._slices: dict[tuple[str, str], list[Slice]] = {}  # that are shown of long texts, by step id and text
        self._whole: frozenset[str] = frozenset()  # ids of the steps whose calls are shown with all their arguments
        self._shown: dict[int, tuple[Group, int]] = {}  # open groups: their steps as shown, and the tokens of these

    def fill(self) -> list[Group]:
        """Open groups and add slices, the most relevant for the cost first, while they fit; return these groups."""
        relevance = self._relevance()
        left: npt.NDArray[np.bool_] = np.ones(len(self._group), np.bool_)
        misses = 0
        while left.any() and misses < MISSES:
            is_open = np.isin(self._group, list(self._shown))
            price = self._slice_price + np.where(is_open, 0, self._group_price[self._group])
            value = np.where(left, relevance / np.maximum(price, 1) ** EXPONENT, 0)
            best = int(value.argmax())
            if value[best] <= 0:
                break
            left[best] = False
            if price[best] > 2 * self._room + MARK or not self._show(best):
                misses += 1
                continue
            misses = 0
            left[(self._group == self._group[best]) & ~self._is_apart] = False
        return [group for group, _ in self._shown.values()]

    def _relevance(self) -> Vectors:
        """Return the relevance of each passage: `(n,)`, at most 1; 0 for all but the best, and for repetitions.

        Of passages that say the same, the best counts, or the newest of these: long ones word for word, short ones as
        `UtteranceCounts` has them.
        """
        scores = self._scores.copy()
        said = [
            Utterance.of(part.text[start:end], speaker_key(step, part) if end - start < SHORT else "")
            for step, part, (start, end) in zip(self._step, self._part, self._slice, strict=True)
        ]
        sayings = UtteranceCounts(said, self._asked)
        known: set[object] = set()
        for row in np.lexsort((-np.arange(len(scores)), -scores)).tolist():
            same = sayings.of(said[row]) if said[row].words else said[row].text
            if same in known:
                scores[row] = -np.inf
            known.add(same)
        counts = np.argsort(np.argsort(-scores, kind="stable")) < LOOKED_AT
        relevance: Vectors = np.where(counts, np.exp((scores - scores.max(initial=-np.inf)) / WIDTH), 0)
        return relevance

    def _show(self, row: int) -> bool:
        """Show the passage `row` with its group, if there is room; otherwise change nothing and return False."""
        at, shown, whole = int(self._group[row]), self._step[row].id, self._whole
        slices = dict(self._slices)
        if self._is_long[row]:
            key = shown, self._part[row].text
            slices[key] = [*slices.get(key, []), self._slice[row]]
        if self._in_call[row]:
            whole = whole | {shown}
        group = [
            replace_texts(
                step if step.id in whole else self._brief[step.id],
                {text: excerpt(text, slices.get((step.id, text), [])) for text in self._long[step.id]},
            )
            for step in self._groups[at]
        ]
        tokens = sum(self._price.count(step) for step in group)
        more = tokens - (self._shown[at][1] if at in self._shown else 0)
        if more > self._room:
            return False
        self._slices, self._whole, self._shown[at] = slices, whole, (group, tokens)
        self._room -= more
        return True


def _with_brief_calls(step: Step) -> Step:
    return step if step.pinned or not isinstance(step, ActionStep) else step.shorten_arguments(ARGUMENTS)


def _size_of_calls(step: Step) -> int:
    return sum(len(call.arguments_json) for call in step.tool_calls) if isinstance(step, ActionStep) else 0
