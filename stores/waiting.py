"""Passages that wait for a failing embedder, not in the journal yet, but found by full-text search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tinymem.protocols import Ids, Mark
from tinymem.stores.bm25 import Occurrences

__all__ = ["NOTHING", "Waiting"]


class Waiting:
    """The terms of the passages `since` a mark, which get the ids from `first` on once they are in the journal.

    `until` is the mark after the last of them, `total` the length of all.
    """

    def __init__(self, since: Mark, first: int) -> None:
        self.since = self.until = since
        self.total = 0
        self._first = first
        self._sizes: list[int] = []
        self._having: dict[str, tuple[list[int], list[int]]] = {}  # by stem: the passages, and how often each has it

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def end(self) -> int:
        """The id after the last one."""
        return self._first + len(self)

    def extend(self, until: Mark, terms: Sequence[Counter[str]]) -> range:
        """Add passages up to the mark `until`, given as counts of their stems, and return their ids."""
        before = self.end
        for id, counted in enumerate(terms, before):
            for stem, times in counted.items():
                ids, counts = self._having.setdefault(stem, ([], []))
                ids.append(id)
                counts.append(times)
            self._sizes.append(counted.total())
            self.total += self._sizes[-1]
        self.until = until
        return range(before, self.end)

    def count(self, stem: str) -> int:
        """Count the passages that have `stem`."""
        return len(self._having.get(stem, ((), ()))[0])

    def having(self, stem: str) -> Occurrences:
        """Return the passages with `stem`."""
        ids, times = self._having.get(stem, ((), ()))
        return Occurrences(np.array(ids, np.int64), np.array(times, np.int64), self._lengths(ids))

    def added_to(self, stem: str, held: Occurrences) -> Occurrences:
        """Return the passages with `stem` that are `held` in an index, and those that wait."""
        if not self.count(stem):
            return held
        return Occurrences(*(np.concatenate(both) for both in zip(held, self.having(stem), strict=True)))

    def _lengths(self, ids: Sequence[int]) -> Ids:
        return np.array([self._sizes[id - self._first] for id in ids], np.int64)


NOTHING = Waiting(Mark(0, 0), 0)
