"""Filling a token budget with the best passages: whole lines, shared headers, adjoining slices united.

Greedy in order of score: a passage that does not fit is passed over, and a smaller one may fill the gap. The budget is
checked on the text as it is sent, so it holds exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tinymem.base import Step
from tinymem.content import clean
from tinymem.protocols import TokenCounter
from tinymem.recall.render import block, header, label
from tinymem.recall.results import Excerpt, Recall

__all__ = ["Ranked", "pack"]

FETCHED = 48  # steps that are read from the journal at once
MISSES = 24  # passages in a row that did not fit, after which the budget counts as full
SMALLEST = 8  # tokens that no passage gets by with
FENCE = 44  # tokens of the fence, at most

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


def pack(ranked: Sequence[Ranked], fetch: Fetch, counter: TokenCounter, budget: int, key: bytes) -> Recall:
    """The best of `ranked` (best first) that fit `budget` tokens, as one block."""
    chosen = _choose(ranked, fetch, counter, budget)
    while chosen:
        items = _united(chosen)
        text = block(items, key)
        if (tokens := counter.count(text)) <= budget:
            return Recall(text, tokens, tuple(items))
        chosen.remove(min(chosen, key=lambda excerpt: excerpt.score))
    return Recall("", 0, ())


def _choose(ranked: Sequence[Ranked], fetch: Fetch, counter: TokenCounter, budget: int) -> list[Excerpt]:
    chosen: list[Excerpt] = []
    left, misses = budget - FENCE, 0
    headers: set[str] = set()
    labelled: set[tuple[int, int]] = set()
    for i in range(0, len(ranked), FETCHED):
        some = ranked[i : i + FETCHED]
        steps = fetch(sorted({r.number for r in some}))
        for candidate in some:
            if left < SMALLEST or misses >= MISSES:
                return chosen
            if (step := steps.get(candidate.number)) is None:
                continue
            if candidate.end - candidate.start > 16 * (left + 4):  # no text is that dense: spare counting it
                misses += 1
                continue
            excerpt = _excerpt(candidate, step)
            dated, place = header(step), (candidate.number, candidate.part)
            cost = counter.count(f"{excerpt.text}\n") + 2
            cost += 0 if place in labelled else counter.count(label(step, step.parts()[candidate.part], whole=False))
            cost += 0 if dated in headers else counter.count(f"{dated}\n")
            if cost > left:
                misses += 1
                continue
            chosen.append(replace(excerpt, tokens=cost))
            headers.add(dated)
            labelled.add(place)
            left, misses = left - cost, 0
    return chosen


def _excerpt(at: Ranked, step: Step) -> Excerpt:
    text = clean(step.parts()[at.part].text)[at.start : at.end]
    return Excerpt(step, at.part, at.start, at.end, text, 0, at.score, at.why())


def _united(chosen: Sequence[Excerpt]) -> list[Excerpt]:
    """In order of time, slices that adjoin in the same part as one."""
    united: list[Excerpt] = []
    for e in sorted(chosen, key=lambda e: (e.step.number or 0, e.part, e.start)):
        last = united[-1] if united else None
        if last and (last.step.id, last.part, last.end) == (e.step.id, e.part, e.start):
            best = max(last, e, key=lambda x: x.score)
            united[-1] = replace(
                last, end=e.end, text=last.text + e.text, tokens=last.tokens + e.tokens, score=best.score, why=best.why
            )
        else:
            united.append(e)
    return united
