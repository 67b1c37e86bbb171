"""BM25 over passages in memory: the query's words against hashed words, in numpy, without an index.

Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), with k1 = 1.2 and b = 0.75, each word counted once
a passage; scaled as `tinymem.stores.fulltext` scales it, so that the published fusion weights fit both.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from tinymem.protocols import TokenIds, Vectors
from tinymem.stores.fulltext import MAX_TERMS, MAX_WORDS, words

__all__ = ["hashed", "overlap"]

K1, B = 1.2, 0.75


def hashed(text: str, most: int | None = None) -> TokenIds:
    """A 32-bit code for each of the (first `most`) words of `text` that say what it is about: `(words,)` uint32."""
    return np.array([zlib.crc32(word.encode("utf-8", "replace")) for word in words(text)[:most]], np.uint32)


def overlap(query: str, passages: Sequence[TokenIds]) -> Vectors:
    """BM25 of each passage (its hashed words) for the query's rarest words: `(len(passages),)`, about 0 to 1."""
    asked = np.unique(hashed(query, MAX_WORDS))
    lengths = np.array([len(codes) for codes in passages])
    total = len(passages)
    if not len(asked) or not lengths.sum():
        return np.zeros(total, np.float32)
    said = np.concatenate(passages)
    at = np.minimum(np.searchsorted(asked, said), len(asked) - 1)
    hits = np.flatnonzero(asked[at] == said)
    seen = np.bincount(at[hits], minlength=len(asked))
    idf = np.maximum(1e-6, np.log((total - seen + 0.5) / (seen + 0.5)))
    rarest = np.argsort(np.where(seen > 0, seen, total + 1), kind="stable")[:MAX_TERMS]
    weights = np.zeros(len(asked))
    weights[rarest] = np.where(seen > 0, idf, 0)[rarest]
    owner = np.repeat(np.arange(total), lengths)[hits]
    found = np.bincount(owner, weights=weights[at[hits]], minlength=total)
    share = (K1 + 1) / (1 + K1 * (1 - B + B * lengths / lengths.mean()))
    scores: Vectors = (found * share / max(weights.sum(), 1e-6)).astype(np.float32)
    return scores
