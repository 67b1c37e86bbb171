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

__all__ = ["filled"]

EXPONENT = 0.25  # of the cost that relevance is divided by
WIDTH = 3.0  # log-odds by which a passage is worse that is e times less relevant
LOOKED_AT = 100  # the most relevant passages, which are those that count
ARGUMENTS = 100  # characters of each text in the arguments of a call, where what was found is not in the call
MARK = 6  # tokens of a mark, about
MISSES = 24  # passages in a row that did not fit, after which the window counts as full


class _TextSource:
    """A step of a candidate group, and what of it may be left out."""

    def __init__(self, group: _Group, step: Step, cost: int, shorten: bool) -> None:
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


class _Group:
    """A candidate group, and what is shown of it for the candidates `chosen`: at first nothing."""

    def __init__(self, steps: Group, costs: Mapping[str, int], shorten: bool) -> None:
        self.sources = [_TextSource(self, step, costs[step.id], shorten) for step in steps]
        self.least_cost = sum(source.least_cost for source in self.sources)
        self.chosen: list[_Candidate] = []
        self.shown: Group = []
        self.tokens = 0

    def show(self, passage: _Candidate, price: Prices, room: int) -> int | None:
        """Show a passage too, and return how many tokens that takes; None where these are over `room`."""
        chosen = [*self.chosen, passage]
        shown = [source.shortened(chosen) for source in self.sources]
        tokens = sum(map(price.count, shown))
        more = tokens - self.tokens
        if more > room:
            return None
        self.chosen, self.shown, self.tokens = chosen, shown, tokens
        return more


class _Candidate:
    """A passage that may be shown: a `span` of a part of a step; `own_cost` is what it costs beside its group."""

    def __init__(self, source: _TextSource, place: int, span: Slice, score: float) -> None:
        self.group, self.source, self.part = source.group, source, source.parts[place]
        self.span, self.score = span, score
        self.is_in_call = self.part.kind == "call" and source.brief is not source.step
        self.own_cost = 0.0
        if self.is_in_call:
            self.own_cost = len(self.part.text) / 4 + MARK
        elif self.part.text in source.long_texts:
            self.own_cost = (span[1] - span[0]) / 4 + MARK

    @property
    def cost(self) -> float:
        """About the tokens of it, with its group where that is not shown yet."""
        return self.own_cost + (0 if self.group.shown else self.group.least_cost)

    def value(self, best_score: float) -> float:
        """Return its relevance for its cost."""
        return math.exp((self.score - best_score) / WIDTH) / math.pow(max(1.0, self.cost), EXPONENT)


def filled(
    groups: Sequence[Group],
    found: ScoredCandidates,
    price: Prices,
    costs: Mapping[str, int],
    room: int,
    shorten: bool,
) -> list[Group]:
    """Open groups and add slices, the most relevant for the cost first, while they fit; return these groups.

    Args:
        groups: The candidates.
        found: The passages in them, with scores; steps are numbered by their place in the groups.
        price: Counts the tokens of a step.
        costs: The tokens of each whole step, by id.
        room: The tokens that are left.
        shorten: Show of long texts the chosen slices only.
    """
    candidates = [_Group(steps, costs, shorten) for steps in groups]
    waiting = _most_relevant(_passages(candidates, found))
    best_score = max((passage.score for passage in waiting), default=0.0)
    misses = 0
    while waiting and misses < MISSES:
        passage = max(waiting, key=lambda passage: passage.value(best_score))
        waiting.remove(passage)
        taken = passage.group.show(passage, price, room) if passage.cost <= 2 * room + MARK else None
        misses += 1
        if taken is not None:
            misses, room = 0, room - taken
            waiting = [other for other in waiting if other.own_cost or other.group is not passage.group]
    return [group.shown for group in candidates if group.shown]


def _passages(groups: Sequence[_Group], found: ScoredCandidates) -> list[_Candidate]:
    """Return the passages that were found in the groups."""
    sources = [*chain.from_iterable(group.sources for group in groups)]
    snapshot, rows = found.snapshot, found.rows
    columns = [column[rows].tolist() for column in (snapshot.step, snapshot.part, snapshot.start, snapshot.end)]
    passages = zip(*columns, found.scores.tolist(), strict=True)
    return [_Candidate(sources[step], part, (start, end), score) for step, part, start, end, score in passages]


def _most_relevant(found: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the best passages, in their order; of those that say the same the best, or the newest of these."""
    best: dict[object, int] = {}
    for place in sorted(range(len(found)), key=lambda place: (-found[place].score, -place)):
        start, end = found[place].span
        text = found[place].part.text[start:end]
        # Short ones are told apart by their speakers too.
        speaker = speaker_key(found[place].source.step, found[place].part) if len(text) < SHORT else ""
        best.setdefault(Utterance(text, speaker).saying, place)
    return [found[place] for place in sorted([*best.values()][:LOOKED_AT])]


def _size_of_calls(step: Step) -> int:
    return sum(len(call.arguments_json) for call in step.tool_calls) if isinstance(step, ActionStep) else 0
