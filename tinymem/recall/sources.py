"""Sources of candidates: recall asks one of them, whichever engine keeps the memory.

Most memories are asked by their snapshot, which has all passages, beside the full text of the journal. Where the engine
finds the passages worth a close look by itself, it returns a slice of the memory, and everything behind that is the
same: what a feature asks of the whole, the engine has counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Facts, Finder, Ids, Journal, Slice, Sought
from tinymem.recall.candidates import AROUND, NAMED, NEAREST, Candidates, Nearest, gather
from tinymem.recall.query.analysis import Query
from tinymem.recall.query.identifiers import Codes, Seen
from tinymem.recall.snapshot import Snapshot
from tinymem.stores.filter import Filter

__all__ = ["EngineSource", "Gathered", "SnapshotSource", "Source"]

Neighbours: TypeAlias = "Callable[[Snapshot, npt.NDArray[np.bool_]], Nearest | None]"


class Gathered(NamedTuple):
    """The candidates for a question, the snapshot whose rows they are, and which of its rows may come back."""

    snapshot: Snapshot
    allowed: npt.NDArray[np.bool_]
    candidates: Candidates


class Source(Protocol):
    """The passages that may come back for one question, of one state of the memory."""

    @property
    def facts(self) -> Facts:
        """Figures of the whole memory that the question is analysed with."""
        ...

    @property
    def dimensions(self) -> int:
        """The dimensions of its vectors."""
        ...

    @property
    def rewrites(self) -> int:
        """The number of times that steps had been forgotten or marked."""
        ...

    def explain_nothing(self) -> str | None:
        """Return a note that says why no passage may come back, which may be ""; None where some may."""
        ...

    def gather(self, query: Query) -> Gathered:
        """Return the candidates."""
        ...


class SnapshotSource:
    """All passages: a snapshot, the journal's full text, and `neighbours`, an index for the rows that are allowed."""

    def __init__(
        self, journal: Journal, snapshot: Snapshot, only: Filter, hidden: Collection[int], neighbours: Neighbours
    ) -> None:
        self._journal, self._snapshot, self._only, self._neighbours = journal, snapshot, only, neighbours
        self._allowed = snapshot.allowed(only, hidden)
        self.facts, self.dimensions, self.rewrites = snapshot.facts, snapshot.dimensions, snapshot.rewrites

    def explain_nothing(self) -> str | None:
        """Return a note with the names in the filter that no step has, where no passage may come back."""
        if self._allowed.any():
            return None
        unknown: list[str] = []
        for name in ("session", "speaker", "tool"):
            value = getattr(self._only, name)
            if value is not None and not Filter(**{name: value}).mask(self._snapshot).any():
                unknown.append(f"{name} {value!r}")
        return f"no step has the {' or the '.join(unknown)}" if unknown else ""

    def gather(self, query: Query) -> Gathered:
        """Return candidates from the index where the rows are many and the index works, else from an exact search."""
        snapshot, allowed = self._snapshot, self._allowed
        among = None if allowed.all() else snapshot.id[allowed]
        lexical = self._journal.search_text(query.topic, among)
        found = gather(query, snapshot, lexical, allowed, self._neighbours(snapshot, allowed))
        return Gathered(snapshot, allowed, _look_names_up(found, query, self._journal))


class EngineSource:
    """The passages that the engine finds for a question. `empty` is a snapshot without passages."""

    def __init__(
        self, journal: Journal, finder: Finder, empty: Snapshot, only: Filter, hidden: Collection[int]
    ) -> None:
        self._journal, self._finder, self._empty = journal, finder, empty
        self._only, self._hidden = only, hidden
        self.facts, self.dimensions, self.rewrites = finder.facts, empty.dimensions, empty.rewrites

    def explain_nothing(self) -> None:
        """Return None: the engine is asked."""

    def gather(self, query: Query) -> Gathered:
        """Return the slice of the memory that has the candidates, and these; FormatError if the journal is damaged."""
        sought = Sought(
            query.topic, query.vectors, query.named, query.spans, self._only, sorted(self._hidden),
            NEAREST, AROUND, NAMED, query.is_stretch,
        )  # fmt: skip
        try:
            found = self._finder.find(sought)
            snapshot = self._empty if found.passages is None else self._empty.with_columns(found.passages)
        except (ValueError, TypeError, OverflowError) as error:  # as when all are read
            raise self._journal.damaged(error) from error
        snapshot.whole, snapshot.frequency = self.facts, found.named
        snapshot.seen = _Introduced(found, snapshot.id)
        allowed = snapshot.allowed(self._only, self._hidden)
        candidates = gather(query, snapshot, found.lexical, allowed, None, found.share)
        return Gathered(snapshot, allowed, _look_names_up(candidates, query, self._journal))


def _look_names_up(found: Candidates, query: Query, journal: Journal) -> Candidates:
    """Return candidates that know whether the question has a name that stands nowhere."""
    if not query.names or not found.unseen:
        return found
    return replace(found, is_strange=journal.search_text(" ".join(query.names)).unseen > 0)


class _Introduced(Seen):
    """The first passage of each identifier in a slice, as the journal knows it."""

    def __init__(self, found: Slice, ids: Ids) -> None:
        self._ids = ids
        self._first = {code: first for code, first, _ in found.seen}
        self._typed = {code for code, _, typed in found.seen if typed is not None}

    def introduced(self, codes: Codes, rows: Ids) -> npt.NDArray[np.bool_]:
        firsts = np.array([self._first.get(code, -1) for code in codes.tolist()], np.int64)
        introduced: npt.NDArray[np.bool_] = firsts == self._ids[rows]
        return introduced

    def typed(self, codes: Codes) -> npt.NDArray[np.bool_]:
        return np.array([code in self._typed for code in codes.tolist()], np.bool_)
