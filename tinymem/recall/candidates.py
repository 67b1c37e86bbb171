"""Which passages are looked at closely: the nearest by vector, the best by BM25, and their neighbours in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids, Vectors
from tinymem.recall.catalog import Catalog
from tinymem.recall.query import Query

__all__ = ["Candidates", "gather"]

EVERYTHING = 600  # a memory of up to so many passages is looked at whole
NEAREST = 240  # passages by each of the two signals
AROUND = 60  # the best of each signal bring their neighbours along
LEAST_SHARE = 0.1  # of the passages: where a filter lets through less, an index is not asked for still more of them

Nearest = Callable[[Vectors, int], tuple[Ids, Vectors]]


@dataclass(frozen=True)
class Candidates:
    """`rows` of the catalog in order of time, and both signals for every passage: `(len(catalog),)` float32 each."""

    rows: Ids
    cosine: Vectors
    bm25: Vectors


def gather(
    query: Query,
    catalog: Catalog,
    lexical: tuple[Ids, Vectors],
    allowed: npt.NDArray[np.bool_],
    nearest: Nearest | None,
) -> Candidates:
    """Candidates among the `allowed` rows.

    `lexical` are passage ids with their BM25. `nearest` asks an index for the closest passages (ids, cosines), where
    an exact search over all vectors would take longer; without it the search is exact. Which passages are found may
    then differ a little, their cosines and those of the steps around them do not.
    """
    cosine = np.zeros(len(catalog), np.float32)
    if nearest:
        share = np.count_nonzero(allowed) / len(catalog)  # of what the index finds, so much may be used
        cosine = _from_index(query, catalog, nearest, int(NEAREST / max(share, LEAST_SHARE)))
    if np.count_nonzero((cosine > 0) & allowed) < NEAREST // 2:  # no index, or its best are not those that are allowed
        nearest, cosine = None, (catalog.vectors @ query.vectors.T).max(axis=1)
    bm25 = np.zeros(len(catalog), np.float32)
    held = np.isin(lexical[0], catalog.id)
    bm25[np.searchsorted(catalog.id, lexical[0][held])] = lexical[1][held]
    if len(catalog) <= EVERYTHING:
        return Candidates(np.flatnonzero(allowed), cosine, bm25)
    chosen = np.zeros(len(catalog), np.bool_)
    for signal in (cosine, bm25):
        usable = np.where(allowed, signal, 0)
        best = _top(usable, NEAREST)
        best = best[usable[best] > 0]
        chosen[best] = True
        _mark_around(chosen, best[:AROUND], catalog.step)
    rows = np.flatnonzero(chosen & allowed)
    if nearest and len(rows):
        near = _around(rows, catalog.step)
        cosine[near] = (catalog.vectors[near] @ query.vectors.T).max(axis=1)
    return Candidates(rows, cosine, bm25)


def _from_index(query: Query, catalog: Catalog, nearest: Nearest, k: int) -> Vectors:
    """Cosines of the `k` passages that the index finds for each of the question's vectors; 0 for the rest."""
    cosine = np.zeros(len(catalog), np.float32)
    for vector in query.vectors:
        ids, scores = nearest(vector, k)
        held = np.isin(ids, catalog.id)
        np.maximum.at(cosine, np.searchsorted(catalog.id, ids[held]), scores[held])
    return cosine


def _top(signal: Vectors, k: int) -> Ids:
    """Rows of the `k` highest values, best first; ties by row, so that the same memory gives the same answer."""
    if len(signal) > k:
        kth = -np.partition(-signal, k - 1)[k - 1]
        rows = np.flatnonzero(signal >= kth)
    else:
        rows = np.arange(len(signal))
    return rows[np.argsort(-signal[rows], kind="stable")][:k]


def _mark_around(chosen: npt.NDArray[np.bool_], rows: Ids, steps: Ids) -> None:
    """Mark the passages of the steps of `rows`, and of the step before and after each."""
    for step in np.unique(steps[rows]):
        first = np.searchsorted(steps, step, "left")
        last = np.searchsorted(steps, step, "right") - 1
        before, after = max(0, first - 1), min(len(steps) - 1, last + 1)
        chosen[max(before, first - 3) : min(after, first + 30) + 1] = True


def _around(rows: Ids, steps: Ids) -> Ids:
    """All passages of the steps of `rows`, and of the step before and after each."""
    place = np.cumsum(np.diff(steps, prepend=steps[:1]) != 0)
    near = np.zeros(place[-1] + 3, np.bool_)  # from the place before the first step to the one behind the last
    for shift in (0, 1, 2):
        near[place[rows] + shift] = True
    return np.flatnonzero(near[place + 1])
