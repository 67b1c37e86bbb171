"""BM25 over lists of occurrences, whatever engine they come from.

Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), with FTS5's k1 = 1.2, b = 0.75.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids, Lexical
from tinymem.stores.words import MAX_WORDS, words

__all__ = [
    "MAX_HITS",
    "MAX_POSTINGS",
    "Occurrences",
    "hash_words",
    "highest",
    "rank_passages",
    "search_words",
]

MAX_POSTINGS = 12_000  # passages with the query's terms, in sum: each is scored, so this bounds the time of a search
MAX_HITS = 2_000  # best passages that are returned
K1, B = 1.2, 0.75
MARKS = 2.0 ** np.arange(32)  # of the rarest terms: of these it is known which passages have them


class Occurrences(NamedTuple):
    """The passages that have a stem, its count in each, and their lengths."""

    ids: Ids
    times: Ids
    lengths: Ids


NOWHERE = Occurrences(*np.zeros((3, 0), np.int32))


def rank_passages(
    terms: Sequence[Occurrences],
    count: int,
    mean: float,
    among: Ids | None = None,
    most: int = MAX_HITS,
    unseen: int = 0,
) -> Lexical:
    """Return the passages that have one of the terms, best first, with scores in (0, 2.2).

    Args:
        terms: The occurrences of each term, rarest first.
        count: The number of all passages.
        mean: Their mean length.
        among: If given, ids in ascending order; no others are returned.
        most: The most passages.
        unseen: The number of terms that no passage has.
    """
    sizes = np.array([len(term.ids) for term in terms], np.int64)
    ids, times, lengths = (np.concatenate(column) for column in zip(NOWHERE, *terms, strict=True))
    rarity = np.maximum(1e-6, np.log((np.maximum(count - sizes, 0) + 0.5) / (sizes + 0.5)))
    parts = np.repeat(rarity, sizes) * (times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / mean)))
    marks = np.repeat(np.append(MARKS, np.zeros(len(sizes)))[: len(sizes)], sizes)
    found, which = _distinct(ids)
    scores, having = (np.bincount(which, values, len(found)) for values in (parts, marks))
    if among is not None:  # before the best are taken, or a filter would leave few of them
        usable = np.append(among, -1)[np.searchsorted(among, found)] == found
        found, scores, having = found[usable], scores[usable], having[usable]
    best = highest(scores, most)
    scale, missing = float(rarity.sum()), unseen * math.log(2 * count + 1)
    return Lexical(
        found[best],
        (scores[best] / (scale or 1)).astype(np.float32),
        having[best].astype(np.uint32),
        rarity[: len(MARKS)].astype(np.float32),
        missing / ((scale + missing) or 1),
    )


def _distinct(ids: Ids) -> tuple[Ids, Ids]:
    """Return the distinct ids in order, and for each the place of it there: np.unique takes three times as long."""
    bits = len(ids).bit_length()
    pairs = (ids.astype(np.int64) << bits) | np.arange(len(ids))  # each with its place, so that numbers are sorted
    pairs.sort()
    ordered, is_first = pairs >> bits, np.ones(len(ids), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    which = np.empty(len(ids), np.int64)
    which[pairs & ((1 << bits) - 1)] = np.cumsum(is_first) - 1
    return ordered[is_first], which


def highest(values: npt.NDArray[Any], k: int) -> Ids:
    """Return the places of the `k` highest values, best first; ties in order, so that every run gives the same."""
    if len(values) > k:
        kth = -np.partition(-values, k - 1)[k - 1]
        places = np.flatnonzero(values >= kth)
    else:
        places = np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")][:k]


def hash_words(text: str, most: int | None = None) -> npt.NDArray[np.uint32]:
    """Hash each of the (first `most`) words of `text` that are no stop words: `(words,)` uint32."""
    return np.array([zlib.crc32(word.encode("utf-8", "replace")) for word in words(text)[:most]], np.uint32)


def search_words(query: str, ids: Ids, passages: Sequence[npt.NDArray[np.uint32]]) -> Lexical:
    """Search passages without an index, given as their ids and hashed words; see `Journal.search_text`."""
    asked = np.unique(hash_words(query, MAX_WORDS))
    lengths = np.array([len(codes) for codes in passages], np.int64)
    said, owners = np.concatenate([asked[:0], *passages]), np.repeat(np.arange(len(passages)), lengths)
    places = np.searchsorted(asked, said)
    is_hit = np.append(asked, 0)[places] == said
    is_hit &= places < len(asked)
    order = np.argsort(places[is_hit], kind="stable")
    found, counts = owners[is_hit][order], np.bincount(places[is_hit], minlength=len(asked))
    having = np.split(found, np.cumsum(counts)[:-1])
    rarest = [term for term in np.argsort(counts, kind="stable").tolist() if counts[term]]
    terms = [Occurrences(ids[rows], np.ones_like(rows), lengths[rows]) for rows in map(having.__getitem__, rarest)]
    mean = float(lengths.sum()) / max(len(ids), 1) or 1.0
    return rank_passages(terms, len(ids), mean, unseen=len(asked) - len(rarest))
