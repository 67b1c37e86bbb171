"""Relevance: the chance that a passage is evidence, from its score and those of its rivals.

Scores are log-odds only among the candidates of one question, since the weights are fitted by ranking them. Logistic
regression on the score and on the logarithm of the sum of all candidates' odds makes a probability of them (Platt,
Probabilistic Outputs for Support Vector Machines, 1999): of ten passages that fit equally well, each is less likely to
be what is asked for than a single one. It is fitted on memories of 3 to 12,000 steps, and on questions that have no
answer in the memory, so that it means the same in all of them.

Features are shares of the best in the memory, so none of them tells whether the best is any good. The gate does:
another logistic regression, for each question as a whole, on what is absolute. The numbers of both are in
`tinymem/data/relevance.json`.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Vectors

__all__ = ["Calibration", "Gate", "Signals", "calibration", "gate", "mark_relevant", "price_of"]

EVIDENT = 0.0  # the mean score of evidence: where no passage reaches it, the memory may well know nothing of it,
UNRELATED = -7.0  # and then what is below this has nothing to do with the question


PRICE = 0.7  # log-odds that a passage must be better for each factor e in its tokens (about 4 characters each)


def price_of(length: Any) -> Any:
    """Return the log-odds that `length` characters cost in the ranking, or an array of lengths."""
    return PRICE * np.log(length / 4 + 6)


@dataclass(frozen=True)
class Calibration:
    """The numbers of the regression: of the score, of the rivals' common score, and what is added."""

    score: float
    rivals: float
    offset: float

    def relevance(self, scores: Vectors) -> npt.NDArray[np.float64]:
        """Return the chance of each candidate to be evidence, 0 to 1: `(n,)`, for the scores of all of them."""
        if not len(scores):
            return np.zeros(0)
        exact = scores.astype(np.float64)
        highest = exact.max()
        rivals = highest + np.log(np.exp(exact - highest).sum())
        odds = np.exp(np.clip(self.score * exact + self.rivals * rivals + self.offset, -50, 50))
        chances: npt.NDArray[np.float64] = odds / (1 + odds)
        return chances


class Signals(NamedTuple):
    """Signals of whether a memory knows anything of a question.

    Attributes:
        score: The best score.
        cosine: The highest cosine.
        unseen: The share of the question's words, by rarity, that stand nowhere in the memory.
        coverage: The largest share of the others that stand in one place.
        speaker: 1 where the question names somebody who speaks in the memory, else 0.
        passages: The number of passages.
    """

    score: float
    cosine: float
    unseen: float
    coverage: float
    speaker: float
    passages: int

    def __str__(self) -> str:
        named = ", somebody here is named" if self.speaker else ""
        return (
            f"best score {self.score:+.2f}, highest cosine {self.cosine:.2f}, {self.unseen:.0%} of the words unknown, "
            f"{self.coverage:.0%} of the others together{named}, {self.passages:,} passages"
        )


@dataclass(frozen=True)
class Gate:
    """The numbers of the regression: what each signal counts (of passages the logarithm), and what is added."""

    score: float
    cosine: float
    unseen: float
    coverage: float
    speaker: float
    passages: float
    offset: float

    def odds(self, signals: Signals) -> float:
        """Return the log-odds that the memory knows something; it is only denied below 0, which errs to that side."""
        values = *signals[:-1], math.log(signals.passages + 1), 1.0
        return math.fsum(weight * value for weight, value in zip(vars(self).values(), values, strict=True))


def _published() -> dict[str, Any]:
    record: dict[str, Any] = json.loads((resources.files("tinymem") / "data" / "relevance.json").read_text("utf-8"))
    return record


@functools.cache
def calibration(is_stretch: bool) -> Calibration:
    """Return the numbers that come with the library, for a stretch of a run or for a question."""
    return Calibration(**_published()["stretch" if is_stretch else "question"])


@functools.cache
def gate(embedder: str) -> Gate:
    """Return the gate for an embedder's name: what a cosine says differs, and only those of "static" are known."""
    gates = _published()["gate"]
    return Gate(**gates.get(embedder, gates["other"]))


def mark_relevant(scores: Vectors) -> npt.NDArray[np.bool_]:
    """Mark the candidates for a question that may have to do with it: all of them where one fits well."""
    if scores.max(initial=UNRELATED) >= EVIDENT:
        return np.ones(len(scores), np.bool_)
    marked: npt.NDArray[np.bool_] = scores >= UNRELATED
    return marked
