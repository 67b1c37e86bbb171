"""Packing of the best passages into a token budget: whole lines, shared headers, adjoining slices united.

Greedy in order of score: a passage that does not fit is passed over, and a smaller one may fill the gap. The budget is
checked on the text as it is sent, so it holds exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

from tinymem.protocols import NOTHING, Changes, PassageChange
from tinymem.recall.relevance import BEARS
from tinymem.recall.render import block, format_mark, speaker_key
from tinymem.recall.results import ALL_FITS, Excerpt, Overflow, Recall
from tinymem.recall.selection.diversity import Repetitions, Utterance
from tinymem.recall.selection.limits import Limits
from tinymem.recall.selection.opened import OpenedPassage, OpenedSteps, PassagePlace

__all__ = ["FENCE", "Newest", "RankedPassage", "pack"]

FETCHED = 24  # steps that are read from the journal at once
MISSES = 24  # passages in a row that did not fit, after which the budget counts as full
SMALLEST = 8  # tokens that no passage gets by with
FENCE = 28  # tokens of the fence, about: the exact number is counted later
CHARACTERS = 4  # that a token has, about
DENSEST = 16  # characters that a token has at most, about: longer passages are passed over without counting
ROUNDS = 3  # times that tokens are filled which the estimates left over

Every = Callable[[], "Sequence[RankedPassage]"]
Newest = Callable[[int], Sequence[PassagePlace]]  # the places of the passages of a step that may come back


class RankedPassage(NamedTuple):
    """A passage on its way into the prompt: its place, its score, the reasons, its relevance, and if that is enough."""

    number: int
    part: int
    start: int
    end: int
    score: float
    why: Callable[[], Mapping[str, float]]
    relevance: float = 0.0
    is_relevant: bool = True
    newer: int | None = None  # the number of a later step that says otherwise, as far as words tell


@dataclass(frozen=True)
class _Chosen:
    """A chosen passage, its rank from 0 on, the text as it is shown, and its tokens."""

    rank: int
    passage: RankedPassage
    shown: OpenedPassage
    tokens: int


class _Packer:
    """The passages that are chosen for a block."""

    def __init__(
        self,
        ranked: Sequence[RankedPassage],
        steps: OpenedSteps,
        limits: Limits,
        every: Every | None,
        changes: Changes | None,
        newest: Newest,
    ) -> None:
        self.ranked, self.every, self.newest, self.changes = ranked, every, newest, changes
        self.steps, self.counter = steps, steps.counter
        self.most = len(ranked) if limits.k is None else limits.k
        self.order, self.hidden = limits.order, limits.hidden
        self.repetitions = Repetitions(limits.diversity)
        self.chosen: dict[PassagePlace, _Chosen] = {}
        self.passed: set[int] = set()  # ranks that are not looked at again
        self.opened: dict[PassagePlace, OpenedPassage] = {}
        self.headers: set[str] = set()  # of what is chosen,
        self.labelled: set[tuple[int, ...]] = set()  # and its parts
        self.room = 0
        self.is_repeated = False  # whether something was passed over that repeats another
        self.spans: dict[tuple[int, ...], list[tuple[int, int]]] = {}  # that the model sees already, by step and part
        for item in limits.shown:
            part = item.step.parts()[item.part]
            self.repetitions.take(Utterance(item.text, speaker_key(item.step, part)))
            self.spans.setdefault((item.step.step_number or 0, item.part), []).append((item.start, item.end))

    def fill(self, room: int) -> bool:
        """Choose passages that fit `room` tokens, best first, and return True if the block is another one now."""
        self.room = room
        before, misses = len(self.chosen), 0
        for rank, passage in enumerate(self._candidates()):
            if self.room < SMALLEST or misses >= MISSES or len(self.chosen) >= self.most:
                break
            if rank in self.passed or not passage.is_relevant or passage[:4] in self.chosen:
                continue
            if self._is_shown(passage):
                self.passed.add(rank)
                continue
            if passage.end - passage.start > DENSEST * self.room:
                misses += 1
                continue
            opened = self._open(rank)
            if opened is None:
                continue
            if self._cost(passage, opened) > self.room:
                misses += 1
            elif self._choose(rank, passage, opened):
                misses = 0
        return len(self.chosen) > before

    def _candidates(self) -> Iterator[RankedPassage]:
        """Yield the ranked passages, then all others: what repetitions leave goes to these."""
        yield from self.ranked
        if self.is_repeated and self.every:
            others, self.every = self.every()[len(self.ranked) :], None
            self.ranked = [*self.ranked, *others]
            yield from others

    def _is_shown(self, passage: RankedPassage) -> bool:
        """Return whether a passage lies in an excerpt that stands in front of the model already."""
        spans = self.spans.get(passage[:2], ())
        return any(start <= passage.start and passage.end <= end for start, end in spans)

    def _open(self, rank: int) -> OpenedPassage | None:
        """Return the passage of a rank, opened with the next ones; None where its step is gone."""
        place = self.ranked[rank][:4]
        if place not in self.opened:
            places = [passage[:4] for passage in self.ranked[rank : rank + FETCHED]]
            found = self.steps.passages(places)
            self.opened |= found
            if self.changes is not None:
                self.changes.expect([passage.opened.step for passage in found.values()])
        return self.opened.get(place)

    def _cost(self, passage: RankedPassage, shown: OpenedPassage) -> int:
        """Count the tokens that a passage takes with its mark, beside what is chosen already."""
        cost = shown.tokens if passage[:2] in self.labelled else shown.labelled_tokens
        cost += 0 if shown.opened.header in self.headers else shown.opened.header_tokens
        return cost if passage.newer is None else cost + self.counter.count(format_mark(passage.newer))

    def _choose(self, rank: int, passage: RankedPassage, opened: OpenedPassage) -> bool:
        """Choose a passage as far as it holds, and return True, if it is new and there is room."""
        self.passed.add(rank)
        if not self.repetitions.take(opened.said):
            self.is_repeated = True
            return False
        shown = self._current(passage, opened)
        cost = self._cost(passage, shown) if shown else 0
        if shown is None or cost > self.room:
            return False
        self.chosen[passage[:4]] = _Chosen(rank, passage, shown, cost)
        self.headers.add(shown.opened.header)
        self.labelled.add(passage[:2])
        self.room -= cost
        return True

    def _current(self, passage: RankedPassage, opened: OpenedPassage) -> OpenedPassage | None:
        """Return a passage without its lines that are gone; None where all are, and what took them may be shown."""
        change = self._change(passage, opened)
        if change.is_all and (change.step in self.hidden or self.newest(change.step)):
            return None
        return opened.opened.passage(*passage[1:4], change.spans) if change.spans else opened

    def _change(self, passage: RankedPassage, opened: OpenedPassage) -> PassageChange:
        """Return what changed since of what a passage shows."""
        if self.changes is None:
            return NOTHING
        return self.changes.since(opened.opened.step, opened.opened.parts, *passage[1:4])

    def united(self) -> list[_Chosen]:
        """Return what is chosen in its order, slices that adjoin in the same part as one."""
        found: list[_Chosen] = []
        in_time = sorted(self.chosen.values(), key=lambda item: (item.shown.opened.step.timestamp, *item.passage[:4]))
        for chosen in in_time:
            before = found[-1].passage if found else None
            if before is not None and (*before[:2], before.end) == chosen.passage[:3]:
                chosen = _unite(found.pop(), chosen)
            found.append(chosen)
        return _by_rank(found) if self.order == "relevance" else found

    def render(self, key: bytes, numbered: bool) -> tuple[str, int]:
        """Return the block of what is chosen, and its tokens."""
        named = {chosen.passage.newer for chosen in self.chosen.values()}
        lines = []
        for chosen in self.united():
            passage, shown = chosen.passage, chosen.shown
            is_numbered = numbered or passage.number in named
            text = shown.opened.line(*passage[1:4], is_numbered, shown.gone)
            lines.append((shown.opened.header, text + format_mark(passage.newer)))
        text = block(lines, key)
        return text, self.counter.count(text)

    def excerpt(self, chosen: _Chosen) -> Excerpt:
        """Return a passage as an excerpt."""
        passage, shown = chosen.passage, chosen.shown
        return Excerpt(
            step=shown.opened.step,
            part=passage.part,
            start=passage.start,
            end=passage.end,
            text=shown.said.text,
            tokens=chosen.tokens,
            score=passage.score,
            relevance=passage.relevance,
            shares=passage.why,
            newer=passage.newer,
            gone=shown.gone,
            line=shown.opened.line(*passage[1:4], False, shown.gone),
        )

    def overflow(self) -> Overflow:
        """Return what bears on the question and had no room; nothing where as many came back as were wanted."""
        left = [
            passage
            for rank, passage in enumerate(self.ranked)
            if passage.is_relevant and passage.relevance >= BEARS and rank not in self.passed
            if not self._is_shown(passage)
        ]
        if not left or len(self.chosen) >= self.most:
            return ALL_FITS
        length = sum(passage.end - passage.start for passage in left)
        return Overflow(len(left), length // CHARACTERS, max(passage.relevance for passage in left))

    def next_best(self, most: int) -> tuple[Excerpt, ...]:
        """Return the best passages that were not chosen, as excerpts."""
        chosen = {item.rank for item in self.chosen.values()}
        others = ((rank, self._open(rank)) for rank in range(len(self.ranked)) if rank not in chosen)
        found = ((rank, opened) for rank, opened in others if opened is not None)
        return tuple(self._unchosen(rank, opened) for rank, opened in islice(found, min(most, sys.maxsize)))

    def _unchosen(self, rank: int, opened: OpenedPassage) -> Excerpt:
        passage = self.ranked[rank]
        shown = opened.opened.passage(*passage[1:4], self._change(passage, opened).spans)
        return self.excerpt(_Chosen(rank, passage, shown, opened.labelled_tokens + opened.opened.header_tokens))


def _by_rank(chosen: Iterable[_Chosen]) -> list[_Chosen]:
    """Sort by rank, what is of the same day behind the best of it, so that headers cost what they do in time."""
    days: dict[str, list[_Chosen]] = {}
    for item in sorted(chosen, key=attrgetter("rank")):
        days.setdefault(item.shown.opened.header, []).append(item)
    return [*chain.from_iterable(days.values())]


def _unite(before: _Chosen, after: _Chosen) -> _Chosen:
    """Return two passages that adjoin as one, with the better score; what stands before all of it stands there once."""
    first, last = before.passage, after.passage
    best = max(first, last, key=lambda passage: passage.score)
    passage = best._replace(start=first.start, end=last.end, newer=first.newer or last.newer)
    gone = (*before.shown.gone, *(span for span in after.shown.gone if span[0] < span[1]))
    shown = before.shown.opened.passage(*passage[1:4], gone)
    return _Chosen(min(before.rank, after.rank), passage, shown, before.tokens + after.tokens)


def pack(
    ranked: Sequence[RankedPassage],
    steps: OpenedSteps,
    budget: int,
    key: bytes,
    limits: Limits,
    every: Every | None = None,
    changes: Changes | None = None,
    newest: Newest = lambda number: (),
) -> tuple[Recall, tuple[Excerpt, ...]]:
    """Pack the best of `ranked` (best first) into one block of at most `budget` tokens, without repetitions.

    Args:
        ranked: Passages, best first.
        steps: Opens the steps of passages.
        budget: The most tokens of the block.
        key: The memory's key, for the fence.
        limits: Limits of what comes back.
        every: Ranks all candidates, `ranked` first: what repetitions leave of the budget goes to those behind.
        changes: What changed since of what passages show; nothing unless given.
        newest: Finds the passages of a step that may be shown, as of one that took all of another away.

    Returns:
        The block with its excerpts, and the best of the passages that were not chosen.
    """
    packer = _Packer(ranked, steps, limits, every, changes, newest)
    packer.fill(budget - FENCE)
    text, tokens = packer.render(key, limits.ids)
    for _ in range(ROUNDS):
        if tokens > budget or not packer.fill(budget - tokens):
            break
        text, tokens = packer.render(key, limits.ids)
    while tokens > budget:
        del packer.chosen[min(packer.chosen, key=lambda place: packer.chosen[place].passage.score)]
        text, tokens = packer.render(key, limits.ids)
    recalled = Recall(text, tokens, tuple(map(packer.excerpt, packer.united())), overflow=packer.overflow())
    return recalled, packer.next_best(limits.next_best)
