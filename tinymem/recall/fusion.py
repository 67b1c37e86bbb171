"""Linear fusion: one weighted sum of the features, with weights for each kind of passage.

The sum is the log-odds that a passage is evidence (logistic regression), so scores of different kinds can be compared.
A question is answered by whatever says it, so for questions all kinds have the same weights. A stretch of a run wants
other things than a question does, and not of a tool's output what it wants of a person or of the agent itself.
The published weights are in `tinymem/data/fusion.json` with their provenance; others can be passed.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources

import numpy as np
import numpy.typing as npt

from tinymem.errors import InputError
from tinymem.protocols import Vectors
from tinymem.recall.features import NAMES

__all__ = ["Fusion", "published", "weighed_as"]

KIND_NAMES = ("tool", "act", "said", "question")  # rows of weights: `Catalog.kind` for a stretch, else the last
QUESTION = 3


@dataclass(frozen=True)
class Fusion:
    """`weights` is `(4, len(NAMES))` and `bias` `(4,)`: a row each for tool output, the agent's acts and what was said,
    where the query is a stretch of a run, and one for all of them where it is a question."""

    weights: Vectors
    bias: Vectors

    def score(self, features: Vectors, kinds: npt.NDArray[np.int8]) -> Vectors:
        """The log-odds of each passage: `(n,)`, for `features` `(n, len(NAMES))` and the `kinds` of the passages."""
        scores: Vectors = np.einsum("nf,nf->n", features, self.weights[kinds]) + self.bias[kinds]
        return scores

    def contributions(self, features: Vectors, kind: int) -> dict[str, float]:
        """What each feature adds to the score of one passage, strongest first."""
        parts = features * self.weights[kind]
        order = np.argsort(-np.abs(parts), kind="stable").tolist()
        values = np.round(parts.astype(np.float64), 3).tolist()
        return {NAMES[i]: values[i] for i in order if values[i]}

    @classmethod
    def from_json(cls, text: str) -> Fusion:
        """Read weights as `fusion.json` has them; InputError for features that this version does not compute."""
        try:
            kinds = json.loads(text)["weights"]
            for kind in KIND_NAMES:
                if set(kinds[kind]) != {"bias", *NAMES}:
                    raise InputError(f"weights of {kind!r} must be for exactly these: bias, {', '.join(NAMES)}")
            weights = np.array([[float(kinds[kind][name]) for name in ("bias", *NAMES)] for kind in KIND_NAMES])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"not weights as fusion.json has them: {type(error).__name__}: {error}") from error
        if not (np.abs(weights) < 1e6).all():
            raise InputError("a weight is not a finite number of a sensible size")
        return cls(weights[:, 1:].astype(np.float32), weights[:, 0].astype(np.float32))


def weighed_as(kinds: npt.NDArray[np.int8], is_stretch: bool) -> npt.NDArray[np.int8]:
    """The row of weights for passages of these `kinds` (`Catalog.kind`)."""
    return kinds if is_stretch else np.full(len(kinds), QUESTION, np.int8)


@functools.cache
def published() -> Fusion:
    """The weights that come with the library."""
    return Fusion.from_json((resources.files("tinymem") / "data" / "fusion.json").read_text("utf-8"))
