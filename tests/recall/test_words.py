"""Words of a stretch: what people and agent said and the arguments of calls, without what tools answered."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE
from work import grows_linearly

from tinymem import ActionStep, MessageStep, Step, TaskStep
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.recall.query.analysis import analyse
from tinymem.recall.query.words import MOST, stretch_of, words_of
from tinymem.steps.ids import utc_now
from tinymem.window.semantic import default_query

CALLS: list[Step] = [
    ActionStep(
        "I look for it.", tool_name="grep", tool_args={"pattern": "PORT", "n": 3}, observation="OUT 1\n OUT" * 90
    ),
    ActionStep("Now the server.", code="print('hello')", observation="OUT hello"),
    MessageStep("user", "Is it TLS?"),
    ActionStep(
        None, tool_name="read", tool_args={"path": ["a b.py", {"line": 7}], "all": True}, observation="OUT b " * 200
    ),
]


def test_a_short_newest_output_says_what_to_do_next() -> None:
    order, listing = "Now read the port of staging.", "a listing of all ports\\n" * 40
    older = ActionStep("First.", tool_name="ls", observation="short and old")
    for observation, is_read in ((order, True), (listing, False)):
        newest = ActionStep("Next.", tool_name="cat", tool_args={"path": "x"}, observation=observation)
        words = words_of(stretch_of([older, newest]))
        assert (observation.split("\\n")[0] in words) is is_read and "old" not in words


def test_outputs_are_left_out_and_all_else_comes_in_order() -> None:
    words = words_of(stretch_of(CALLS, "Find the port."))
    assert words.split("\n") == [
        "Find the port.", "I look for it.", "PORT 3", "Now the server.", "print(\'hello\')", "Is it TLS?", "a b.py 7"
    ]  # fmt: skip


def test_one_call_makes_a_stretch_and_its_topic_is_what_the_agent_is_after() -> None:
    embedder = HashingEmbedder(64)
    text = default_query([TaskStep("Find the port."), CALLS[0]])
    query = analyse(text, embedder, utc_now())
    assert query.is_stretch and query.topic == words_of(text) and "OUT" not in query.topic
    assert np.allclose(query.vectors, embedder.embed_queries([query.topic]))
    plain = analyse("Which port does the server use?", embedder, utc_now())
    assert not plain.is_stretch


ARGUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@MODERATE
@given(st.dictionaries(st.text(min_size=1, max_size=8), ARGUMENTS, min_size=1, max_size=4), st.integers(0, 200))
def test_arguments_that_are_cut_off_lose_only_their_end(arguments: dict[str, Any], cut: int) -> None:
    call = f"f({json.dumps(arguments)})"
    whole = words_of(call)
    assert all(str(value) in whole for value in arguments.values() if isinstance(value, str) and len(whole) < MOST)
    words_of(call[: max(3, len(call) - cut)])


@pytest.mark.parametrize("piece", ["f({", 'f({"a": "', "x \\n", 'f({"a": 1}) ', 'f({"a": [', " ", 'f({"a" '])
def test_a_huge_stretch_takes_linear_time(piece: str) -> None:
    assert grows_linearly(lambda size: words_of(f'f({{"a": 1, {piece * size}'), 20_000)
