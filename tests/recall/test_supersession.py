"""Supersession: the newest statement leads, an older one names it, and what both may hold is left alone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import MODERATE

from tinymem import HierarchicalMemory, MessageStep
from tinymem.messages.tokens import default_counter
from tinymem.recall.selection.corrections import Statement, newest_statements

open_memory = partial(HierarchicalMemory, store="exact")
MEMORY = {"embedder": "static"}
THEN = datetime(2026, 8, 1, tzinfo=timezone.utc)
OVENS = "The oven in Linz starts at 03:30."
CHANGED = [
    (OVENS, "The oven in Linz starts at 02:50."),
    ("12. The capital of Italy is Rome.", "40. The capital of Italy is Turin."),
    ("The author of Emma is Jane Austen.", "The author of Emma is Jane Roe."),
    ("Staging runs on port 8443.", "Staging runs on port 8444."),
]
BOTH_HOLD = [
    ("ORD-1 is shipped to Graz.", "ORD-2 is shipped to Graz."),
    ("The capital of Italy is Rome.", "The capital of France is Paris."),
    ("The author of Emma is Jane Austen.", "Who is the author of Emma? The author of Emma is whom?"),
    ("I went to the beach on Sunday.", "I went to the mall on Sunday."),
    ("It is nice in the mountains.", "It is nice in the city."),
    ("Tom was born in Graz.", "Tom was a baker in Graz."),
    ("The ladder is red.", "The ladder is long."),
]


def said(text: str, number: int, by: str = "ann", days: int = 0) -> Statement:
    return Statement(text, by, (THEN + timedelta(days=days), number))


@pytest.mark.parametrize(("older", "newer"), CHANGED)
def test_what_a_later_statement_of_the_same_source_changes_is_superseded(older: str, newer: str) -> None:
    first, last = said(older, 1), said(newer, 2)
    assert newest_statements([first, last]) == {first: last}
    assert not newest_statements([said(older, 1), said(newer, 2, by="bob")])
    assert first not in newest_statements([said(older, 1, days=1), said(newer, 2)])


@pytest.mark.parametrize(("older", "newer"), BOTH_HOLD)
def test_what_may_hold_beside_a_later_statement_is_not_superseded(older: str, newer: str) -> None:
    assert not newest_statements([said(older, 1), said(newer, 2)])


def test_the_newest_leads_and_the_older_names_it(memory: HierarchicalMemory) -> None:
    for older, newer in CHANGED[:3]:
        memory.archive([MessageStep("user", older), MessageStep("user", newer)])
    found = memory.recall("When does the oven in Linz start?", min_relevance=0)
    assert {item.text for item in found} == {text for pair in CHANGED[:3] for text in pair}
    assert {item.step.step_number: item.newer for item in found} == {1: 2, 2: None, 3: 4, 4: None, 5: 6, 6: None}
    assert f"user: {OVENS} (perhaps outdated by #2)\n#2 user: {CHANGED[0][1]}" in found.text
    assert [item.text for item in memory.recall("oven in Linz", max_tokens=56)] == [CHANGED[0][1]]


@pytest.mark.parametrize(
    ("first", "second", "is_marked"), [(None, None, False), ("Ann", "Ann", True), ("Ann", "Bob", False)]
)
def test_without_a_speaker_nothing_crosses_sessions(
    memory: HierarchicalMemory, first: str | None, second: str | None, is_marked: bool
) -> None:
    memory.archive([MessageStep("user", CHANGED[0][0], session="a", speaker=first)])
    memory.archive([MessageStep("user", CHANGED[0][1], session="b", speaker=second)])
    assert ("outdated" in memory.recall("When does the oven in Linz start?", min_relevance=0).text) is is_marked


def test_what_is_dated_later_than_the_question_marks_nothing(memory: HierarchicalMemory) -> None:
    times = THEN, datetime(2031, 1, 1, tzinfo=timezone.utc)
    memory.archive([MessageStep("user", text, timestamp=at) for text, at in zip(CHANGED[0], times, strict=True)])
    asked = partial(memory.recall, "When does the oven in Linz start?", min_relevance=0)
    assert "outdated" not in asked(now="2027-01-01").text and "outdated" in asked(now="2032-01-01").text


def test_until_brings_back_what_held_then_without_a_mark(memory: HierarchicalMemory) -> None:
    memory.archive([MessageStep("user", text, timestamp=THEN + timedelta(days=n)) for n, text in enumerate(CHANGED[0])])
    then = memory.recall("When does the oven in Linz start?", until=THEN)
    assert [(item.text, item.newer) for item in then] == [(OVENS, None)]


@given(
    texts=st.lists(
        st.sampled_from([text for pair in (*CHANGED, *BOTH_HOLD) for text in pair]), min_size=1, max_size=12
    ),
    budget=st.integers(1, 400),
)
@settings(MODERATE, max_examples=20)
def test_marks_count_in_the_budget_and_drop_nothing(texts: list[str], budget: int) -> None:
    with open_memory() as memory:
        memory.archive([MessageStep("user", text) for text in texts])
        found = memory.recall("What holds?", budget, min_relevance=0, diversity=0)
        assert found.tokens == default_counter().count(found.text) <= budget
        every = memory.recall("What holds?", 2_000, min_relevance=0, diversity=0)
        assert sorted(item.text for item in every) == sorted(texts)
        assert all(item.newer is None or item.newer > (item.step.step_number or 0) for item in every)
