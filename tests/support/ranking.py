"""Passages as recall ranks them, for tests of what is packed."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.messages.tokens import default_counter
from tinymem.recall.passages import passages_of
from tinymem.recall.selection.opened import RankedPassage
from tinymem.steps.step import Step

KEY = b"a key of sixteen"
TOKENS = default_counter()


def ranked(memory: Sequence[Step], scores: Sequence[float] | None = None) -> list[RankedPassage]:
    """Every passage of the steps, best first; the first passages score best unless said otherwise."""
    places = [(step.step_number or 0, row) for step in memory for row in passages_of(step)]
    scores = [-float(at) for at in range(len(places))] if scores is None else scores
    found = [
        RankedPassage(number, row.part, row.start, row.end, score, why=lambda score=score: lambda: {"cosine": score})  # type: ignore[misc]
        for (number, row), score in zip(places, scores, strict=False)
    ]
    return sorted(found, key=lambda passage: -passage.score)
