"""The snapshot: the same arrays, however they came together, and never changed."""

from __future__ import annotations

import numpy as np
import pytest
from contract import unit_vectors
from memories import passage_rows

from tinymem.protocols import Vectors
from tinymem.recall.snapshot import Snapshot

CODES = (4 * np.arange(1, 4, dtype="<u4")).tobytes()  # of three identifiers
FIELDS = ("id", "step", "part", "start", "end", "kind", "reply", "asks", "milestone", "session", "speaker", "time")


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
    snapshot = Snapshot(4).with_tail(passage_rows(unit_vectors(3, 4)))
    with pytest.raises(ValueError, match="passage 3 is out of order"):
        snapshot.with_tail(passage_rows(unit_vectors(1, 4), id=[3]))


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
        assert np.array_equal(seen.typed(codes, 200), at_once.seen.typed(codes, 200))
    assert piecewise.sessions == at_once.sessions == {"a": 0, "b": 1, "": 2}
