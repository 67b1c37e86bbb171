"""The filling of a window's free tokens with the most relevant passages for their cost, their groups around them.

A group is opened with its first passage and costs its calls, its short texts and the overhead of its messages; each
further slice of its long texts costs only itself. The ranking goes by estimates, the limit by exact tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain

from tinymem.messages.tokens import Prices
from tinymem.recall.fusion import ScoredCandidates
from tinymem.recall.render import speaker_key
from tinymem.recall.selection.diversity import SHORT, Utterance
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Step
from tinymem.window.excerpts import Slice, excerpt, long_texts, replace_texts
from tinymem.window.strategy import Group

__all__ = ["Filling"]

EXPONENT = 0.25  # of the cost that relevance is divided by
WIDTH = 3.0  # log-odds by which a passage is worse that is e times less relevant
LOOKED_AT = 100  # the most relevant passages, which are those that count
ARGUMENTS = 100  # characters of each text in the arguments of a call, where what was found is not in the call
MARK = 6  # tokens of a mark, about
MISSES = 24  # passages in a row that did not fit, after which the window counts as full


class _TextSource:
    """A step of the candidates, in the group with this number, and what of it may be left out."""

    def __init__(self, group: int, step: Step, cost: int, shorten: bool) -> None:
        self.group, self.step, self.parts = group, step, step.parts()
        self.long_texts = long_texts(step) if shorten else []
        self.brief = step
        if shorten and isinstance(step, ActionStep) and not step.pinned:
            self.brief = step.shorten_arguments(ARGUMENTS)
        left_out = sum(map(len, self.long_texts)) + _size_of_calls(step) - _size_of_calls(self.brief)
        share = 1 - left_out / (sum(len(part.text) for part in self.parts) + 1)
        self.least_cost = max(8.0, cost * share) + MARK

    def shortened(self, chosen: Sequence[_Candidate]) -> Step:
        """Return the step with what was chosen of its long texts, and its whole call if that was chosen."""
        chosen = [candidate for candidate in chosen if candidate.source is self]
        shown = self.step if any(candidate.is_in_call for candidate in chosen) else self.brief
        texts: dict[str, str] = {}
        for text in self.long_texts:
            texts[text] = excerpt(text, [candidate.span for candidate in chosen if candidate.part.text == text])
        return replace_texts(shown, texts)


class _Candidate:
    """A passage that may be shown: a `span` of a part of a step; `cost` is its own beside its group."""

    def __init__(self, source: _TextSource, place: int, span: Slice, score: float) -> None:
        self.source, self.part, self.span, self.score = source, source.parts[place], span, score
        self.is_in_call = self.part.kind == "call" and source.brief is not source.step
        self.cost = 0.0
        if self.is_in_call:
            self.cost = len(self.part.text) / 4 + MARK
        elif self.part.text in source.long_texts:
            self.cost = (span[1] - span[0]) / 4 + MARK

    def utterance(self) -> Utterance:
        """Return what it says: short ones are told apart by their speakers too."""
        start, end = self.span
        speaker = speaker_key(self.source.step, self.part) if end - start < SHORT else ""
        return Utterance(self.part.text[start:end], speaker)


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
        self._found, self._price, self._room = found, price, room
        self._groups: list[list[_TextSource]] = []
        self._group_costs: list[float] = []
        for number, group in enumerate(groups):
            sources = [_TextSource(number, step, costs[step.id], shorten) for step in group]
            self._groups.append(sources)
            self._group_costs.append(sum(source.least_cost for source in sources))
        self._chosen: dict[int, list[_Candidate]] = {}  # of open groups, by their numbers, as the next two
        self._shown: dict[int, Group] = {}
        self._tokens: dict[int, int] = {}

    def fill(self) -> list[Group]:
        """Open groups and add slices, the most relevant for the cost first, while they fit; return these groups."""
        waiting = _most_relevant(self._candidates())
        best_score = max((candidate.score for candidate in waiting), default=0.0)
        misses = 0
        while waiting and misses < MISSES:
            costs = list(map(self._cost, waiting))
            values = [
                _value(candidate.score - best_score, cost) for candidate, cost in zip(waiting, costs, strict=True)
            ]
            place = values.index(max(values))
            candidate = waiting.pop(place)
            if costs[place] > 2 * self._room + MARK or not self._show(candidate):
                misses += 1
                continue
            misses = 0
            number = candidate.source.group
            waiting = [other for other in waiting if other.cost or other.source.group != number]
        return [*self._shown.values()]

    def _candidates(self) -> list[_Candidate]:
        sources = [*chain.from_iterable(self._groups)]
        snapshot, rows = self._found.snapshot, self._found.rows
        columns = [column[rows].tolist() for column in (snapshot.step, snapshot.part, snapshot.start, snapshot.end)]
        rows_of_columns = zip(*columns, self._found.scores.tolist(), strict=True)
        return [
            _Candidate(sources[place], part, (start, end), score) for place, part, start, end, score in rows_of_columns
        ]

    def _cost(self, candidate: _Candidate) -> float:
        """Estimate the tokens of a passage, with its group where that is not open yet."""
        number = candidate.source.group
        return candidate.cost + (0 if number in self._shown else self._group_costs[number])

    def _show(self, candidate: _Candidate) -> bool:
        """Show a passage with its group, if there is room; otherwise change nothing and return False."""
        number = candidate.source.group
        chosen = [*self._chosen.get(number, []), candidate]
        group = [source.shortened(chosen) for source in self._groups[number]]
        tokens = sum(map(self._price.count, group))
        more = tokens - self._tokens.get(number, 0)
        if more > self._room:
            return False
        self._chosen[number], self._shown[number], self._tokens[number] = chosen, group, tokens
        self._room -= more
        return True


def _most_relevant(found: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the best passages, in their order; of those that say the same the best, or the newest of these."""
    known: set[object] = set()
    chosen: list[int] = []
    for place in sorted(range(len(found)), key=lambda place: (-found[place].score, -place)):
        same = found[place].utterance().saying
        if same not in known:
            chosen.append(place)
        known.add(same)
    return [found[place] for place in sorted(chosen[:LOOKED_AT])]


def _value(behind: float, cost: float) -> float:
    """Return the relevance of a passage that is so far behind the best, for its cost."""
    return math.exp(behind / WIDTH) / math.pow(max(1.0, cost), EXPONENT)


def _size_of_calls(step: Step) -> int:
    return sum(len(call.arguments_json) for call in step.tool_calls) if isinstance(step, ActionStep) else 0
