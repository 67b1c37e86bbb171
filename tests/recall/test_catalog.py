"""The catalog: the same arrays, however they came together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import START, catalog_of, passage_rows
from strategies import MODERATE

from tinymem.protocols import Vectors
from tinymem.recall.catalog import SAID, Catalog, Growing
from tinymem.testing import unit_vectors

FIELDS = ("id", "step", "part", "start", "end", "kind", "reply", "asks", "milestone", "session", "speaker", "time")


@MODERATE
@given(st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=150), max_size=8))
def test_a_growing_array_is_what_was_appended(chunks: list[list[int]]) -> None:
    growing = Growing(np.int64)
    for chunk in chunks:
        growing.extend(chunk)
    assert growing.array.tolist() == [value for chunk in chunks for value in chunk]


@MODERATE
@given(st.lists(st.integers(0, 90), max_size=6))
def test_a_growing_matrix_is_what_was_appended(sizes: list[int]) -> None:
    growing, rows = Growing(np.float32, 3), np.random.default_rng(0).normal(size=(sum(sizes), 3)).astype(np.float32)
    for start, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
        growing.extend(rows[start : start + size])
    assert growing.array.shape == rows.shape
    assert np.array_equal(growing.array, rows)


def test_an_array_over_what_cannot_be_written_is_copied_when_it_grows() -> None:
    data = np.arange(10)
    data.flags.writeable = False
    growing = Growing.over(data, 4)
    assert growing.array.tolist() == [0, 1, 2, 3] and growing.array.base is data
    growing.extend([7, 8])
    assert growing.array.tolist() == [0, 1, 2, 3, 7, 8] and data.tolist() == [*range(10)]


def test_what_follows_a_catalog_must_come_behind_it() -> None:
    catalog = catalog_of(unit_vectors(3, 4), session=["a", None, "b"])
    piece = catalog.following()
    with pytest.raises(ValueError, match="passage 3 is out of order"):
        piece.extend(passage_rows(unit_vectors(1, 4), id=[3]))
    piece = catalog.following()
    piece.extend(passage_rows(unit_vectors(2, 4), [3, 4], id=[4, 5], session=["b", "c"]))
    assert piece.session.tolist() == [1, 2] and piece.last_id == 5 and len(catalog) == 3


KINDS = ("message", "reply", "observation", "error", "thought", "code", "call", "final_answer")


def some_rows(count: int) -> tuple[Vectors, dict[str, list[object]]]:
    columns: dict[str, list[object]] = {
        "kind": [
            ["message", "reply", "observation", "error", "thought", "code", "call", "final_answer"][i % 8]
            for i in range(count)
        ],
        "milestone": [i % 8 == 7 for i in range(count)],
        "session": [[None, "a", "b", ""][i // 3 % 4] for i in range(count)],
        "speaker": [[None, "Ana", "Ben"][i % 3] for i in range(count)],
        "asks": [i % 2 for i in range(count)],
        "identifiers": [np.arange(9 * i, 9 * i + 12, dtype="<u4").tobytes()[: 4 * (i % 13)] for i in range(count)],
    }
    return unit_vectors(count, 4), columns


@pytest.mark.parametrize("size", [1, 7, 64, 200])
def test_rows_loaded_in_pieces_are_the_rows_loaded_at_once(size: int) -> None:
    vectors, columns = some_rows(200)
    rows = passage_rows(vectors, None, **columns)
    at_once, piecewise = Catalog(4), Catalog(4)
    at_once.extend(rows)
    for start in range(0, len(rows), size):
        piecewise.extend(rows[start : start + size])
    piecewise.extend([])
    assert len(piecewise) == 200
    for name in FIELDS:
        assert np.array_equal(getattr(piecewise, name), getattr(at_once, name)), name
    assert np.array_equal(piecewise.vectors, at_once.vectors)
    codes, lengths = at_once.identifiers_of(np.arange(200))
    of_row = np.repeat(np.arange(200), lengths)
    grown, grown_lengths = piecewise.identifiers_of(np.arange(200))
    assert np.array_equal(grown, codes) and np.array_equal(grown_lengths, lengths)
    for seen in (piecewise.seen, at_once.seen):
        assert seen.has_room(len(codes))
        assert np.array_equal(seen.introduced(codes, of_row), at_once.seen.introduced(codes, of_row))
        assert np.array_equal(seen.typed(codes), at_once.seen.typed(codes))
    assert piecewise.sessions.names == at_once.sessions.names == {"a": 0, "b": 1, "": 2}


def test_each_row_is_what_the_journal_has() -> None:
    vectors, columns = some_rows(24)
    catalog = catalog_of(vectors, [i // 2 for i in range(24)], **columns)
    assert catalog.vectors.dtype == np.float32
    assert np.allclose(catalog.vectors, vectors, atol=1e-3)
    assert np.allclose(np.linalg.norm(catalog.vectors, axis=1), 1, atol=1e-6), "half precision does not shorten them"
    assert catalog.kind[:8].tolist() == [SAID, SAID, 0, 0, 1, 1, 1, SAID]
    assert catalog.reply[:8].tolist() == [False, True, False, False, False, False, False, True]
    assert catalog.milestone[:8].tolist() == columns["milestone"][:8] == [False] * 7 + [True]
    assert catalog.session[:12].tolist() == [-1] * 3 + [0] * 3 + [1] * 3 + [2] * 3
    assert catalog.speaker[:3].tolist() == [-1, 0, 1]
    assert catalog.step[:4].tolist() == [0, 0, 1, 1]
    assert catalog.time[3] == START.timestamp() + 3
    assert catalog.last_id == 24


def test_an_empty_catalog_has_empty_arrays() -> None:
    catalog = Catalog(4)
    assert (len(catalog), catalog.last_id, catalog.vectors.shape) == (0, 0, (0, 4))
    assert all(len(getattr(catalog, name)) == 0 for name in FIELDS)
    assert [len(part) for part in catalog.identifiers_of(np.array([], np.int64))] == [0, 0]


def test_what_a_catalog_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = Catalog(4).nonsense


@MODERATE
@given(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=6), min_size=1, max_size=12), st.data())
def test_identifiers_come_back_passage_by_passage(names: list[list[int]], data: st.DataObject) -> None:
    catalog = catalog_of(
        np.zeros((len(names), 4), np.float32), identifiers=[np.array(some, "<u4").tobytes() for some in names]
    )
    rows = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=20))
    held, lengths = catalog.identifiers_of(np.array(rows, np.int64))
    assert lengths.tolist() == [len(names[row]) for row in rows]
    assert held.tolist() == [name for row in rows for name in names[row]]
