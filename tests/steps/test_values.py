"""Values as JSON: exact round trips, and errors for what cannot be kept."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import MODERATE, texts

import tinymem.steps.values
from tinymem.errors import FormatError, InputError
from tinymem.steps.values import decode, encode


def through_json(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


def same(a: Any, b: Any) -> bool:
    """Equal, and of the same types all through."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a.items(), b.items(), strict=True))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (set, frozenset)):
        return sorted(map(shape, a)) == sorted(map(shape, b))
    return repr(a) == repr(b)  # nan, -0.0


def shape(member: Any) -> str:
    """A set's member as a text that tells its type and value, but not the order of sets in it."""
    if isinstance(member, (tuple, frozenset)):
        inside = [*map(shape, member)] if isinstance(member, tuple) else sorted(map(shape, member))
        return f"{type(member).__name__}{inside}"
    return f"{type(member).__name__} {member!r}"


def values() -> st.SearchStrategy[Any]:
    zones = st.none() | st.integers(-800, 800).map(lambda minutes: timezone(timedelta(minutes=minutes)))
    plain = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), texts(), st.binary(max_size=9), st.dates(),
        st.datetimes(timezones=zones).map(lambda time: time.replace(fold=0)),
        st.sampled_from(["$type", "\ud83d\ude00", 10**700, -(2**70), -0.0, math.nan, -math.inf]),
    )  # fmt: skip
    hashable = st.recursive(plain, lambda v: st.tuples(v, v) | st.frozensets(v, max_size=3), max_leaves=4)
    return st.recursive(
        hashable,
        lambda v: st.one_of(
            st.lists(v, max_size=3), st.tuples(v), st.dictionaries(texts(5) | hashable, v, max_size=3),
            st.sets(hashable, max_size=3), st.fixed_dictionaries({"$type": v, "value": v}),
        ),
        max_leaves=8,
    )  # fmt: skip


@MODERATE
@given(values())
@example([[1], date(2025, 3, 1), datetime(2025, 3, 1)])
def test_what_is_kept_comes_back_equal_and_of_the_same_types(value: Any) -> None:
    assert same(through_json(value), value)


def test_what_is_at_two_places_and_as_deep_as_allowed_is_kept_and_plain_json_looks_as_it_is() -> None:
    twice, long = [1], 10**9_000
    assert through_json([long, -long]) == [long, -long]
    assert through_json([twice, twice]) == [[1], [1]] and through_json(deep(100)) == deep(100)
    value = {"a": [1, 2.5, None, True, "x"], "b": {}}
    assert encode(value) == value


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


class Number(int):
    pass


class Named(str):
    pass


@pytest.mark.parametrize(
    "value",
    [object(), Number(3), Named("a"), {Named("a"): 1}, OrderedDict(a=1), sum, 1j, [1, {2: object()}], looped(),
     deep(101), datetime(2025, 3, 1, tzinfo=ZoneInfo("UTC")), datetime(2025, 3, 1, fold=1),
     datetime(2025, 3, 1, tzinfo=timezone(timedelta(0), "named"))],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_would_not_come_back_as_it_is_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="cannot be saved"):
        encode(value)


def test_what_grows_without_end_when_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinymem.steps.values, "MOST_ITEMS", 10_000)
    with pytest.raises(InputError, match="over 10000 items"):
        encode(doubled(40))
    assert through_json(doubled(12)) == doubled(12)


def test_a_set_is_written_the_same_in_every_order() -> None:
    words = [f"w{n}" for n in range(9)]
    assert encode(set(words))["value"] == words


@pytest.mark.parametrize(
    "coded",
    [{"$type": "frame", "value": 1}, {"$type": "tuple"}, {"$type": ["tuple"], "value": []},
     {"$type": "tuple", "value": "ab"}, {"$type": "set", "value": [[1]]}, {"$type": "int", "value": 3},
     {"$type": "int", "value": "zz"}, {"$type": "bytes", "value": "*"}, {"$type": "bytes", "value": 1},
     {"$type": "date", "value": "soon"}, {"$type": "dict", "value": [[1]]}, {"$type": "dict", "value": [[[], 1]]},
     {"$type": "float", "value": None}, [{"deep": {"$type": "str", "value": "/w=="}}]],
)  # fmt: skip
def test_json_that_was_never_written_is_a_format_error(coded: Any) -> None:
    with pytest.raises(FormatError):
        decode(coded)
