"""Exact filters, and the order in which candidates go to be packed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from contract import unit_vectors
from memories import LATER, START, catalog_of, fill, open_archive, said

from tinymem.protocols import Ids
from tinymem.recall.candidates import Candidates
from tinymem.recall.features import NAMES
from tinymem.recall.fusion import QUESTION, ScoredCandidates, load_weights
from tinymem.recall.query.analysis import Query
from tinymem.recall.search import Search
from tinymem.stores.filter import Filter


def test_filters_and_hidden_steps_hold_in_recall(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    fill(archive, [
        said(f"the key number {at}", at, session=f"s{at % 3}", speaker=["Ana", "Ben"][at % 2]) for at in range(1, 61)
    ])  # fmt: skip

    def numbers(**more: Any) -> list[int]:
        found = Search(archive).recall("the key number", 4_000, LATER, diversity=0, **more)
        return [item.step.step_number or 0 for item in found.items]

    assert numbers() == list(range(1, 61))
    assert numbers(hidden={3, 4, 60}) == [at for at in range(1, 61) if at not in (3, 4, 60)]
    assert numbers(hidden=range(1, 61)) == []
    assert numbers(only=Filter(session="s1", speaker="Ana")) == list(range(4, 61, 6))
    assert numbers(only=Filter(session="s9")) == []
    minute = timedelta(minutes=1)
    assert numbers(only=Filter(START + 10 * minute, START + 12 * minute)) == [10, 11, 12]
    assert numbers(only=Filter(since=START + 59 * minute, session="s0")) == [60]
    archive.close()


# ranking


def scored(vectors: Any, lengths: list[int], cosines: list[float]) -> ScoredCandidates:
    catalog = catalog_of(vectors, end=lengths)
    matrix = np.zeros((len(lengths), len(NAMES)), np.float32)
    matrix[:, NAMES.index("cosine")] = cosines
    kinds = np.full(len(lengths), QUESTION, np.int8)
    return ScoredCandidates(
        question(), catalog, candidates(np.arange(len(lengths)), len(lengths)), kinds, matrix, load_weights()
    )


def question() -> Query:
    return Query("What?", unit_vectors(1), LATER)


def candidates(rows: Ids, count: int) -> Candidates:
    """Candidates that no word has found."""
    nothing = np.zeros(count, np.float32)
    return Candidates(rows, nothing, nothing, nothing.astype(np.uint32), nothing[:0], 0.0, nothing)


def test_of_two_equally_good_passages_the_shorter_comes_first_and_of_equal_ones_the_older() -> None:
    ranked = scored(unit_vectors(3), [600, 100, 100], [0.5, 0.5, 0.5]).ranked(500)
    assert [passage.number for passage in ranked] == [2, 3, 1]
    assert ranked[0].score == ranked[2].score
    assert (ranked[2].start, ranked[2].end) == (0, 600)
