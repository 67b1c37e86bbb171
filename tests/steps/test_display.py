"""Short reprs: bounded whatever the value is, never an error, never more than one line."""

from __future__ import annotations

from collections import Counter, deque, namedtuple
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import MODERATE, json_values, texts
from work import cpu_seconds

from tinymem.steps.display import hanging, one_line, short_repr


@dataclass
class Row:
    x: int
    y: Any
    hidden: int = field(default=0, repr=False)


class Raising:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


class Lines:
    def __repr__(self) -> str:
        return "one\n   two\r\nthree\x0bfour\u2028five\x00\ud800"


class Colour(Enum):
    RED = 1


Point = namedtuple("Point", "a b")
LOOP: list[object] = [1]
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value",
    [None, True, 1.5, "it's", b"x\n", [1, [2, ("a",)]], (1,), {1: {"a": 2}}, set(), {3}, frozenset({7}),
     Counter("aab"), Row(1, [2], 3), Point(1, [2]), Colour.RED, SimpleNamespace(a=1), np.arange(3), "\ud800\x00\u2028"],
)  # fmt: skip
def test_what_is_short_looks_as_python_shows_it(value: object) -> None:
    assert short_repr(value) == repr(value)


@MODERATE
@given(json_values())
def test_json_values_look_as_python_shows_them_up_to_the_cut(value: object) -> None:
    whole = repr(value)
    assert short_repr(value, 10_000) == whole
    short = short_repr(value, 20)
    assert short == whole or (len(short) == 21 and short.endswith("…"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Raising(ValueError("no\nway")), "<Raising, whose repr raises ValueError>"),
        ([1, Raising(OSError())], "[1, <Raising, whose repr raises OSError>]"),
        (Lines(), "one two three four five\ufffd\ufffd"),
        ("y" * 101, "'" + "y" * 99 + "…"),
        ([10**9_000], "[<int, whose repr raises ValueError>]"),
        (LOOP, "[1, " * 25 + "…"),
    ],
)  # fmt: skip
def test_what_is_hostile_is_shown_and_does_no_harm(value: object, shown: str) -> None:
    assert short_repr(value) == shown


def test_huge_values_cost_no_more_than_small_ones() -> None:
    huge = [0] * 1_000_000
    nested: Any = frozenset()
    for _ in range(80):
        nested = frozenset([nested, 1])
    text = "x" * 5_000_000
    values = (huge, [huge] * 9, {"a": huge}, deque(huge, 4), text, text.encode(), nested, [nested])
    assert all(len(short_repr(value)) <= 101 for value in values)
    assert any(cpu_seconds(lambda: [short_repr(v) for v in values]) < cpu_seconds(lambda: repr(huge)) for _ in range(5))


@MODERATE
@given(texts(200))
def test_no_line_but_the_first_begins_at_the_margin(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1
    assert all(line.startswith("    ") for line in hanging(text).splitlines()[1:])
    hanging(text).encode()
