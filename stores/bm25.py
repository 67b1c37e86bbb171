"""BM25 over lists of occurrences, whatever engine they come from.

Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), with FTS5's k1 = 1.2, b = 0.75.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tinymem.protocols import Ids, Vectors

__all__ = ["MAX_HITS", "MAX_POSTINGS", "Occurrences", "ranked"]

MAX_POSTINGS = 12_000  # passages with the query's terms, in sum: each is scored, so this bounds the time of a search
MAX_HITS = 2_000  # best passages that are returned
K1, B = 1.2, 0.75


class Occurrences(NamedTuple):
    """The passages that have a stem, its count in each, and their lengths."""

    ids: Ids
    times: Ids
    lengths: Ids


def ranked(
    terms: Iterable[Occurrences], count: int, mean: float, among: Ids | None = None, most: int = MAX_HITS
) -> tuple[Ids, Vectors]:
    """Return the passages that have one of the terms: ids, best first, and scores in (0, 2.2).

    A score is BM25 divided by the sum of the terms' inverse document frequencies. Whatever the query and the
    collection, about 1 is the score of a passage of average length with every term once.

    Args:
        terms: The occurrences of each term.
        count: The number of all passages.
        mean: Their mean length.
        among: If given, ids in ascending order; no others are returned.
        most: The most passages.
    """
    found, scale = [(np.zeros(0, np.int64), np.zeros(0))], 0.0
    for ids, times, lengths in terms:
        idf = max(1e-6, math.log((max(count - len(ids), 0) + 0.5) / (len(ids) + 0.5)))
        shares = 1 - B + B * lengths / mean
        found.append((ids, idf * (times * (K1 + 1) / (times + K1 * shares))))
        scale += idf
    every, parts = map(np.concatenate, zip(*found, strict=True))
    held, which = np.unique(every, return_inverse=True)
    scores = np.bincount(which, parts, len(held))
    if among is not None:  # before the best are taken, or a filter would leave few of them
        usable = np.append(among, -1)[np.searchsorted(among, held)] == held
        held, scores = held[usable], scores[usable]
    best = np.argsort(-scores, kind="stable")[:most]
    return held[best], (scores[best] / (scale or 1)).astype(np.float32)
