"""Candidates of a recall: the nearest passages by vector, the best by BM25, and their neighbours in time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids, Lexical, Vectors
from tinymem.recall.query.analysis import Query
from tinymem.recall.query.dates import closeness
from tinymem.recall.query.identifiers import Codes
from tinymem.recall.snapshot import SAID, Snapshot, ranges
from tinymem.stores.bm25 import highest

__all__ = ["Candidates", "gather", "products"]

EVERYTHING = 600  # passages up to which all of a memory are candidates
NEAREST = 240  # passages by each of the two signals
AROUND = 60  # the best of each signal bring their neighbours along
TOGETHER = 30  # passages of their steps, at most, and one before and one after
NAMED = 500  # passages that hold an identifier of the question, up to which all of them are candidates
STATEMENTS = 30  # of the statements that are closest to a question among themselves
SHORT = 300  # characters of a statement, at most,
NEWEST = 2_000  # and so many of the newest are compared with a question
FEW = 0.5  # of the passages: where a filter lets through less, the others have no closeness
FALLING = 10.0  # ranks in which their closeness falls to a third
CHAT = 0.5  # of the passages: where more are said, the memory is of chats
SMALL = 1 << 18  # multiplications up to which OpenBLAS starts no thread


@dataclass(frozen=True)
class Candidates:
    """`rows` of the catalog in order of time, and what was found out about every passage: `(len(catalog),)` each.

    Attributes:
        rows: The candidates.
        cosine: The cosines of passages, float32.
        bm25: Their BM25, float32.
        terms: A bit for each term of the question that they have, uint32; see `tinymem.protocols.Lexical`.
        rarity: The inverse document frequency of each of these terms.
        unseen: The share of the question's words, by rarity, that stand nowhere in the memory; all of them where none
            stands in a passage that may come back.
        stated: For statements the closeness to the question among themselves, from 1 on down to 0; see `_stated`.
        named: The rows with an identifier of the question, and which one that is.
        is_strange: Whether the question has a name that stands nowhere in the memory.
    """

    rows: Ids
    cosine: Vectors
    bm25: Vectors
    terms: npt.NDArray[np.uint32]
    rarity: Vectors
    unseen: float
    stated: Vectors
    named: tuple[Ids, Codes]
    is_strange: bool = False

    def marks(self, terms: npt.NDArray[np.uint32]) -> npt.NDArray[np.integer[Any]]:
        """Return the bits of `terms` as 0 and 1, of every term of the question: `(len(terms), len(rarity))`."""
        return terms[:, np.newaxis] >> np.arange(len(self.rarity), dtype=np.uint32) & 1


def gather(query: Query, catalog: Snapshot, lexical: Lexical, allowed: npt.NDArray[np.bool_]) -> Candidates:
    """Gather candidates among the `allowed` rows: all of a small memory, and of a large one the best.

    Args:
        query: The analysed question.
        catalog: The arrays over all passages.
        lexical: Passages by BM25.
        allowed: Rows that may come back: `(len(catalog),)`.
    """
    total = len(catalog.id)
    cosine = products(query.vectors, catalog.vectors).max(axis=0)
    if np.count_nonzero(allowed) < FEW * total:
        cosine[~allowed] = 0  # what a filter leaves out is no measure of what is close
    bm25, terms = _of_rows(lexical, catalog.id)
    unseen = lexical.unseen if terms[allowed].any() else 1.0
    stated, named = _stated(query, catalog, allowed), catalog.rows_with(query.named)
    found = Candidates(np.flatnonzero(allowed), cosine, bm25, terms, lexical.rarity, unseen, stated, named)
    return found if total <= EVERYTHING else replace(found, rows=_best(query, catalog, allowed, found))


def _of_rows(lexical: Lexical, ids: Ids) -> tuple[Vectors, npt.NDArray[np.uint32]]:
    """Return BM25 and terms of the passages with these ids, which ascend."""
    bm25, terms = np.zeros(len(ids), np.float32), np.zeros(len(ids), np.uint32)
    places = np.minimum(np.searchsorted(ids, lexical.ids), len(ids) - 1)
    is_known = ids[places] == lexical.ids
    bm25[places[is_known]], terms[places[is_known]] = lexical.scores[is_known], lexical.terms[is_known]
    return bm25, terms


def _best(query: Query, catalog: Snapshot, allowed: npt.NDArray[np.bool_], found: Candidates) -> Ids:
    """Return the rows with an identifier, the best by each signal, the neighbours of the best, and statements."""
    chosen: npt.NDArray[np.bool_] = np.zeros(len(allowed), np.bool_)
    named, _ = found.named
    if len(named) <= NAMED:
        _mark_around(chosen, named, named, catalog.step)
    signals = [(found.cosine, allowed), (found.bm25, allowed)]
    if query.spans:
        signals.append((found.cosine, allowed & (closeness(catalog.time, query.spans) == 1)))
    for signal, among in signals:
        usable = np.flatnonzero(among & (signal > 0))
        nearest = usable[highest(signal[usable], NEAREST)]
        _mark_around(chosen, nearest, nearest[:AROUND], catalog.step)
    return np.flatnonzero((chosen & allowed) | (found.stated > math.exp(-STATEMENTS / FALLING)))


def _stated(query: Query, catalog: Snapshot, allowed: npt.NDArray[np.bool_]) -> Vectors:
    """Return 1 for the statement that is closest to a question, and less by rank for the others; 0 for the rest.

    A statement is what a person or agent says in few words, without asking, among output of tools. A task needs one
    that it shares no word with, as a rule; most of what is close to it in a run are listings and logs. So statements
    are compared among themselves, without what all of them have in common. In a chat nearly everything is one, and says
    nothing by it.
    """
    stated = np.zeros(len(allowed), np.float32)
    said = np.flatnonzero(catalog.kind == SAID)
    if query.is_stretch or len(said) > CHAT * len(allowed):
        return stated
    said = said[allowed[said]]
    is_short = catalog.end[said] - catalog.start[said] <= SHORT
    rows = said[is_short & ~catalog.asks[said]][-NEWEST:]
    if len(rows):
        vectors = catalog.vectors[rows]
        closest = products(query.vectors - vectors.mean(axis=0), vectors).max(axis=0)
        stated[rows[np.argsort(-closest, kind="stable")]] = np.exp(-np.arange(len(rows)) / FALLING)
    return stated


def products(left: Vectors, right: Vectors) -> Vectors:
    """Multiply `left @ right.T` piece by piece: `(m, n)`, of few `(m, d)` and many `(n, d)` vectors."""
    (m, d), n = left.shape, len(right)
    found = np.empty((m, n), np.float32)
    rows = max(1, SMALL // (m * d))
    whole = n - n % rows
    pieces = right[:whole].reshape(-1, rows, d).transpose(0, 2, 1)
    with np.errstate(invalid="ignore"):  # OpenBLAS can raise this flag over padding, with finite results
        np.matmul(left, pieces, out=found[:, :whole].reshape(m, -1, rows).transpose(1, 0, 2))
        np.matmul(left, right[whole:].T, out=found[:, whole:])
    return found


def _mark_around(chosen: npt.NDArray[np.bool_], rows: Ids, centres: Ids, steps: Ids) -> None:
    """Mark `rows`, and around the `centres` among them the passages of a step, the one before and the one after."""
    chosen[rows] = True
    wanted = np.unique(steps[centres])
    before, end = np.searchsorted(steps, wanted) - 1, np.searchsorted(steps, wanted, "right")
    places = ranges(before, np.minimum(end - before - 1, TOGETHER) + 2)
    chosen[np.clip(places, 0, len(steps) - 1)] = True
