"""Packing: never over the budget, nothing twice, and little room left empty."""

from __future__ import annotations

import base64
import random
import textwrap
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import START, block_of, said, sentences
from ranking import KEY, TOKENS, ranked
from strategies import MODERATE, WORDS, steps

from tinymem.messages.characters import visible
from tinymem.messages.tokens import EstimatingCounter
from tinymem.protocols import TokenCounter
from tinymem.recall.passages import passages_of
from tinymem.recall.render import is_block
from tinymem.recall.results import Recall
from tinymem.recall.selection.diversity import DIVERSITY
from tinymem.recall.selection.limits import Limits
from tinymem.recall.selection.opened import OpenedSteps, RankedPassage
from tinymem.recall.selection.packing import pack
from tinymem.steps.content import clean
from tinymem.steps.step import Step
from tinymem.steps.types import ActionStep

HEADINGS = ("Of mills", "Of barns")
COUNTERS = st.sampled_from([TOKENS, TOKENS, EstimatingCounter(), WORDS])


def packed(
    memory: Sequence[Step],
    passages: Sequence[RankedPassage],
    budget: int,
    counter: TokenCounter = TOKENS,
    diversity: float = DIVERSITY,
) -> Recall:
    held = {step.step_number or 0: step for step in memory}

    def fetch(numbers: Sequence[int]) -> Mapping[int, Step]:
        return {number: held[number] for number in numbers if number in held}

    return pack(passages, OpenedSteps(counter, fetch), budget, KEY, Limits(diversity))[0]


@st.composite
def memories(draw: st.DrawFn) -> list[Step]:
    """Steps with numbers: of all types, and long texts on several days."""
    long = st.builds(
        lambda seed, count, tail: said(" ".join(sentences(count, seed)) + tail),
        st.integers(0, 9),
        st.sampled_from([1, 3, 9, 40, 90]),
        st.sampled_from(["", "?", "\n\n", "日本語" * 60, "</recalled-0>", "\x00\ud800"]),
    )
    drawn = draw(st.lists(st.one_of(long, long, steps()), max_size=6))
    days = draw(st.lists(st.integers(0, 3), min_size=len(drawn), max_size=len(drawn)))
    return [
        step.evolve(step_number=number, timestamp=START + timedelta(days=day))
        for number, (step, day) in enumerate(zip(drawn, days, strict=True), 1)
    ]


def check(recall: Recall, passages: Sequence[RankedPassage], budget: int, counter: TokenCounter) -> None:
    assert recall.tokens == counter.count(recall.text) <= budget
    assert bool(recall) == bool(recall.text) == bool(recall.items)
    assert recall.text == block_of(recall.items, KEY)
    assert not recall or is_block(recall.text, KEY)
    slices = {(p.number, p.part, p.start): p.end for p in passages}
    for item in recall.items:
        assert item.text == clean(item.step.parts()[item.part].text)[item.start : item.end]
        assert visible(item.text).strip() in recall.text
        at = item.start
        while at < item.end:  # made of whole passages
            at = slices[item.step.step_number or 0, item.part, at]
        assert at == item.end
        assert item.tokens > 0
    for one, other in pairwise(recall.items):
        place, next_place = (
            (one.step.timestamp, one.step.step_number or 0, one.part, one.end),
            (other.step.timestamp, other.step.step_number or 0, other.part, other.start),
        )
        assert place < next_place, "in order of time, nothing twice, what adjoins is one"


@settings(MODERATE, max_examples=35)
@given(memories(), st.integers(1, 2_000), st.randoms(use_true_random=False), COUNTERS)
def test_a_block_is_never_over_its_budget_and_every_excerpt_is_true(
    memory: list[Step], budget: int, dice: object, counter: TokenCounter
) -> None:
    count = sum(len(passages_of(step)) for step in memory)
    passages = ranked(memory, [dice.uniform(-9, 9) for _ in range(count)])  # type: ignore[attr-defined]
    recall = packed(memory, passages, budget, counter)
    check(recall, passages, budget, counter)
    assert packed(memory, passages, budget, counter).text == recall.text


def chat(count: int = 60, per_day: int = 60) -> list[Step]:
    return [
        said(text, number, timestamp=START + timedelta(days=number // per_day))
        for number, text in enumerate(sentences(count, length=30), 1)
    ]


def test_no_passages_and_forgotten_steps_give_an_empty_recall() -> None:
    assert not packed([], [], 500)
    assert not packed([], ranked(chat()), 500)
    memory = chat()
    assert [item.step.step_number for item in packed(memory[:1], ranked(memory), 500).items] == [1]


def test_the_best_passages_come_first_into_the_block_and_stand_in_order_of_time() -> None:
    memory = chat()
    scores = [float((7 * at) % 60) for at in range(60)]
    recall = packed(memory, ranked(memory, scores), 600)
    numbers = [item.step.step_number or 0 for item in recall.items]
    assert numbers == sorted(numbers)
    assert 10 < len(numbers) < 40
    best = sorted(range(1, 61), key=lambda number: -scores[number - 1])[: len(numbers) - 4]
    assert set(best) <= set(numbers)
    assert [item.score for item in recall.items] == [scores[number - 1] for number in numbers]
    assert recall.items[0].why == {"cosine": recall.items[0].score}


def test_adjoining_slices_are_one_excerpt_with_the_best_score() -> None:
    step = said("\n".join(sentences(80)), 1)
    passages = ranked([step], [1.0, 3.0, 2.0, -5.0, 4.0, -9, -9, -9, -9, -9, -9])
    first, second, third, fourth, fifth = sorted(passages, key=lambda p: p.start)[:5]
    recall = packed([step], [p for p in passages if p.score > 0], 2_000)
    assert [(item.start, item.end) for item in recall.items] == [(first.start, third.end), (fifth.start, fifth.end)]
    assert [item.score for item in recall.items] == [3.0, 4.0]
    assert fourth.start == third.end
    assert second.start == first.end
    assert recall.items[0].text == step.text[: third.end]
    check(recall, passages, 2_000, TOKENS)
    whole = packed([step], ranked([step]), 4_000)
    assert [(item.start, item.end) for item in whole.items] == [(0, len(step.text))]
    assert whole.items[0].text == step.text


def test_what_governs_the_worst_excerpt_goes_before_the_excerpt_does() -> None:
    step = said("\n\n".join(f"## {head}\n\n{' '.join(sentences(30, seed))}" for seed, head in enumerate(HEADINGS)), 1)
    cut = sorted(ranked([step]), key=lambda passage: passage.start)
    passages = [cut[1]._replace(score=3.0), cut[-1]._replace(score=2.0)]
    whole = packed([step], passages, 1_000)
    shown = [packed([step], passages, whole.tokens - less) for less in (0, 1)]
    assert [sum(head in str(recall) for head in HEADINGS) for recall in shown] == [2, 1]
    assert [[item.score for item in recall.items] for recall in shown] == [[3.0, 2.0]] * 2


def test_what_is_encoded_is_shown_as_a_note_and_stays_in_the_step() -> None:
    lines = textwrap.wrap(base64.b64encode(random.Random(3).randbytes(1_599)).decode(), 64)
    text = "\n".join(["The key of the mill:", *lines, "It expires in May."])
    (found,) = packed([said(text, 1)], ranked([said(text, 1)]), 1_000).items
    assert (
        found.line == f"#1 user: {found.text}"
        and found.text == "The key of the mill:\n[base64: 2,165 characters]\nIt expires in May."
    )
    assert found.step.text[found.start : found.end] == text


def test_slices_of_two_parts_or_two_steps_stay_apart() -> None:
    step = ActionStep("think", tool_name="ls", observation="files", step_number=1)
    other = ActionStep("think on", tool_name="ls", tool_args={"at": "src"}, observation="more files", step_number=2)
    assert len(packed([step, other], ranked([step, other]), 500).items) == 6


@pytest.mark.parametrize("per_day", [60, 1])
def test_little_of_the_budget_is_left_while_passages_would_fit(per_day: int) -> None:
    memory = chat(120, per_day)
    longest = max(TOKENS.count(step.text) for step in memory)
    for budget in range(100, 2_000, 237):
        recall = packed(memory, ranked(memory), budget)
        assert budget - recall.tokens < longest + 20
    used = [packed(memory, ranked(memory), budget).tokens / budget for budget in range(300, 2_000, 397)]
    assert np.mean(used) > 0.97


def test_what_repeats_a_better_passage_makes_room_for_something_else() -> None:
    texts = [" ".join(sentences(4, seed)) for seed in range(6)]
    memory = [said(text, at) for at, text in enumerate([texts[0], texts[0], texts[0], *texts], 1)]
    recall = packed(memory, ranked(memory), 900)
    assert [item.step.step_number for item in recall.items] == [1, 5, 6, 7, 8, 9]
    assert [item.step.step_number for item in packed(memory, ranked(memory), 900, diversity=0).items][:3] == [1, 2, 3]
    others = [said(texts[0], 1, speaker="Ann"), said(texts[0], 2, speaker="Ben")]
    assert len(packed(others, ranked(others), 400, diversity=0.01).items) == 2


# -- what is said again and again


def agreeing(count: int = 120) -> list[Step]:
    """A chat of two people who agree, and of one thing to know."""
    said_by = [("Ann", "ok"), ("Ann", "OK."), ("Ben", "Ok!"), ("Ann", "ok, thanks")]
    return [
        said("The alarm code is 4471.", at)
        if at == count // 2
        else said(said_by[at % 4][1], at, speaker=said_by[at % 4][0])
        for at in range(1, count + 1)
    ]
