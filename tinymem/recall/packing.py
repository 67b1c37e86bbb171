"""Packing of the best passages into a token budget: whole lines, shared headers, adjoining slices united.

Greedy in order of score: a passage that does not fit is passed over, and a smaller one may fill the gap. The budget is
checked on the text as it is sent, so it holds exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from tinymem.protocols import TokenCounter
from tinymem.recall.diversity import DIVERSITY, Repetitions
from tinymem.recall.render import block, header, label, line
from tinymem.recall.results import Excerpt, LeftOut, Recall
from tinymem.steps.content import clean
from tinymem.steps.step import Part, Step

__all__ = ["BELOW", "ENOUGH", "REPEATS", "TOO_LONG", "UNRELATED", "OpenedSteps", "Ranked", "pack"]

FETCHED = 24  # steps that are read from the journal at once
MISSES = 24  # passages in a row that did not fit, after which the budget counts as full
SMALLEST = 8  # tokens that no passage gets by with
FENCE = 28  # tokens of the fence, about: the exact number is counted later
REMEMBERED = 500_000  # characters of steps that are held from one recall to the next
LONG = 50_000  # characters of a step that is not held
DENSEST = 16  # characters that a token has at most, about: longer passages are passed over without counting
ROUNDS = 3  # times that tokens are filled which the estimates left over
REPEATS, TOO_LONG, BELOW = "repeats a better one", "does not fit", "ranked below"  # why a passage is left out,
UNRELATED, ENOUGH = "too little to do with it", "enough came back"

Fetch = Callable[[Sequence[int]], Mapping[int, Step]]


class Ranked(NamedTuple):
    """A passage on its way into the prompt: its place, its score, the reasons, its relevance, and if that is enough."""

    number: int
    part: int
    start: int
    end: int
    score: float
    why: Callable[[], Mapping[str, float]]
    relevance: float = 0.0
    is_relevant: bool = True


class Opened:
    """A step, with its parts, header and lines at hand."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.parts: tuple[Part, ...] = step.parts()
        self.length = sum(len(part.text) for part in self.parts)
        self._lines: dict[tuple[int, int, int, bool], str] = {}

    @cached_property
    def header(self) -> str:
        """The header over its excerpts."""
        return header(self.step)

    def line(self, part: int, start: int, end: int, numbered: bool = False) -> str:
        """Return the excerpt as it stands in the block, made once."""
        at = (part, start, end, numbered)
        if at not in self._lines:
            self._lines[at] = line(self.step, self.parts[part], start, end, numbered)
        return self._lines[at]


class OpenedSteps:
    """Steps that were opened, kept for the next recall, which opens many of them again: some REMEMBERED characters."""

    def __init__(self) -> None:
        self._held: dict[int, Opened] = {}
        self._length = 0

    def clear(self) -> None:
        """Keep nothing, since steps were forgotten."""
        self._held, self._length = {}, 0

    def of(self, numbers: Iterable[int], fetch: Fetch) -> dict[int, Opened]:
        """Return these steps; those that are not held are fetched. Steps that are gone are left out."""
        numbers, held = [*numbers], self._held
        if missing := sorted(number for number in numbers if number not in held):
            if self._length > REMEMBERED:
                self.clear()
            fetched = {number: Opened(step) for number, step in fetch(missing).items()}
            short = {number: opened for number, opened in fetched.items() if opened.length < LONG}
            self._length += sum(opened.length for opened in short.values())
            self._held |= short
            held = {**held, **fetched}
        return {number: held[number] for number in numbers if number in held}


@dataclass(frozen=True)
class _Chosen:
    place: int  # in the ranking
    at: Ranked
    opened: Opened
    text: str
    tokens: int


@dataclass
class _Packer:
    ranked: Sequence[Ranked]
    fetch: Fetch
    counter: TokenCounter
    repetitions: Repetitions
    known: OpenedSteps
    most: int
    chosen: list[_Chosen] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    steps: dict[int, Opened] = field(default_factory=dict)

    def fill(self, left: int) -> int:
        """Choose passages that fit `left` tokens, best first, and return their number."""
        misses, before = 0, len(self.chosen)
        headers = {c.opened.header for c in self.chosen}
        labelled = {(c.at.number, c.at.part) for c in self.chosen}
        for i, at in enumerate(self.ranked):
            if left < SMALLEST or misses >= MISSES or len(self.chosen) >= self.most:
                break
            if i in self.taken or not at.is_relevant:
                continue
            if at.end - at.start > DENSEST * left:
                misses += 1
                continue
            if (opened := self._open(i)) is None:
                continue
            text = clean(opened.parts[at.part].text[at.start : at.end])
            labels, dates = (at.number, at.part) not in labelled, opened.header not in headers
            cost = self._cost(opened, at.part, text, labels, dates)
            if cost > left:
                misses += 1
                continue
            self.taken.add(i)
            if not self.repetitions.take(text, _by(opened, at)):
                self.repeated.add(i)
                continue
            self.chosen.append(_Chosen(i, at, opened, text, cost))
            headers.add(opened.header)
            labelled.add((at.number, at.part))
            left, misses = left - cost, 0
        return len(self.chosen) - before

    def _cost(self, opened: Opened, part: int, text: str, labels: bool, dates: bool) -> int:
        """Count the tokens of a passage, with its label and header if they are new."""
        prefix = label(opened.step, opened.parts[part], whole=False) if labels else ""
        cost = self.counter.count(f"{prefix}{text}\n")
        return cost + self.counter.count(f"{opened.header}\n") if dates else cost

    def _open(self, i: int) -> Opened | None:
        """Return the step of the i-th passage; those of the next ones are fetched with it."""
        number = self.ranked[i].number
        if number not in self.steps:
            numbers = {r.number for r in self.ranked[i : i + FETCHED]} - self.steps.keys()
            self.steps |= self.known.of(numbers, self.fetch)
        return self.steps.get(number)

    def left_out(self) -> Iterator[LeftOut]:
        """Yield the passages that were not chosen, best first, with the reasons."""
        chosen = {c.place for c in self.chosen}
        last = max(chosen, default=len(self.ranked))
        for i, at in enumerate(self.ranked):
            if i in chosen or (opened := self._open(i)) is None:
                continue
            text = clean(opened.parts[at.part].text[at.start : at.end])
            tokens = self._cost(opened, at.part, text, labels=True, dates=True)
            excerpt = _excerpt([_Chosen(i, at, opened, text, tokens)])
            better = self._better(text, _by(opened, at)) if i in self.repeated else None
            yield LeftOut(excerpt, i + 1, self._reason(i, last), better)

    def _better(self, text: str, by: str) -> int | None:
        """Return the number of the step whose chosen passage a text repeats."""
        for c in self.chosen:
            alone = Repetitions(self.repetitions.diversity)
            if alone.take(c.text, _by(c.opened, c.at)) and not alone.take(text, by):
                return c.at.number
        return None

    def _reason(self, i: int, last: int) -> str:
        if i in self.repeated:
            return REPEATS
        if not self.ranked[i].is_relevant:
            return UNRELATED
        if i > last and len(self.chosen) >= self.most:
            return ENOUGH
        return TOO_LONG if i < last else BELOW


def _by(opened: Opened, at: Ranked) -> str:
    """Return who said a passage, and as what: the same words of somebody else are no repetition."""
    return f"{opened.step.speaker} {opened.parts[at.part].kind}"


def pack(
    ranked: Sequence[Ranked],
    fetch: Fetch,
    counter: TokenCounter,
    budget: int,
    key: bytes,
    diversity: float = DIVERSITY,
    left_out: int = 0,
    known: OpenedSteps | None = None,
    numbered: bool = False,
    most: int | None = None,
) -> tuple[Recall, tuple[LeftOut, ...]]:
    """Pack the best of `ranked` (best first) into one block of at most `budget` tokens, without repetitions.

    Args:
        ranked: Passages, best first.
        fetch: Reads steps by their numbers.
        counter: Counts the tokens of the block.
        budget: The most tokens of the block.
        key: The memory's key, for the fence.
        diversity: The share of its wording in which a passage must differ from those before it.
        left_out: The number of passages to return that were not chosen.
        known: Steps that were opened before, and none that was forgotten since.
        numbered: Every excerpt begins with the number of its step.
        most: The most passages of the block; None does not limit.

    Returns:
        The block with its excerpts, and the best of the passages that were not chosen, with the reasons.
    """
    most = len(ranked) if most is None else most
    packer = _Packer(ranked, fetch, counter, Repetitions(diversity), known or OpenedSteps(), most)
    packer.fill(budget - FENCE)
    for more in range(ROUNDS, -1, -1):
        text, tokens = _rendered(packer.chosen, counter, key, numbered)
        while tokens > budget:
            packer.chosen.remove(min(packer.chosen, key=lambda c: c.at.score))
            text, tokens = _rendered(packer.chosen, counter, key, numbered)
            more = 0
        if not more or not packer.fill(budget - tokens):
            break
    recalled = Recall(text, tokens, tuple(_excerpt(run) for run in _united(packer.chosen)))
    return recalled, tuple(islice(packer.left_out(), min(left_out, sys.maxsize)))


def _rendered(chosen: Sequence[_Chosen], counter: TokenCounter, key: bytes, numbered: bool) -> tuple[str, int]:
    places = [(run[0].opened, run[0].at, run[-1].at.end) for run in _united(chosen)]
    lines = [(opened.header, opened.line(at.part, at.start, end, numbered)) for opened, at, end in places]
    text = block(lines, key)
    return text, counter.count(text)


def _united(chosen: Sequence[_Chosen]) -> list[list[_Chosen]]:
    """Group the passages in order of time, slices that adjoin in the same part together."""
    runs: list[list[_Chosen]] = []
    for c in sorted(chosen, key=lambda c: (c.at.number, c.at.part, c.at.start)):
        last = runs[-1][-1].at if runs else None
        if last and (last.number, last.part, last.end) == (c.at.number, c.at.part, c.at.start):
            runs[-1].append(c)
        else:
            runs.append([c])
    return runs


def _excerpt(run: Sequence[_Chosen]) -> Excerpt:
    best = max(run, key=lambda c: c.at.score).at
    first, last = run[0].at, run[-1].at
    return Excerpt(
        step=run[0].opened.step,
        part=first.part,
        start=first.start,
        end=last.end,
        text="".join(c.text for c in run),
        tokens=sum(c.tokens for c in run),
        score=best.score,
        relevance=best.relevance,
        why=best.why(),
    )
