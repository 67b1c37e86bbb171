"""Relevance: the chance that a passage is what a question or a prompt needs.

Scores are log-odds only among the candidates of one question, since the weights are fitted by ranking them. Logistic
regression makes a probability of them (Platt, Probabilistic Outputs for Support Vector Machines, 1999) that means the
same in every memory: on the score; on the logarithm of the sum of all candidates' odds, for of ten passages that fit
equally well each is less likely to be what is asked for than a single one; on the words shared, by rarity, which tell
whether the best is any good; on whether the passage is something said; and on the part of its score that it has as a
statement or a rule, of which one is the nearest whatever is asked. It is fitted on memories of 3 to 12,000 steps, on
questions that have no answer in the memory, and on prompts that need nothing from it.

Of a question it is asked besides whether the memory knows anything at all: the gate, a logistic regression on signals
of the question as a whole. The numbers of both are in `tinymem/data/relevance.json`.
"""

from __future__ import annotations

import functools
import json
import math
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Vectors

__all__ = [
    "BEARS",
    "LIKELY",
    "SHARE",
    "WORTH",
    "Calibration",
    "Gate",
    "Signals",
    "calibration",
    "floor_of_prompts",
    "gate",
    "price_of",
]

BEARS = 0.015  # relevance from which on a passage bears on what is asked
WORTH = 0.001  # relevance below which a passage is not worth its tokens to a question,
SHARE = 0.02  # and share of the third best relevance below which it is not
LIKELY = 0.4  # relevance of one passage from which on a memory knows something of a question, whatever the gate says
PRICE = 0.7  # log-odds that a passage must be better for each factor e in its tokens (about 4 characters each)


def price_of(length: Any) -> Any:
    """Return the log-odds that `length` characters cost in the ranking, or an array of lengths."""
    return PRICE * np.log(length / 4 + 6)


class Calibration(NamedTuple):
    """The numbers of the regression: what each signal counts, and what is added."""

    score: float
    rivals: float
    words: float
    said: float
    stated: float
    offset: float

    def relevance(
        self, scores: Vectors, words: Vectors, said: npt.NDArray[np.bool_], stated: Vectors
    ) -> npt.NDArray[np.float64]:
        """Return the chance of each candidate to be evidence, 0 to 1: `(n,)`, for these signals of all of them."""
        if not len(scores):
            return np.zeros(0)
        exact = scores.astype(np.float64)
        highest = exact.max()
        rivals = highest + np.log(np.exp(exact - highest).sum())
        logits = self.score * exact + self.rivals * rivals + self.words * words + self.said * said
        logits += self.stated * stated + self.offset
        chances: npt.NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logits, -50, 50)))
        return chances


class Signals(NamedTuple):
    """Signals of whether a memory knows anything of a question.

    Attributes:
        score: The best score.
        cosine: The highest cosine.
        unseen: The share of the question's words, by rarity, that stand nowhere in the memory.
        strange: 1 where one of its names stands nowhere and is no speaker's, else 0.
        coverage: The largest share of the others that stand in one place.
        speaker: 1 where the question names somebody who speaks in the memory, else 0.
        passages: The number of passages.
    """

    score: float
    cosine: float
    unseen: float
    strange: float
    coverage: float
    speaker: float
    passages: int

    def __str__(self) -> str:
        named = ", a name that is nowhere" if self.strange else ", somebody here is named" if self.speaker else ""
        return (
            f"best score {self.score:+.2f}, highest cosine {self.cosine:.2f}, {self.unseen:.0%} of the words unknown, "
            f"{self.coverage:.0%} of the others together{named}, {self.passages:,} passages"
        )


class Gate(NamedTuple):
    """The numbers of the regression: what each signal counts (of passages the logarithm), and what is added."""

    score: float
    cosine: float
    unseen: float
    strange: float
    coverage: float
    speaker: float
    passages: float
    offset: float

    def odds(self, signals: Signals) -> float:
        """Return the log-odds that the memory knows something; it is only denied below 0, which errs to that side."""
        values = *signals[:-1], math.log(signals.passages + 1), 1.0
        return math.fsum(weight * value for weight, value in zip(self, values, strict=True))


@functools.cache
def _published() -> dict[str, Any]:
    record: dict[str, Any] = json.loads((resources.files("tinymem") / "data" / "relevance.json").read_text("utf-8"))
    return record


@functools.cache
def calibration(is_stretch: bool) -> Calibration:
    """Return the numbers that come with the library, for a stretch of a run or for a question."""
    return Calibration(**_published()["stretch" if is_stretch else "question"])


def floor_of_prompts() -> float:
    """Return the relevance below which no passage comes back for a prompt, which may well need nothing."""
    return float(_published()["prompts"]["floor"])


@functools.cache
def gate(embedder: str) -> Gate:
    """Return the gate for an embedder's name: what a cosine says differs, and only those of "static" are known."""
    gates = _published()["gate"]
    return Gate(**gates.get(embedder, gates["other"]))
