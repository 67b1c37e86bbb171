"""Values that JSON holds come back equal; what JSON does not hold is refused."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE, texts

import tinymem.steps.values
from tinymem.errors import InputError
from tinymem.steps.values import to_plain


def values() -> st.SearchStrategy[Any]:
    atoms = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts(),
        st.sampled_from(["$type", -(2**70), -0.0]),
    )  # fmt: skip
    return st.recursive(
        atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(5), inner, max_size=3), max_leaves=8
    )


@MODERATE
@given(values())
def test_what_is_kept_comes_back_equal_and_is_a_copy(value: Any) -> None:
    plain = to_plain(value)
    assert repr(json.loads(json.dumps(plain, allow_nan=False))) == repr(value)
    assert plain is not value or not isinstance(value, (list, dict))


def test_a_tuple_becomes_a_list_and_a_class_of_somebodys_own_its_base() -> None:
    twice = [1]
    assert to_plain({"size": (2, (3,)), "twice": [twice, twice]}) == {"size": [2, [3]], "twice": [[1], [1]]}
    plain = to_plain(OrderedDict(a=(1,)))
    assert plain == {"a": [1]} and type(plain) is dict
    assert to_plain(deep(100)) == deep(100)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def doubled(levels: int) -> list[Any]:
    """Small in memory, and of 2 ** levels items when it is written down."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value, value]
    return value


def looped() -> list[Any]:
    value: list[Any] = []
    value.append({"again": (value,)})
    return value


@pytest.mark.parametrize(
    "value",
    [{1: 2}, {1}, b"a", math.nan, -math.inf, 10**9_000, [1, {"2": object()}], looped(), deep(101)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_json_does_not_hold_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="cannot be saved"):
        to_plain(value)


def test_what_grows_without_end_when_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinymem.steps.values, "MOST_PIECES", 30_000)
    with pytest.raises(InputError, match="cannot be saved"):
        to_plain(doubled(40))
    assert to_plain(doubled(12)) == doubled(12)
