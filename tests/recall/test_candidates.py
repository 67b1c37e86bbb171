"""Which passages are looked at closely: what exact search finds, what BM25 finds, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from contract import unit_vectors
from memories import LATER, START, catalog_of

from tinymem.protocols import Lexical, Vectors
from tinymem.recall.candidates import AROUND, EVERYTHING, NEAREST, gather
from tinymem.recall.query.analysis import Query
from tinymem.recall.query.dates import Span
from tinymem.recall.snapshot import Snapshot

MANY = 2_000
VECTORS = unit_vectors(MANY, 16)
CATALOG = catalog_of(VECTORS)


def asked(*vectors: Vectors, spans: tuple[Span, ...] = ()) -> Query:
    return Query("question", np.stack(vectors), LATER, spans=spans)


def seconds(first: int, end: int) -> Span:
    """The span in which the rows from `first` up to `end` happened, a second each."""
    return START.timestamp() + first, START.timestamp() + end


def everything(catalog: Snapshot) -> npt.NDArray[np.bool_]:
    return np.ones(len(catalog), np.bool_)


def hits(**scores: float) -> Lexical:
    """BM25 by passage id, as in `hits(p7=0.5)`."""
    return lexical_of([int(name[1:]) for name in scores], [*scores.values()])


def lexical_of(ids: Sequence[int], scores: Sequence[float]) -> Lexical:
    """What a search for one term found."""
    terms = np.ones(len(ids), np.uint32)
    return Lexical(np.array(ids, np.int64), np.array(scores, np.float32), terms, np.ones(1, np.float32), 0.0)


NO_HITS = lexical_of([], [])


QUERY = asked(unit_vectors(1, 16, seed=5)[0])


@pytest.mark.parametrize("size", [1, 2, EVERYTHING])
def test_a_small_memory_is_looked_at_whole(size: int) -> None:
    catalog = catalog_of(VECTORS[:size])
    found = gather(QUERY, catalog, hits(p1=0.5), everything(catalog))
    assert found.rows.tolist() == list(range(size))
    assert np.allclose(found.cosine, catalog.vectors @ QUERY.vectors[0], atol=1e-6)
    assert found.bm25.tolist() == [0.5] + [0] * (size - 1)


def test_of_a_large_memory_the_nearest_are_looked_at() -> None:
    found = gather(QUERY, CATALOG, NO_HITS, everything(CATALOG))
    exact = np.argsort(-(CATALOG.vectors @ QUERY.vectors[0]), kind="stable")
    assert set(exact[:NEAREST].tolist()) <= set(found.rows.tolist())
    beside = {row + by for row in exact[:AROUND].tolist() for by in (-1, 1)} & set(range(MANY))
    assert set(found.rows.tolist()) == set(exact[:NEAREST].tolist()) | beside
    assert (np.diff(found.rows) > 0).all()


def test_what_bm25_finds_is_looked_at_with_what_stands_beside_it() -> None:
    without = set(gather(QUERY, CATALOG, NO_HITS, everything(CATALOG)).rows.tolist())
    row = next(row for row in range(5, MANY) if not {row - 1, row, row + 1} & without)
    found = gather(QUERY, CATALOG, hits(**{f"p{row + 1}": 0.7}), everything(CATALOG))
    assert set(found.rows.tolist()) == without | {row - 1, row, row + 1}
    assert found.bm25[row] == np.float32(0.7)


def test_the_nearest_of_the_days_that_are_asked_about_come_too() -> None:
    without = set(gather(QUERY, CATALOG, NO_HITS, everything(CATALOG)).rows.tolist())
    query = asked(QUERY.vectors[0], spans=(seconds(100, 110), seconds(1_500, 1_503)))  # the end is not in it
    rows = set(gather(query, CATALOG, NO_HITS, everything(CATALOG)).rows.tolist())
    cosine = CATALOG.vectors @ QUERY.vectors[0]
    then = {row for row in (*range(100, 111), *range(1_500, 1_503)) if cosine[row] > 0}
    assert then - without, "the date brings something that the vectors alone do not"
    assert rows == without | {row + by for row in then for by in (-1, 0, 1)}


def test_days_that_are_asked_about_bring_nothing_that_is_not_allowed() -> None:
    allowed = everything(CATALOG)
    allowed[100:200] = False
    query = asked(QUERY.vectors[0], spans=(seconds(150, 250),))
    rows = gather(query, CATALOG, NO_HITS, allowed).rows
    assert allowed[rows].all()
    assert set(rows.tolist()) >= {row for row in range(200, 250) if CATALOG.vectors[row] @ QUERY.vectors[0] > 0}


def test_where_no_signal_says_anything_nothing_is_looked_at() -> None:
    catalog = catalog_of(np.zeros_like(VECTORS))
    assert gather(QUERY, catalog, NO_HITS, everything(catalog)).rows.tolist() == []
    away = catalog_of(np.tile(-QUERY.vectors[0], (MANY, 1)))
    assert gather(QUERY, away, NO_HITS, everything(away)).rows.tolist() == []


def test_all_passages_of_a_step_come_with_its_best_one() -> None:
    steps = [at // 4 for at in range(MANY)]
    catalog = catalog_of(VECTORS, steps)
    rows = set(gather(QUERY, catalog, NO_HITS, everything(catalog)).rows.tolist())
    best = int((catalog.vectors @ QUERY.vectors[0]).argmax())
    first = 4 * (best // 4)
    assert set(range(max(0, first - 1), min(MANY, first + 5))) <= rows


def test_only_what_is_allowed_comes() -> None:
    exact = np.argsort(-(CATALOG.vectors @ QUERY.vectors[0]), kind="stable")
    allowed = everything(CATALOG)
    allowed[exact[:500]] = False
    found = gather(QUERY, CATALOG, hits(p1=1, p2=2), allowed)
    assert allowed[found.rows].all()
    assert set(exact[500 : 500 + NEAREST].tolist()) <= set(found.rows.tolist())
    some = np.zeros_like(allowed)
    some[[3, 900]] = True
    assert set(gather(QUERY, CATALOG, hits(p4=1), some).rows.tolist()) <= {3, 900}
    assert gather(QUERY, CATALOG, hits(p4=1), np.zeros_like(allowed)).rows.tolist() == []


def test_statements_in_a_run_are_compared_among_themselves() -> None:
    """The nearest ones are candidates, wherever output of tools stands that is closer."""
    vectors = VECTORS.copy()
    statements = np.arange(100, MANY, 20)
    vectors[statements] += 3 * QUERY.vectors[0] * (-1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kind = np.full(MANY, "observation", object)
    kind[statements] = "message"
    catalog = catalog_of(vectors, kind=kind.tolist())
    allowed = everything(catalog)
    found = gather(QUERY, catalog, NO_HITS, allowed)
    closest = statements[np.argsort(-(vectors[statements] @ QUERY.vectors[0]), kind="stable")]
    assert set(closest[:10].tolist()) <= set(found.rows.tolist())
    assert np.count_nonzero(found.stated) == len(statements) and found.stated.max() == 1
    allowed[np.argmax(found.stated)] = False
    assert gather(QUERY, catalog, NO_HITS, allowed).stated.argmax() != found.stated.argmax()
