"""Packing of the best passages into a token budget: whole lines, shared headers, adjoining slices united.

Greedy in order of score: a passage that does not fit is passed over, and a smaller one may fill the gap. The budget is
checked on the text as it is sent, so it holds exactly.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, islice
from typing import NamedTuple, TypeAlias

from tinymem.protocols import TokenCounter
from tinymem.recall.diversity import DIVERSITY, SHORT, Repetitions, Utterance
from tinymem.recall.files.changes import NOTHING, Change, Changes
from tinymem.recall.files.tree import ComparedChanges
from tinymem.recall.opened import Fetch, Gone, Opened, OpenedSteps
from tinymem.recall.render import block, format_mark, header, line, speaker_key, without_gone
from tinymem.recall.results import Excerpt, FeatureShares, LeftOut, Recall

__all__ = [
    "BELOW", "ENOUGH", "REPEATS", "TOO_LONG", "UNRELATED", "Limits", "RankedPassage", "block_of",
    "in_order_of_time", "pack",
]  # fmt: skip

FETCHED = 24  # steps that are read from the journal at once
MISSES = 24  # passages in a row that did not fit, after which the budget counts as full
SMALLEST = 8  # tokens that no passage gets by with
FENCE = 28  # tokens of the fence, about: the exact number is counted later
DENSEST = 16  # characters that a token has at most, about: longer passages are passed over without counting
ROUNDS = 3  # times that tokens are filled which the estimates left over
REPEATS, TOO_LONG, BELOW = "repeats a better one", "does not fit", "ranked below"  # why a passage is left out,
UNRELATED, ENOUGH, CHANGED = "too little to do with it", "enough came back", "changed since"


Place: TypeAlias = tuple[int, int, int, int]  # of a passage: number of its step, part, start, end
Every = Callable[..., "Sequence[RankedPassage]"]
Newest = Callable[[int], Sequence[tuple[int, int, int]]]  # the places of the passages of a step that may come back


@dataclass(frozen=True)
class Limits:
    """Limits of what comes back.

    Attributes:
        diversity: The share of its wording in which a passage must differ from those before it.
        min_relevance: The least relevance of a passage; None for what is worth its tokens.
        k: The most passages; None does not limit.
        ids: Every excerpt begins with the number of its step.
        left_out: The number of passages to name that were not chosen.
        shown: Excerpts that stand in front of the model already; what lies in one does not come back.
        as_of: The moment whose knowledge counts: what a later step changed has no mark.
    """

    diversity: float = DIVERSITY
    min_relevance: float | None = None
    k: int | None = None
    ids: bool = False
    left_out: int = 0
    shown: Sequence[Excerpt] = ()
    as_of: datetime | None = None


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
    as_of: int | None = None  # its own number, where something may have changed its file since, nobody knows how


@dataclass(frozen=True)
class _Chosen:
    place: int  # in the ranking
    at: RankedPassage
    opened: Opened
    said: Utterance
    tokens: int
    gone: Gone = ()


@dataclass
class _Packer:
    ranked: Sequence[RankedPassage]
    fetch: Fetch
    counter: TokenCounter
    known: OpenedSteps
    most: int
    diversity: float
    every: Every
    asked: str
    shown: Sequence[Excerpt]
    changes: Changes | ComparedChanges | None
    newest: Newest
    chosen: list[_Chosen] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    outdated: set[int] = field(default_factory=set)
    current: set[tuple[int, int, int, int]] = field(default_factory=set)
    steps: dict[int, Opened] = field(default_factory=dict)
    is_all: bool = False

    def __post_init__(self) -> None:
        self.repetitions = Repetitions(self.diversity, self.asked)
        self.spans: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for one in self.shown:
            self.repetitions.take(Utterance.of(one.text, speaker_key(one.step, one.step.parts()[one.part])))
            self.spans[one.step.step_number or 0, one.part].append((one.start, one.end))

    def _is_shown(self, at: RankedPassage) -> bool:
        """Return whether a passage lies in an excerpt that stands in front of the model already."""
        spans = self.spans.get((at.number, at.part), ())
        return any(start <= at.start and at.end <= end for start, end in spans)

    def _read_short(self) -> list[Utterance]:
        """Return the short ones of all candidates."""
        short = self.every(below=SHORT)
        self.steps |= self.known.of({at.number for at in short} - self.steps.keys(), self.fetch)
        return [self.steps[at.number].said(at.part, at.start, at.end) for at in short if at.number in self.steps]

    def fill(self, left: int) -> bool:
        """Choose passages that fit `left` tokens, best first, and return True if the block is another one now."""
        misses, before = 0, (len(self.chosen), self.repetitions.sayings)
        headers = {c.opened.header for c in self.chosen}
        labelled = {(c.at.number, c.at.part) for c in self.chosen}
        for i in count():
            if left < SMALLEST or misses >= MISSES or len(self.chosen) >= self.most or (at := self._at(i)) is None:
                break
            if i in self.taken or not at.is_relevant or at[:4] in self.current:
                continue
            if self._is_shown(at):
                self.taken.add(i)
                continue
            if at.end - at.start > DENSEST * left:
                misses += 1
                continue
            if (opened := self._open(i)) is None:
                continue
            said = opened.said(at.part, at.start, at.end)
            cost = self._cost(at, headers, labelled)
            if cost + self._mark_cost(at, said) > left:
                misses += 1
                continue
            self.taken.add(i)
            was_counted = self.repetitions.sayings
            is_new = self.repetitions.take(said, self._read_short)
            if self.repetitions.sayings is not was_counted:  # what was chosen before gets its mark
                left -= sum(self._mark_cost(c.at, c.said) for c in self.chosen)
            if not is_new:
                self.repeated.add(i)
                continue
            current, gone = self._current(at)
            if gone or current is not at:
                if current is None or (cost := self._cost(current, headers, labelled, gone)) > left:
                    self.repetitions.give_back(said)
                    self.outdated |= {i} if current is None else set()
                    continue
                at, opened = current, self.steps[current.number]
                said = opened.said(at.part, at.start, at.end, gone)
                self.current.add(at[:4])
            self.chosen.append(_Chosen(i, at, opened, said, cost, gone))
            headers.add(opened.header)
            labelled.add((at.number, at.part))
            left, misses = left - cost - self._mark_cost(at, said), 0
        return (len(self.chosen), self.repetitions.sayings) != before

    def _at(self, i: int) -> RankedPassage | None:
        """Return the i-th passage, None behind the last; what repetitions leave goes to those behind the `ranked`."""
        if i == len(self.ranked) and self.repetitions.sayings and not self.is_all:
            self.ranked, self.is_all = [*self.ranked, *self.every()[i:]], True
        return self.ranked[i] if i < len(self.ranked) else None

    def _mark(self, at: RankedPassage, said: Utterance) -> str:
        """Return what stands behind a passage, as far as that is known."""
        if at.newer is None and at.as_of is None and (not said.words or self.repetitions.sayings is None):
            return ""
        return format_mark(*self.repetitions.times(said), at.newer, at.as_of)

    def _mark_cost(self, at: RankedPassage, said: Utterance) -> int:
        return self.counter.count(mark) if (mark := self._mark(at, said)) else 0

    def _open(self, i: int) -> Opened | None:
        """Return the step of the i-th passage; those of the next ones are fetched with it."""
        number = self.ranked[i].number
        if number not in self.steps:
            numbers = {r.number for r in self.ranked[i : i + FETCHED]} - self.steps.keys()
            opened = self.known.of(numbers, self.fetch)
            self.steps |= opened
            if self.changes is not None:
                self.changes.expect(one.step for one in opened.values())
        return self.steps.get(number)

    def _cost(
        self, at: RankedPassage, headers: Container[str], labelled: Container[tuple[int, int]], gone: Gone = ()
    ) -> int:
        """Count the tokens that a passage takes, beside what is chosen already."""
        opened = self.steps[at.number]
        cost = opened.cost(at.part, at.start, at.end, (at.number, at.part) not in labelled, gone)
        return cost + (opened.header_cost if opened.header not in headers else 0)

    def _current(self, at: RankedPassage) -> tuple[RankedPassage | None, Gone]:
        """Return a passage with its lines that are gone; where all are, the one that took its place, or None."""
        if self.changes is None:
            return at, ()
        for _ in range(ROUNDS):
            change = self._change(at)
            if not change.is_all:
                return at._replace(as_of=at.number) if change.is_unsure else at, change.spans
            self.steps |= self.known.of([change.step], self.fetch)
            if (newer := self._alike(at, change.step)) is None or self._is_shown(newer):
                return None, ()
            at = newer
        return None, ()

    def _change(self, at: RankedPassage) -> Change:
        """Return what changed since of what a passage shows."""
        opened = self.steps[at.number]
        if self.changes is None:
            return NOTHING
        return self.changes.since(opened.step, opened.parts, at.part, at.start, at.end)

    def _alike(self, at: RankedPassage, number: int) -> RankedPassage | None:
        """Return the passage of a step that shares most words with another one; None if there is none to choose."""
        places = [place for place in self.newest(number) if (number, *place) not in {c.at[:4] for c in self.chosen}]
        if number not in self.steps or not places:
            return None
        words = {*self.steps[at.number].said(at.part, at.start, at.end).text.split()}
        said = self.steps[number].said
        part, start, end = max(places, key=lambda place: len(words.intersection(said(*place).text.split())))
        return at._replace(number=number, part=part, start=start, end=end)

    def render(self, key: bytes, numbered: bool) -> tuple[str, int]:
        """Return the block of what is chosen, and its tokens."""
        lines = []
        named = {c.at.newer for c in self.chosen}
        for run in _unite(self.chosen):
            first, opened = run[0].at, run[0].opened
            shown = opened.line(first.part, first.start, run[-1].at.end, numbered or first.number in named, _gone(run))
            lines.append((opened.header, shown + format_mark(*self._times(run), first.newer, _as_of(run))))
        text = block(lines, key)
        return text, self.counter.count(text)

    def excerpt(self, run: Sequence[_Chosen]) -> Excerpt:
        """Return passages that adjoin as one excerpt."""
        best = max(run, key=lambda c: c.at.score).at
        first, last = run[0].at, run[-1].at
        times, varied = self._times(run)
        return Excerpt(
            step=run[0].opened.step,
            part=first.part,
            start=first.start,
            end=last.end,
            text=without_gone(run[0].opened.parts[first.part].text, first.start, last.end, _gone(run)),
            tokens=sum(c.tokens for c in run) + self._mark_cost(first, run[0].said),
            score=best.score,
            relevance=best.relevance,
            why=FeatureShares(best.why),
            times=times,
            varied=varied,
            newer=first.newer,
            gone=_gone(run),
            as_of=_as_of(run),
        )

    def _times(self, run: Sequence[_Chosen]) -> tuple[int, bool]:
        return self.repetitions.times(run[0].said) if len(run) == 1 else (1, False)

    def left_out(self) -> Iterator[LeftOut]:
        """Yield the passages that were not chosen, best first, with the reasons."""
        chosen = {c.place for c in self.chosen}
        last = max(chosen, default=len(self.ranked))
        for i, at in enumerate(self.ranked):
            if i in chosen or (opened := self._open(i)) is None:
                continue
            said = opened.said(at.part, at.start, at.end)
            tokens = opened.cost(at.part, at.start, at.end, labelled=True) + opened.header_cost
            gone = self._change(at).spans
            shown = opened.said(at.part, at.start, at.end, gone)
            excerpt = self.excerpt([_Chosen(i, at, opened, shown, tokens, gone)])
            better = self._find_better(said) if i in self.repeated else None
            yield LeftOut(excerpt, i + 1, self._reason(i, last), better)

    def _find_better(self, said: Utterance) -> int | None:
        """Return the number of the step whose chosen passage a text repeats."""
        return next((c.at.number for c in self.chosen if self.repetitions.is_repeated(said, c.said)), None)

    def _reason(self, i: int, last: int) -> str:
        if i in self.repeated:
            return REPEATS
        if i in self.outdated:
            return CHANGED
        if not self.ranked[i].is_relevant:
            return UNRELATED
        if i > last and len(self.chosen) >= self.most:
            return ENOUGH
        return TOO_LONG if i < last else BELOW


def pack(
    ranked: Sequence[RankedPassage],
    fetch: Fetch,
    counter: TokenCounter,
    budget: int,
    key: bytes,
    limits: Limits = Limits(),
    opened: OpenedSteps | None = None,
    every: Every | None = None,
    asked: str = "",
    changes: Changes | ComparedChanges | None = None,
    newest: Newest = lambda number: (),
) -> tuple[Recall, tuple[LeftOut, ...]]:
    """Pack the best of `ranked` (best first) into one block of at most `budget` tokens, without repetitions.

    Args:
        ranked: Passages, best first.
        fetch: Reads steps by their numbers.
        counter: Counts the tokens of the block.
        budget: The most tokens of the block.
        key: The memory's key, for the fence.
        limits: Limits of what comes back.
        opened: Steps that were opened before, and none that was forgotten since.
        every: Ranks all candidates, `ranked` first, or those of fewer characters than `below`. It is asked once
            something short came up again: how often that was said, and what comes behind it.
        asked: The question: what differs in a number of it is no repetition.
        changes: What changed since in the files that passages show; nothing unless given.
        newest: Finds what may take the place of a passage of which nothing stands any more.

    Returns:
        The block with its excerpts, and the best of the passages that were not chosen, with the reasons.
    """
    most = len(ranked) if limits.k is None else limits.k
    every = every or (lambda below=sys.maxsize: [at for at in ranked if at.end - at.start < below])
    packer = _Packer(
        ranked, fetch, counter, opened or OpenedSteps(counter), most, limits.diversity, every, asked, limits.shown,
        changes, newest,
    )  # fmt: skip
    packer.fill(budget - FENCE)
    for more in range(ROUNDS, -1, -1):
        text, tokens = packer.render(key, limits.ids)
        while tokens > budget:
            packer.chosen.remove(min(packer.chosen, key=lambda c: c.at.score))
            text, tokens = packer.render(key, limits.ids)
            more = 0
        if not more or not packer.fill(budget - tokens):
            break
    recalled = Recall(text, tokens, tuple(packer.excerpt(run) for run in _unite(packer.chosen)))
    return recalled, tuple(islice(packer.left_out(), min(limits.left_out, sys.maxsize)))


def in_order_of_time(items: Iterable[Excerpt]) -> list[Excerpt]:
    """Return excerpts in the order in which a block has them."""
    return sorted(items, key=lambda one: (one.step.timestamp, one.step.step_number or 0, one.part, one.start))


def block_of(items: Iterable[Excerpt], key: bytes) -> str:
    """Return the block of these excerpts again, as it stood in a prompt."""
    items, lines = [*items], []
    named = {one.newer for one in items}
    for one in items:
        is_named = one.step.step_number in named or bool(one.corrects)
        shown = line(one.step, one.step.parts()[one.part], one.start, one.end, is_named, one.gone)
        lines.append((header(one.step), shown + one.mark))
    return block(lines, key)


def _gone(run: Sequence[_Chosen]) -> Gone:
    """Return the lines that are gone of passages that adjoin; what stands before all of them once."""
    before = run[0].gone[:1]
    return tuple(span for c in run for span in c.gone if span[0] < span[1] or (span,) == before)


def _as_of(run: Sequence[_Chosen]) -> int | None:
    """Return the step as of which passages that adjoin are known."""
    return next((c.at.as_of for c in run if c.at.as_of is not None), None)


def _unite(chosen: Sequence[_Chosen]) -> list[list[_Chosen]]:
    """Group the passages in order of time, slices that adjoin in the same part together."""
    runs: list[list[_Chosen]] = []
    for c in sorted(chosen, key=lambda c: (c.opened.step.timestamp, c.at.number, c.at.part, c.at.start)):
        last = runs[-1][-1].at if runs else None
        if last and (last.number, last.part, last.end) == (c.at.number, c.at.part, c.at.start):
            runs[-1].append(c)
        else:
            runs.append([c])
    return runs
