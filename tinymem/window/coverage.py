"""The choice of passages that are relevant and add to each other: greedy maximisation of a submodular function.

Facility location: every passage asks to be represented, the more relevant, the louder; a choice S is worth

    F(S) = sum over passages i of weight(i) * max over j in S of similarity(i, j)

so that a passage adds little when one like it is chosen already, and much when it stands for others that matter. Lin
and Bilmes, Multi-document Summarization via Budgeted Maximization of Submodular Functions (2010); A Class of
Submodular Functions for Document Summarization (2011). Their greedy divides the gain by a power of the cost.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tinymem.protocols import Vectors

__all__ = ["Coverage", "Selection"]

SHARPNESS = 5.0  # a passage whose log-odds are lower by 1 weighs this many factors e less
POWER = 8  # of the cosine: vectors of unlike texts are not at right angles
REPRESENTED = 100  # the most relevant passages, which are those that count


class Selection(Protocol):
    """A way to choose passages one after the other, given those chosen already."""

    def gains(self) -> Vectors:
        """Return the gain of each passage: `(n,)`; a passage with a gain of 0 or less is not chosen."""
        ...

    def take(self, passage: int) -> None:
        """Choose a passage."""


class Coverage:
    """The function F for passages with log-odds `scores` `(n,)` and `vectors` `(n, dimensions)`, and a choice."""

    def __init__(self, scores: Vectors, vectors: Vectors) -> None:
        top = np.argsort(-scores, kind="stable")[:REPRESENTED]
        weights = np.exp(SHARPNESS * (scores[top] - scores.max(initial=-np.inf))).astype(np.float32)
        self._similarity = np.maximum(vectors @ vectors[top].T, 0) ** POWER  # (n, represented)
        self._weights = weights
        self._covered = np.zeros(len(top), np.float32)

    def gains(self) -> Vectors:
        """Return the gain in F of each passage: `(n,)`, 0 or more."""
        gains: Vectors = np.maximum(self._similarity - self._covered, 0) @ self._weights
        return gains

    def take(self, passage: int) -> None:
        """Choose a passage."""
        np.maximum(self._covered, self._similarity[passage], out=self._covered)
