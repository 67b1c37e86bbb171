"""Slices of a memory whose passages are too many to be read: those that its journal finds for one question.

Everything behind that is the same as over all passages; what a feature asks of the whole, the journal has counted.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids, Slice, SliceRequest, Slicing, Survey
from tinymem.recall.candidates import AROUND, NAMED, NEAREST, Candidates, gather
from tinymem.recall.query.analysis import Query
from tinymem.recall.query.identifiers import Codes, Seen
from tinymem.recall.snapshot import Snapshot
from tinymem.stores.filter import Filter

__all__ = ["Outline", "gather_slice"]


class Outline(Snapshot):
    """A catalog without passages, that knows as much of them as the analysis of a question asks."""

    def __init__(self, survey: Survey, dimensions: int) -> None:
        super().__init__(dimensions)
        self.whole, self.last, self.survey = survey.passages, survey.last, survey


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


def gather_slice(
    journal: Slicing, query: Query, outline: Outline, only: Filter, hidden: Collection[int]
) -> tuple[Snapshot, Candidates]:
    """Return the slice of a memory that has the candidates for a question, and the candidates among its rows."""
    sought = SliceRequest(
        query.topic, query.vectors, query.named, query.spans, only, sorted(hidden),
        NEAREST, AROUND, NAMED, query.is_stretch,
    )  # fmt: skip
    found = journal.sliced(sought)
    catalog = Snapshot(outline.dimensions)
    if found.passages is not None:
        catalog = catalog.with_columns(found.passages)
    catalog.whole, catalog.last, catalog.frequency = outline.whole, outline.last, found.named
    catalog.seen = _Introduced(found, catalog.id)
    return catalog, gather(query, catalog, found.lexical, catalog.allowed(only, hidden), None, found.share)
