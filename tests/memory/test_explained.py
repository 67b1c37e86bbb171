"""explain: what recall brings back, and why the next best stays away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import START, numbered_texts, sentences
from ranking import KEY, TOKENS, ranked
from strategies import MODERATE
from test_report import drawn, open_memory

from tinymem import HierarchicalMemory, MessageStep, Step
from tinymem.recall import Explanation
from tinymem.recall.fusion import QUESTION, load_weights
from tinymem.recall.relevance import price_of
from tinymem.recall.results import LeftOut, Recall
from tinymem.recall.selection.diversity import SHORT
from tinymem.recall.selection.limits import Limits
from tinymem.recall.selection.packing import BELOW, REPEATS, TOO_LONG, pack

LONG = "The staging server runs on port 8080 and is restarted by the cron job on Sundays at four in the morning."
assert len(LONG) > SHORT


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with open_memory(tmp_path / "memory", max_tokens=400) as opened:
        yield opened


def chosen_of(steps: Sequence[Step], budget: int, left_out: int = 1_000) -> tuple[Recall, tuple[LeftOut, ...]]:
    """What is packed of steps whose order is their ranking, and what is left out."""
    held = {step.step_number or 0: step for step in steps}

    def fetch(numbers: Sequence[int]) -> Mapping[int, Step]:
        return {number: held[number] for number in numbers}

    return pack(ranked(steps), fetch, TOKENS, budget, KEY, Limits(left_out=left_out))


# -- what came back


def test_it_explains_exactly_what_recall_brings_back(memory: HierarchicalMemory) -> None:
    memory.add_steps([MessageStep("user", text) for text in sentences(80)])
    query, now = " ".join(sentences(80)[17].split()[:4]), START
    explained = memory.explain(query, 120, now=now)
    assert isinstance(explained, Explanation)
    assert explained.recalled == memory.recall(query, 120, now=now)
    assert (explained.query, explained.budget) == (query, 120)
    assert sorted(explained.items, key=lambda item: item.step.step_number or 0) == [*explained.recalled.items]
    assert [item.score for item in explained.items] == sorted((item.score for item in explained.items), reverse=True)
    assert len(explained.items) > 1 and len(explained.left_out) == 5


def test_contributions_and_a_constant_make_up_the_score(memory: HierarchicalMemory) -> None:
    memory.add_steps([MessageStep("user", text) for text in sentences(40)])
    explained = memory.explain("Which word is it?", 200)
    bias = float(load_weights(memory.stats().embedder).bias[QUESTION])
    for item in [*explained.items, *(one.excerpt for one in explained.left_out)]:
        assert sum(item.why.values()) + bias == pytest.approx(item.score, abs=0.02)
        assert [*item.why.values()] == sorted(item.why.values(), key=lambda value: -abs(value))


def test_the_text_has_number_date_score_tokens_and_the_strongest_features(memory: HierarchicalMemory) -> None:
    memory.add(MessageStep("user", "The staging server is at 10.0.0.7.", timestamp=START + timedelta(days=2)))
    explained = memory.explain("Where is the staging server?")
    (item,) = explained.items
    lines = str(explained).splitlines()
    assert lines[0] == "Where is the staging server?"
    assert lines[1] == f"1 excerpt, {explained.recalled.tokens} of 1,000 tokens"
    assert lines[2].startswith(f"best score {item.score:+.2f}, highest cosine 0.") and lines[2].endswith("known of it")
    assert lines[4].split() == ["step", "date", "score", "relevance", "tokens", "text", "why"]
    why = ", ".join(f"{name} {value:+.2f}" for name, value in [*item.why.items()][:3])
    start = f"#1 2025-03-03 {item.score:+.2f} {item.relevance:.2f} {item.tokens} The staging server is at 10.0.0.7."
    assert " ".join(lines[5].split()) == f"{start} {why}, length {-price_of(len(item.text)):+.2f}"
    assert len(lines) == 6


def test_a_feature_that_is_the_same_in_all_passages_is_no_reason(memory: HierarchicalMemory) -> None:
    memory.add_steps([MessageStep("user", text, timestamp=START) for text in sentences(40)])  # all on one day
    explained = memory.explain("Which word is it?", 200)
    assert all("day" in item.why for item in explained.items) and "day " not in str(explained)


# -- what did not


def test_what_repeats_a_better_one_is_said_to(memory: HierarchicalMemory) -> None:
    memory.add_steps([MessageStep("user", LONG), MessageStep("user", "Lunch is soup."), MessageStep("user", LONG)])
    explained = memory.explain("On which port does the staging server run?", 500)
    assert {one.reason for one in explained.left_out} == {REPEATS}
    assert sorted([explained.items[0].step.step_number, explained.left_out[0].excerpt.step.step_number]) == [1, 3]  # type: ignore[type-var]
    assert explained.left_out[0].repeats == explained.items[0].step.step_number
    assert f"{REPEATS}, #{explained.left_out[0].repeats}" in str(explained)


@MODERATE
@given(st.integers(1, 400), st.integers(0, 30), st.integers(0, 9))
def test_every_passage_is_brought_back_or_left_out_for_a_reason(budget: int, count: int, twins: int) -> None:
    steps = numbered_texts([*sentences(count), *([LONG] * twins)])
    found, left = chosen_of(steps, budget)
    numbers = [item.step.step_number for item in found.items] + [one.excerpt.step.step_number for one in left]
    assert sorted(number or 0 for number in numbers) == [*range(1, count + twins + 1)]
    assert [one.rank for one in left] == sorted({one.rank for one in left})
    worst = max((item.step.step_number or 0 for item in found.items), default=0)
    for one in left:
        number = one.excerpt.step.step_number or 0  # which is its rank here
        assert one.rank == number and one.reason in (REPEATS, TOO_LONG, BELOW)
        assert one.excerpt.tokens >= TOKENS.count(one.excerpt.text)
        if one.reason == REPEATS:
            assert one.excerpt.text == LONG and one.repeats in numbers[: len(found.items)]
        if one.reason != REPEATS:
            assert (one.reason == BELOW) is (number > worst > 0)


# -- around it


@pytest.mark.parametrize("query", ["", " \n", "\x00", "\ud800", "[red]x[/]" * 3_000])
def test_any_query_has_an_explanation(memory: HierarchicalMemory, query: str) -> None:
    assert "0 excerpts" in str(memory.explain(query))
    memory.add_steps([MessageStep("user", text) for text in sentences(5)])
    explained = memory.explain(query)
    assert explained.recalled == memory.recall(query)
    assert len(str(explained).splitlines()[0]) <= 150
    assert max(map(len, drawn(explained, 80).splitlines())) <= 80
