"""Late interaction (max-sim): the best match of each token of the question among the tokens of a passage.

Khattab and Zaharia, ColBERT (2020), here over static token vectors, so that a passage costs two bytes a token; query
tokens are weighted by their inverse document frequency in the memory, frequent ones saying little.
"""

from __future__ import annotations

import numpy as np

from tinymem.protocols import Ids, TokenIds, Vectors
from tinymem.recall.catalog import Catalog

__all__ = ["max_sim", "products"]

MAX_TOKENS = 16  # of the question: the rarest
ROWS = 1024  # of the table that are compared at once: they stay in the cache


def max_sim(tokens: TokenIds, rows: Ids, catalog: Catalog, table: Vectors) -> Vectors:
    """Score each of `rows` by the weighted mean of its best cosines to the question's tokens: `(len(rows),)`."""
    score = np.zeros(len(rows), np.float32)
    seen = catalog.document_frequency[tokens]
    weights = np.log((catalog.count + 1) / (seen + 0.5))
    chosen = np.argsort(-weights, kind="stable")[:MAX_TOKENS]
    chosen = chosen[weights[chosen] > 0]
    held, lengths = catalog.tokens_of(rows)
    if not len(chosen) or not len(held):
        return score
    place = np.zeros(len(table), np.int64)
    place[held] = 1
    distinct = np.flatnonzero(place)  # as np.unique would, without sorting
    place[distinct] = np.arange(len(distinct))
    asked = table[tokens[chosen]]
    closeness = np.empty((len(chosen), len(distinct)), np.float32)
    for at in range(0, len(distinct), ROWS):
        closeness[:, at : at + ROWS] = products(asked, table[distinct[at : at + ROWS]])
    filled = np.flatnonzero(lengths)
    starts = np.concatenate([[0], np.cumsum(lengths[filled])[:-1]])
    places = place[held]
    best = np.empty((len(filled), len(chosen)), np.float32)
    of_each = np.empty(len(held), np.float32)
    for column, known in zip(best.T, closeness, strict=True):  # one token at a time: what is read stays in the cache
        np.take(known, places, out=of_each, mode="clip")
        np.maximum.reduceat(of_each, starts, out=column)
    shares = (weights[chosen] / weights[chosen].sum()).astype(np.float32)
    score[filled] = products(shares[np.newaxis], best)[0]
    return score


SMALL = 1 << 18  # multiplications up to which OpenBLAS starts no thread
AT_ONCE = 32  # of the vectors on the left, at most


def products(left: Vectors, right: Vectors) -> Vectors:
    """Multiply `left @ right.T` piece by piece: `(m, n)`, of few `(m, d)` and many `(n, d)` vectors."""
    (m, d), n = left.shape, len(right)
    found = np.empty((m, n), np.float32)
    for first in range(0, m, AT_ONCE):
        some, out = left[first : first + AT_ONCE], found[first : first + AT_ONCE]
        rows = max(1, SMALL // (len(some) * d))
        whole = n - n % rows
        pieces = right[:whole].reshape(-1, rows, d).transpose(0, 2, 1)
        with np.errstate(invalid="ignore"):  # OpenBLAS can raise this flag over padding, with finite results
            np.matmul(some, pieces, out=out[:, :whole].reshape(len(some), -1, rows).transpose(1, 0, 2))
            np.matmul(some, right[whole:].T, out=out[:, whole:])
    return found
