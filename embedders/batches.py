"""Batches of texts for any embedder: blank ones are left out, and vectors have length 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Vectors
from tinymem.steps.checks import check_strings

__all__ = ["embed_filled", "to_unit"]


def embed_filled(
    texts: Sequence[str], dimensions: int, embed: Callable[[list[str]], Iterable[npt.NDArray[Any]]]
) -> Vectors:
    """Return `(len(texts), dimensions)` float32 of length 1, zero for a text that is empty or white space.

    `embed` gives the vectors of the other texts, of any length.
    """
    texts = check_strings("texts", texts)
    filled = [number for number, text in enumerate(texts) if text.strip()]
    rows = np.zeros((len(texts), dimensions))
    if filled:
        rows[filled] = np.array([*embed([texts[number] for number in filled])])
    return to_unit(rows)


def to_unit(rows: npt.NDArray[np.floating]) -> Vectors:
    """Scale rows to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)
