"""Filling a token budget with the best passages: whole lines, shared headers, adjoining slices united.

Greedy in order of score: a passage that does not fit is passed over, and a smaller one may fill the gap. The budget is
checked on the text as it is sent, so it holds exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tinymem.base import Part, Step
from tinymem.content import clean
from tinymem.protocols import TokenCounter
from tinymem.recall.render import block, header, label
from tinymem.recall.results import Excerpt, Recall

__all__ = ["Ranked", "pack"]

FETCHED = 24  # steps that are read from the journal at once
MISSES = 24  # passages in a row that did not fit, after which the budget counts as full
SMALLEST = 8  # tokens that no passage gets by with
FENCE = 28  # tokens of the fence, about: what it really takes is measured
DENSEST = 16  # characters that a token has at most, about: longer passages are passed over without counting
ROUNDS = 3  # times that what the estimates left over is filled

Fetch = Callable[[Sequence[int]], Mapping[int, Step]]


@dataclass(frozen=True)
class Ranked:
    """A passage on its way into the prompt: where it is, its score, and why."""

    number: int
    part: int
    start: int
    end: int
    score: float
    why: Callable[[], Mapping[str, float]]


@dataclass(frozen=True)
class _Chosen:
    at: Ranked
    step: Step
    text: str
    tokens: int


@dataclass
class _Packer:
    ranked: Sequence[Ranked]
    fetch: Fetch
    counter: TokenCounter
    chosen: list[_Chosen] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    steps: dict[int, tuple[Step, tuple[Part, ...]]] = field(default_factory=dict)

    def fill(self, left: int) -> int:
        """Choose what fits `left` tokens, best first; how many passages."""
        misses, before = 0, len(self.chosen)
        headers = {header(c.step) for c in self.chosen}
        labelled = {(c.at.number, c.at.part) for c in self.chosen}
        for i, at in enumerate(self.ranked):
            if left < SMALLEST or misses >= MISSES:
                break
            if i in self.taken or (found := self._step(i)) is None:
                continue
            step, parts = found
            text = clean(parts[at.part].text[at.start : at.end])
            prefix = "" if (at.number, at.part) in labelled else label(step, parts[at.part], whole=False)
            dated = header(step)
            if len(text) > DENSEST * left:
                misses += 1
                continue
            cost = self.counter.count(f"{prefix}{text}\n") + (
                0 if dated in headers else self.counter.count(f"{dated}\n")
            )
            if cost > left:
                misses += 1
                continue
            self.chosen.append(_Chosen(at, step, text, cost))
            self.taken.add(i)
            headers.add(dated)
            labelled.add((at.number, at.part))
            left, misses = left - cost, 0
        return len(self.chosen) - before

    def _step(self, i: int) -> tuple[Step, tuple[Part, ...]] | None:
        """The step of the i-th passage; those of the next ones are fetched with it."""
        number = self.ranked[i].number
        if number not in self.steps:
            numbers = {r.number for r in self.ranked[i : i + FETCHED]} - self.steps.keys()
            self.steps.update({n: (step, step.parts()) for n, step in self.fetch(sorted(numbers)).items()})
        return self.steps.get(number)

    def drop_worst(self) -> None:
        """Take the passage with the lowest score out again."""
        self.chosen.remove(min(self.chosen, key=lambda c: c.at.score))


def pack(ranked: Sequence[Ranked], fetch: Fetch, counter: TokenCounter, budget: int, key: bytes) -> Recall:
    """The best of `ranked` (best first) that fit `budget` tokens, as one block."""
    packer = _Packer(ranked, fetch, counter)
    packer.fill(budget - FENCE)
    for more in range(ROUNDS, -1, -1):
        text, tokens, items = _rendered(packer.chosen, counter, key)
        while tokens > budget:
            packer.drop_worst()
            text, tokens, items = _rendered(packer.chosen, counter, key)
            more = 0
        if not more or not packer.fill(budget - tokens):
            break
    return Recall(text, tokens, items)


def _rendered(chosen: Sequence[_Chosen], counter: TokenCounter, key: bytes) -> tuple[str, int, tuple[Excerpt, ...]]:
    items = tuple(_united(chosen))
    text = block(items, key)
    return text, counter.count(text), items


def _united(chosen: Sequence[_Chosen]) -> list[Excerpt]:
    """In order of time, slices that adjoin in the same part as one excerpt."""
    runs: list[list[_Chosen]] = []
    for c in sorted(chosen, key=lambda c: (c.at.number, c.at.part, c.at.start)):
        last = runs[-1][-1].at if runs else None
        if last and (last.number, last.part, last.end) == (c.at.number, c.at.part, c.at.start):
            runs[-1].append(c)
        else:
            runs.append([c])
    return [_excerpt(run) for run in runs]


def _excerpt(run: Sequence[_Chosen]) -> Excerpt:
    best = max(run, key=lambda c: c.at.score).at
    first, last = run[0].at, run[-1].at
    return Excerpt(
        step=run[0].step,
        part=first.part,
        start=first.start,
        end=last.end,
        text="".join(c.text for c in run),
        tokens=sum(c.tokens for c in run),
        score=best.score,
        why=best.why(),
    )
