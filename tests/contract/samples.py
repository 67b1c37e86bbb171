"""Texts and vectors that the checks use, and what a check says when it fails."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinymem.protocols import Ids, Vectors

__all__ = ["BLANK", "DIMENSIONS", "HOSTILE", "ROUNDING", "TEXTS", "exact_neighbours", "require", "require_shape",
           "unit_vectors"]  # fmt: skip

TEXTS = ["The build fails on Windows.", "a", "Brot und Käse, 日本語, 🙂", "x = [1, 2, 3]\n\tprint(x)\n", "?!"]
BLANK = ["", " ", "\n\t \u3000"]
HOSTILE = {
    "a lone surrogate": "broken \ud83d text",
    "a NUL": "nul \x00 inside",
    "a line separator": "one\u2028two",
    "the spelling of a special token": "<s>[CLS]</s><|endoftext|>",
    "100,000 characters": "all work and no play " * 5_000,
    "100,000 characters without a space": "a" * 100_000,
}
ROUNDING = 1e-5  # how far two computations of the same cosine may differ
DIMENSIONS = 16


def unit_vectors(count: int, dimensions: int = DIMENSIONS, seed: int = 0) -> Vectors:
    """Random directions: `(count, dimensions)` float32 of length 1, the same for the same seed."""
    vectors = np.random.default_rng(seed).normal(size=(count, dimensions))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32)


def exact_neighbours(ids: Sequence[int], vectors: Vectors, query: Vectors, k: int) -> tuple[Ids, Vectors]:
    """Return the answer of a perfect store: the `k` closest `ids` with their cosines, best first, ties by lower id."""
    keys = np.asarray(ids, dtype=np.int64)
    similarities = np.round(vectors.astype(np.float64) @ query.astype(np.float64), 6)
    order = np.lexsort((keys, -similarities))[:k]
    return keys[order], similarities[order].astype(np.float32)


def require(condition: bool, expected: str) -> None:
    """Raise AssertionError with what was `expected` unless the condition holds."""
    # Not `assert`: it would vanish under python -O, and pytest explains it only in test modules.
    if not condition:
        raise AssertionError(expected)


def require_shape(vectors: Vectors, rows: int, dimensions: int) -> None:
    """Raise AssertionError unless the vectors are `(rows, dimensions)` float32."""
    require(vectors.shape == (rows, dimensions), f"vectors have shape ({rows}, {dimensions}), not {vectors.shape}")
    require(vectors.dtype == np.float32, f"vectors are float32, not {vectors.dtype}")
