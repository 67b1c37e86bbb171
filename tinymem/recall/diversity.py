"""Near-duplicates: of passages that say the same, the best is enough.

Agents list the same folder and open the same file again and again; the tokens of a repetition are better spent.
"""

from __future__ import annotations

import numpy as np

from tinymem.protocols import Ids, Vectors

__all__ = ["without_duplicates"]

SAME = 0.985  # cosine of passage vectors from which on two are taken for the same text


def without_duplicates(order: Ids, vectors: Vectors, lengths: Ids, looked_at: int) -> Ids:
    """`order` (positions, best first) without those that nearly repeat a better one of about the same length.

    `vectors` `(n, dimensions)` and `lengths` `(n,)`, in characters, are of all positions; only the best `looked_at` are
    compared with each other.
    """
    head = order[:looked_at]
    closeness = vectors[head] @ vectors[head].T
    size = lengths[head].astype(np.float64)
    alike = np.minimum.outer(size, size) / np.maximum(np.maximum.outer(size, size), 1) > 0.8
    repeats = np.triu((closeness >= SAME) & alike, 1)
    kept = np.ones(len(head), np.bool_)
    for i in np.flatnonzero(repeats.any(axis=1)):
        if kept[i]:
            kept[repeats[i]] = False
    return np.concatenate([head[kept], order[looked_at:]])
