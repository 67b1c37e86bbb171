"""Near-duplicates: of passages that say the same, the best is enough.

Agents list the same folder and open the same file again and again; the tokens of a repetition are better spent. The
wording counts, not the meaning: two lists that differ in their numbers are close in meaning, and both are needed.
Wordings are compared as sets of shingles, three words each (Broder, On the resemblance and containment of documents,
1997): their resemblance is the Jaccard index.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Vectors
from tinymem.steps.checks import a_number
from tinymem.stores.words import MAX_TERMS, MAX_WORDS, words

__all__ = ["DIVERSITY", "Repetitions", "hashed", "overlap"]

DIVERSITY = 0.1  # a passage repeats another where their resemblance is 1 - DIVERSITY or more
SHORT = 80  # characters below which a passage repeats only what is word for word the same,
LEAST = 3  # and nothing if it has fewer words: an answer such as "yes" means what it answers
_WORD = re.compile(r"\w+|[^\w\s]")


class Repetitions:
    """A register of wordings that finds repetitions. With a `diversity` of 0 nothing is one, with 1 everything."""

    def __init__(self, diversity: float = DIVERSITY) -> None:
        self.diversity = a_number("diversity", diversity, 0, 1)
        self._least = 1 - self.diversity
        self._taken: list[set[int]] = []  # hashed shingles of each wording
        self._known: set[int] = set()  # of all
        self._short: set[tuple[str, ...]] = set()  # short wordings, each with who said it

    def take(self, said: str, by: str = "") -> bool:
        """Note the words `said` by somebody, unless they repeat something: False then."""
        if self._least == 1:
            return True
        words = [by, *_WORD.findall(said.lower())]
        if len(said) < SHORT:
            return self._take_short(tuple(words))
        shingles = {*map(hash, zip(words, words[1:], words[2:], strict=False))}
        may_repeat = len(shingles & self._known) >= self._least * len(shingles)  # quicker, and few do
        if may_repeat and any(self._resemble(shingles, other) for other in self._taken):
            return False
        self._taken.append(shingles)
        self._known |= shingles
        return True

    def _take_short(self, words: tuple[str, ...]) -> bool:
        if words in self._short:
            return False
        if sum(word[0].isalnum() for word in words[1:]) >= LEAST:
            self._short.add(words)
        return True

    def _resemble(self, one: set[int], other: set[int]) -> bool:
        size, least = len(one) + len(other), self._least
        if min(len(one), len(other)) < least * max(len(one), len(other)):  # quicker, and true of most
            return False
        shared = len(one & other)
        return shared > 0 and shared >= least * (size - shared)


K1, B = 1.2, 0.75


def hashed(text: str, most: int | None = None) -> npt.NDArray[np.uint32]:
    """Hash each of the (first `most`) words of `text` that are no stop words: `(words,)` uint32."""
    return np.array([zlib.crc32(word.encode("utf-8", "replace")) for word in words(text)[:most]], np.uint32)


def overlap(query: str, passages: Sequence[npt.NDArray[np.uint32]]) -> Vectors:
    """Score each passage (its hashed words) by BM25 for the query's rarest words: `(len(passages),)`, about 0 to 1."""
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
