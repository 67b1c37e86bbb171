"""Relevance: the chance that a passage is evidence, from its score and those of its rivals.

Scores are log-odds only among the candidates of one question, since the weights are fitted by ranking them. Logistic
regression on the score and on the logarithm of the sum of all candidates' odds makes a probability of them (Platt,
Probabilistic Outputs for Support Vector Machines, 1999): of ten passages that fit equally well, each is less likely to
be what is asked for than a single one. It is fitted on memories of 3 to 12,000 steps, and on questions that have no
answer in the memory, so that it means the same in all of them. The numbers are in `tinymem/data/relevance.json`.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Vectors

__all__ = ["Calibration", "calibration", "has_to_do"]

EVIDENT = 0.0  # the mean score of evidence: where no passage reaches it, the memory may well know nothing of it,
UNRELATED = -7.0  # and then what is below this has nothing to do with the question


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


@functools.cache
def calibration(is_stretch: bool) -> Calibration:
    """Return the numbers that come with the library, for a stretch of a run or for a question."""
    record = json.loads((resources.files("tinymem") / "data" / "relevance.json").read_text("utf-8"))
    return Calibration(**record["stretch" if is_stretch else "question"])


def has_to_do(scores: Vectors) -> npt.NDArray[np.bool_]:
    """Mark the candidates for a question that may have to do with it: all of them where one fits well."""
    if scores.max(initial=UNRELATED) >= EVIDENT:
        return np.ones(len(scores), np.bool_)
    marked: npt.NDArray[np.bool_] = scores >= UNRELATED
    return marked
