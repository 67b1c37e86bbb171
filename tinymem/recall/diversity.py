"""Near-duplicates: of passages that say the same, the best is enough.

Agents list the same folder and open the same file again and again; the tokens of a repetition are better spent.
"""

from __future__ import annotations

import numpy as np

from tinymem.protocols import Ids, Vectors
from tinymem.recall.products import products

__all__ = ["without_duplicates"]

SAME = 0.985  # cosine of passage vectors from which on two are taken for the same text
ALIKE = 0.8  # and the shorter has more than this share of the longer one's characters


def without_duplicates(order: Ids, vectors: Vectors, lengths: Ids, looked_at: int) -> Ids:
    """`order` (positions, best first) without those that nearly repeat a better one of about the same length.

    `vectors` `(n, dimensions)` and `lengths` `(n,)`, in characters, are of all positions; only the best `looked_at` are
    compared with each other.
    """
    head = order[:looked_at]
    compared = vectors[head]
    better, worse = np.divmod(np.flatnonzero(products(compared, compared) >= SAME), len(head) or 1)
    size = lengths[head].astype(np.float64)
    shorter, longer = np.minimum(size[better], size[worse]), np.maximum(size[better], size[worse])
    repeats = (better < worse) & (shorter / np.maximum(longer, 1) > ALIKE)
    kept = np.ones(len(head), np.bool_)
    for i, j in zip(better[repeats].tolist(), worse[repeats].tolist(), strict=True):  # in the order of the better one
        if kept[i]:
            kept[j] = False
    return np.concatenate([head[kept], order[looked_at:]])
