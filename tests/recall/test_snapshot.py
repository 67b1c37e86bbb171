"""The snapshot: the same arrays, however they came together, and never changed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from contract import unit_vectors
from hypothesis import given
from hypothesis import strategies as st
from memories import START, catalog_of, passage_rows
from strategies import MODERATE

from tinymem.protocols import Vectors
from tinymem.recall.snapshot import SAID, Room, Snapshot

CODES = (4 * np.arange(1, 4, dtype="<u4")).tobytes()  # of three identifiers
FIELDS = ("id", "step", "part", "start", "end", "kind", "reply", "asks", "milestone", "session", "speaker", "time")


@MODERATE
@given(st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=150), max_size=8))
def test_an_array_with_room_is_what_was_appended(chunks: list[list[int]]) -> None:
    room, before = Room(np.empty(0, np.int64)), list[npt.NDArray[np.int64]]()
    for chunk in chunks:
        room = room.followed(room.used, np.array(chunk, np.int64))
        before.append(room.data[: room.used])
    every = [value for chunk in chunks for value in chunk]
    for array in before:
        assert array.tolist() == every[: len(array)], "what is appended later changes nothing"


def test_two_that_go_on_from_one_snapshot_share_no_rows() -> None:
    rows = passage_rows(unit_vectors(3, 4), session=["a", "b", "c"], identifiers=[CODES[:4], CODES[4:8], CODES[8:]])
    first = Snapshot(4).with_tail(rows[:1])
    second, third = first.with_tail(rows[1:2]), first.with_tail(rows[2:])
    assert [len(first), second.id.tolist(), third.id.tolist()] == [1, [1, 2], [1, 3]]
    assert [*first.sessions] == ["a"] and [*second.sessions] == ["a", "b"] and [*third.sessions] == ["a", "c"]
    codes = np.frombuffer(CODES, "<u4")
    assert third.seen.introduced(codes, np.array([0, 1, 1])).tolist() == [True, False, True]
    assert second.seen.introduced(codes, np.array([0, 1, 1])).tolist() == [True, True, False]


def test_what_follows_a_snapshot_must_come_behind_it() -> None:
    snapshot = catalog_of(unit_vectors(3, 4), session=["a", None, "b"])
    with pytest.raises(ValueError, match="passage 3 is out of order"):
        snapshot.with_tail(passage_rows(unit_vectors(1, 4), id=[3]))
    longer = snapshot.with_tail(passage_rows(unit_vectors(2, 4), [3, 4], id=[4, 5], session=["b", "c"]))
    assert longer.session[3:].tolist() == [1, 2] and longer.last_id == 5 and len(snapshot) == 3
    assert longer.rooms["id"] is snapshot.rooms["id"], "nothing is copied where there is room"


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
    at_once, piecewise = Snapshot(4).with_tail(rows), Snapshot(4)
    for start in range(0, len(rows), size):
        piecewise = piecewise.with_tail(rows[start : start + size])
    assert piecewise.with_tail([]) is piecewise
    assert len(piecewise) == 200
    for name in FIELDS:
        assert np.array_equal(getattr(piecewise, name), getattr(at_once, name)), name
    assert np.array_equal(piecewise.vectors, at_once.vectors)
    codes, lengths = at_once.identifiers_of(np.arange(200))
    of_row = np.repeat(np.arange(200), lengths)
    grown, grown_lengths = piecewise.identifiers_of(np.arange(200))
    assert np.array_equal(grown, codes) and np.array_equal(grown_lengths, lengths)
    for seen in (piecewise.seen, at_once.seen):
        assert np.array_equal(seen.introduced(codes, of_row), at_once.seen.introduced(codes, of_row))
        assert np.array_equal(seen.typed(codes), at_once.seen.typed(codes))
    assert piecewise.sessions == at_once.sessions == {"a": 0, "b": 1, "": 2}


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


def test_an_empty_snapshot_has_empty_arrays() -> None:
    catalog = Snapshot(4)
    assert (len(catalog), catalog.last_id, catalog.vectors.shape) == (0, 0, (0, 4))
    assert all(len(getattr(catalog, name)) == 0 for name in FIELDS)
    assert [len(part) for part in catalog.identifiers_of(np.array([], np.int64))] == [0, 0]


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
