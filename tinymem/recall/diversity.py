"""Near-duplicates: of passages that say the same, the best is enough.

Agents list the same folder and open the same file again and again; the tokens of a repetition are better spent.
"""

from __future__ import annotations

import numpy as np

from tinymem.errors import InputError
from tinymem.protocols import Ids, Vectors
from tinymem.recall.products import products

__all__ = ["DIVERSITY", "without_duplicates"]

DIVERSITY = 0.015  # two passages repeat each other where their cosine is 1 - DIVERSITY or more,
ALIKE = 0.8  # and the shorter has more than this share of the longer one's characters


def without_duplicates(order: Ids, vectors: Vectors, lengths: Ids, looked_at: int, diversity: float = DIVERSITY) -> Ids:
    """`order` (positions, best first) without those that nearly repeat a better one of about the same length.

    `vectors` `(n, dimensions)` and `lengths` `(n,)`, in characters, are of all positions; only the best `looked_at` are
    compared with each other. A `diversity` of 0 keeps everything.
    """
    if not 0 <= diversity <= 1:
        raise InputError(f"diversity must be from 0 to 1, not {diversity!r}")
    if not diversity:
        return order
    head = order[:looked_at]
    compared = vectors[head]
    better, worse = np.divmod(np.flatnonzero(products(compared, compared) >= 1 - diversity), len(head) or 1)
    size = lengths[head].astype(np.float64)
    shorter, longer = np.minimum(size[better], size[worse]), np.maximum(size[better], size[worse])
    repeats = (better < worse) & (shorter / np.maximum(longer, 1) > ALIKE)
    kept = np.ones(len(head), np.bool_)
    for i, j in zip(better[repeats].tolist(), worse[repeats].tolist(), strict=True):  # in the order of the better one
        if kept[i]:
            kept[j] = False
    return np.concatenate([head[kept], order[looked_at:]])
