"""Packing of the best passages into a token budget: whole lines, shared headers, adjoining slices united.

It chooses in order of score, renders, and drops the worst, what governs it first, until the block fits: a passage that
does not fit is passed over, and a smaller one may fill the gap. The budget is checked on the text as it is sent, so it
holds exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter

from tinymem.protocols import NOTHING, Changes, PassageChange
from tinymem.recall.relevance import BEARS
from tinymem.recall.render import block, format_mark, headers_of, speaker_key
from tinymem.recall.results import ALL_FITS, Excerpt, Overflow, Recall
from tinymem.recall.selection.diversity import Utterance
from tinymem.recall.selection.limits import Limits
from tinymem.recall.selection.opened import OpenedPassage, OpenedSteps, RankedPassage
from tinymem.recall.snapshot import PassagePlace
from tinymem.steps.checks import check_number

__all__ = ["FENCE", "Newest", "Repetitions", "pack"]

FETCHED = 12  # steps that are read from the journal at once
MISSES = 24  # passages in a row that did not fit, after which the budget counts as full
SMALLEST = 8  # tokens that no passage gets by with
FENCE = 28  # tokens of the fence, about: what the exact number leaves over is filled in three rounds more
MARK = 10  # tokens of what stands behind what is perhaps outdated, about
NAMED = 12  # tokens of the names of two sessions in their headers, about
CHARACTERS = 4  # that a token has, about
DENSEST = 16  # characters that a token has at most, about: longer passages are passed over without counting

Newest = Callable[[int], Sequence[PassagePlace]]  # the places of the passages of a step that may come back


class Repetitions:
    """A register of wordings that finds repetitions. With a `diversity` of 0 nothing is one, with 1 everything.

    Agents list the same folder and open the same file again and again; the tokens of a repetition are better spent. The
    wording counts, not the meaning: two lists that differ in their numbers are close in meaning, and both are needed.
    Wordings are compared as sets of shingles (Broder, On the resemblance and containment of documents, 1997): their
    resemblance is the Jaccard index, and a passage repeats another where it is 1 - `diversity` or more.
    """

    def __init__(self, diversity: float) -> None:
        self._least = 1 - check_number("diversity", diversity, 0, 1)
        self._taken: list[frozenset[int]] = []  # hashed shingles of each wording
        self._known: set[int] = set()  # of all

    def take(self, said: Utterance) -> bool:
        """Note what is `said`, unless it repeats something: False then."""
        if self._least == 1:
            return True
        shingles = said.shingles
        if len(shingles & self._known) >= self._least * len(shingles) and any(  # first what is quicker, and seldom so
            len(shingles & earlier) >= self._least * len(shingles | earlier) for earlier in self._taken
        ):
            return False
        self._taken.append(shingles)
        self._known |= shingles
        return True


@dataclass
class _Packer:
    """The passages that are chosen for a block."""

    ranked: Sequence[RankedPassage]
    steps: OpenedSteps
    limits: Limits
    changes: Changes | None
    newest: Newest

    def __post_init__(self) -> None:
        self.most = self.limits.k or len(self.ranked)
        self.repetitions = Repetitions(self.limits.diversity)
        self.chosen: list[RankedPassage] = []
        self.sessions: dict[str, set[str | None]] = {}  # of what is chosen, by header,
        self.labelled: set[tuple[object, ...]] = set()  # and its parts
        self.passed: set[int] = set()  # ranks that are not looked at again
        self.opened: dict[PassagePlace, OpenedPassage] = {}
        self.spans: dict[tuple[object, ...], list[tuple[int, int]]] = {}  # that the model sees, by step and part
        for item in self.limits.shown:
            self.repetitions.take(Utterance(item.text, speaker_key(item.step, item.step.parts()[item.part])))
            self.spans.setdefault((item.step.step_number or 0, item.part), []).append((item.start, item.end))

    def fill(self, room: int) -> bool:
        """Choose passages that fit `room` tokens, best first, and return True if the block is another one now."""
        self.room = room
        before = len(self.chosen)
        misses = 0
        for rank, passage in enumerate(self.ranked):
            if self.room < SMALLEST or misses >= MISSES or len(self.chosen) >= self.most:
                break
            if rank in self.passed or not passage.is_relevant:
                continue
            if self._is_shown(passage):
                self.passed.add(rank)
            elif passage.end - passage.start > DENSEST * self.room:
                misses += 1
            elif (opened := self._open(rank)) is not None:
                if self._cost(passage, opened) > self.room:
                    misses += 1
                elif self._choose(rank, passage, opened):
                    misses = 0
        return len(self.chosen) > before

    def _is_shown(self, passage: RankedPassage) -> bool:
        """Return whether a passage lies in an excerpt that stands in front of the model already."""
        spans = self.spans.get(passage[:2], ())
        return any(start <= passage.start and passage.end <= end for start, end in spans)

    def _open(self, rank: int) -> OpenedPassage | None:
        """Return the passage of a rank, opened with the next ones; None where its step is gone."""
        place = self.ranked[rank][:4]
        if place not in self.opened:
            found = self.steps.passages([passage[:4] for passage in self.ranked[rank : rank + FETCHED]])
            self.opened |= found
            if self.changes is not None:
                self.changes.expect([passage.opened.step for passage in found.values()])
        return self.opened.get(place)

    def _cost(self, passage: RankedPassage, shown: OpenedPassage) -> int:
        """Count the tokens that a passage takes with its mark, beside what is chosen already."""
        cost = shown.count(passage[:2] not in self.labelled)
        sessions = self.sessions.get(shown.opened.header, ())
        if shown.opened.step.session not in sessions:
            cost += shown.opened.header_tokens + (NAMED if sessions else 0)
        return cost + MARK * (passage.newer is not None)

    def _choose(self, rank: int, passage: RankedPassage, opened: OpenedPassage) -> bool:
        """Choose a passage without its lines that are gone, and return True, if it is new and there is room.

        It is left out where all its lines are gone, and what took them may be shown.
        """
        self.passed.add(rank)
        if not self.repetitions.take(opened.said):
            return False
        change = self._change(passage, opened)
        if change.is_all and (change.step in self.limits.hidden or self.newest(change.step)):
            return False
        shown = opened.without(change.spans) if change.spans else opened
        cost = self._cost(passage, shown)
        if cost > self.room:
            return False
        self.chosen.append(passage._replace(rank=rank, shown=shown, tokens=cost))
        self.sessions.setdefault(shown.opened.header, set()).add(shown.opened.step.session)
        self.labelled.add(passage[:2])
        self.room -= cost
        return True

    def _change(self, passage: RankedPassage, opened: OpenedPassage) -> PassageChange:
        """Return what changed since of what a passage shows."""
        if self.changes is None:
            return NOTHING
        return self.changes.since(opened.opened.step, opened.opened.parts, *passage[1:4])

    def united(self) -> list[RankedPassage]:
        """Return what is chosen in its order, slices that adjoin in the same part as one."""
        found: list[RankedPassage] = []
        for passage in sorted(self.chosen, key=lambda item: (item.shown.opened.step.timestamp, *item[:4])):
            if found and (*found[-1][:2], found[-1].end) == passage[:3]:
                passage = _unite(found.pop(), passage)
            found.append(passage)
        return _by_rank(found) if self.limits.order == "relevance" else found

    def render(self, key: bytes) -> tuple[str, int]:
        """Return the block of what is chosen, and its tokens."""
        named = {passage.newer for passage in self.chosen}
        united = self.united()
        headers = headers_of([(item.shown.opened.header, item.shown.opened.step.session) for item in united])
        shown = [_line(item, self.limits.ids or item.number in named) + format_mark(item.newer) for item in united]
        text = block(zip(headers, shown, strict=True), key)
        return text, self.steps.counter.count(text)

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
        tokens = sum(passage.end - passage.start for passage in left) // CHARACTERS
        return Overflow(len(left), tokens, max(passage.relevance for passage in left))

    def next_best(self, most: int) -> tuple[Excerpt, ...]:
        """Return the best passages that were not chosen, as excerpts."""
        chosen = {passage.rank for passage in self.chosen}
        others = (self._unchosen(rank) for rank in range(len(self.ranked)) if rank not in chosen)
        return tuple(islice(filter(None, others), min(most, sys.maxsize)))

    def _unchosen(self, rank: int) -> Excerpt | None:
        """Return the passage of a rank as an excerpt, as if nothing else was chosen; None where its step is gone."""
        passage, opened = self.ranked[rank], self._open(rank)
        if opened is None:
            return None
        shown, tokens = opened.without(self._change(passage, opened).spans), opened.count(True)
        return _excerpt(passage._replace(shown=shown, tokens=tokens + opened.opened.header_tokens))


def _by_rank(passages: Sequence[RankedPassage]) -> list[RankedPassage]:
    """Sort by rank, what is of the same day behind the best of it, so that headers cost what they do in time."""
    days: dict[str, list[RankedPassage]] = {}
    for passage in sorted(passages, key=attrgetter("rank")):
        days.setdefault(passage.shown.opened.header, []).append(passage)
    return [*chain.from_iterable(days.values())]


def _unite(first: RankedPassage, last: RankedPassage) -> RankedPassage:
    """Return two passages that adjoin as one, with the better score; what stands before all of it stands there once."""
    best = max(first, last, key=attrgetter("score"))
    gone = (*first.shown.changed, *(span for span in last.shown.changed if span[0] < span[1]))
    return best._replace(
        start=first.start,
        end=last.end,
        newer=first.newer or last.newer,
        rank=min(first.rank, last.rank),
        shown=first.shown.opened.passage(first.part, first.start, last.end, gone),
        tokens=first.tokens + last.tokens,
    )


def _excerpt(passage: RankedPassage) -> Excerpt:
    shown = passage.shown
    return Excerpt(
        shown.opened.step,
        *passage[1:4],
        shown.said.text,
        passage.tokens,
        passage.score,
        passage.relevance,
        passage.why(),
        passage.newer,
        shown.gone,
        line=_line(passage),
    )


def _line(passage: RankedPassage, is_numbered: bool = False) -> str:
    return passage.shown.line(is_numbered, is_governed=passage.is_governed)


def pack(
    ranked: Sequence[RankedPassage],
    steps: OpenedSteps,
    budget: int,
    key: bytes,
    limits: Limits,
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
        changes: What changed since of what passages show; nothing unless given.
        newest: Finds the passages of a step that may be shown, as of one that took all of another away.

    Returns:
        The block with its excerpts, and the best of the passages that were not chosen.
    """
    packer = _Packer(ranked, steps, limits, changes, newest)
    text, tokens = "", 0
    for fence in (FENCE, 0, 0, 0):
        if packer.fill(budget - (tokens or fence)):
            text, tokens = packer.render(key)
        elif not fence:
            break
    while tokens > budget:
        worst = min(packer.chosen, key=attrgetter("score"))
        packer.chosen.remove(worst)
        bare = worst._replace(is_governed=False)
        if _line(worst) != _line(bare):  # it goes without what governs it at first
            packer.chosen.append(bare)
        text, tokens = packer.render(key)
    recalled = Recall(text, tokens, tuple(map(_excerpt, packer.united())), overflow=packer.overflow())
    return recalled, packer.next_best(limits.next_best)
