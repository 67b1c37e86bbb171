"""Usefulness: what goes before what when a memory is over its limits."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from memories import LATER, open_archive, python, said, sentences
from strategies import MODERATE, histories
from work import grows_linearly

from tinymem import ActionStep, HierarchicalMemory, MessageStep, Retention, Step, ToolCall
from tinymem.messages import groups
from tinymem.upkeep.retention import RetentionReport, retain
from tinymem.upkeep.usefulness import usefulness

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")
FILLER = [[said(text)] for text in sentences(200, seed=3)]
FACT = "Gate B42 closes at 18:05, seat 17C"


def useful(*texts: str | Step) -> list[float]:
    """How useful these are among others."""
    alone = [[said(text) if isinstance(text, str) else text] for text in texts]
    return usefulness([*FILLER, *alone])[len(FILLER) :]


def left(folder: Path, steps: Sequence[Step], **limits: Any) -> list[str]:
    """The ids of what is left of these steps in a memory with these limits."""
    with open_memory(folder) as memory:
        memory.archive(steps)
        memory.flush()  # or the file grows while it is kept within its limit
        memory.retain(Retention(**limits))
        return [row.id for row in memory.long_term.journal.rows()]


# what goes first


def test_what_repeats_goes_before_what_is_said_once_and_the_newest_of_it_last(tmp_path: Path) -> None:
    texts = [FACT, "All is well: 3 of 3 up.", "The cat is Mia.", "All is well: 3 of 3 up.", "All is well: 3 of 3 up."]
    steps = [said(text, at) for at, text in enumerate(texts)]
    assert left(tmp_path, steps, max_steps=3) == ["id-000000", "id-000002", "id-000004"]


def test_what_has_the_words_of_many_goes_before_what_has_its_own(tmp_path: Path) -> None:
    steps = [said(text, at) for at, text in enumerate([FACT, *(f"We shall see about that, {n}." for n in "abcdefgh")])]
    assert left(tmp_path, steps, max_steps=1) == ["id-000000"]


def test_of_equals_the_oldest_go(tmp_path: Path) -> None:
    steps = [said(f"Day {day}.", day) for day in range(9)]
    assert left(tmp_path, steps, max_steps=4) == [f"id-{day:06}" for day in range(5, 9)]


def test_over_max_bytes_a_long_step_goes_before_a_short_one_that_is_as_useful(tmp_path: Path) -> None:
    dice = random.Random(5)
    texts = ["".join(dice.choices("abcdefgh ", k=size)) for size in (60, 20_000) * 10]
    steps = [said(text, at) for at, text in enumerate(texts)]
    kept = set(left(tmp_path / "bytes", steps, max_bytes=150_000))
    assert kept >= {step.id for step in steps[::2]} and len(kept) <= 12
    assert len(kept & set(left(tmp_path / "steps", steps, max_steps=10))) < 10


def test_a_call_and_its_results_stand_or_fall_together(tmp_path: Path) -> None:
    call = ActionStep("Look.", [ToolCall("f", {}, "1"), ToolCall("f", {}, "2")], id="call")
    result = MessageStep("tool", FACT, "1", id="result"), MessageStep("tool", "ok", "2", id="ok")
    steps = [call, *result, *(said("Well, well.", at, speaker=f"{at}") for at in range(20))]
    assert left(tmp_path, steps, max_steps=4)[:3] == ["call", "result", "ok"]


def test_what_a_pinned_step_says_too_goes_before_what_nobody_else_says(tmp_path: Path) -> None:
    texts = ["Gate B42 seat 17C", "Gate B42 seat 17C please", "Dock K77 berth 90 please"]
    steps: list[Step] = [said(text, at, pinned=at == 0) for at, text in enumerate(texts)]
    assert left(tmp_path, steps, max_steps=2) == ["id-000000", "id-000002"]


# how it is reckoned


def test_few_words_that_many_have_are_worth_less_than_names_and_numbers() -> None:
    greeting, fact = useful(FILLER[0][0].text, FACT)
    assert greeting < fact / 2


def test_long_texts_are_not_more_useful_for_being_long() -> None:
    once, thrice = useful(FACT, f"{FACT} {FACT} {FACT}")
    assert once == thrice
    short, long = useful("Dock K77", " ".join(f"word{n}" for n in range(10_000)))
    assert long < 15 * short


def test_a_question_counts_half_and_an_assistant_a_tenth() -> None:
    said_, asked, answered = (useful(step)[0] for step in (FACT, f"{FACT}?", said(FACT, role="assistant")))
    assert asked == pytest.approx(said_ / 2, abs=1e-5)
    assert answered == pytest.approx(said_ / 10, abs=1e-5)
    assert useful(ActionStep(FACT, [ToolCall("f", {}, "1", "done")]))[0] > said_ / 2


def test_the_same_words_of_another_speaker_are_no_repetition() -> None:
    assert useful("Yes, B42.", "Yes, B42.")[0] == 0
    assert min(useful(said("Yes, B42.", speaker="Ann"), said("Yes, B42.", speaker="Ben"))) > 0
    assert min(useful("Yes, B42.", said("Yes, B42.", role="assistant"))) > 0


def test_a_repetition_makes_nothing_else_less_useful() -> None:
    before = useful(FACT, "Gate B42 is far.")
    assert useful(FACT, *["Gate B42 is far."] * 5)[0] == before[0]


def test_chinese_is_told_apart_by_its_characters() -> None:
    assert useful("登机口二十三", "登机口二十四", "登机口二十五", "我对核桃过敏")[-1] > useful("登机口二十三")[0] / 2
    common, rare = usefulness([*([said(f"我们再看看吧{n}")] for n in range(9)), [said("我对核桃过敏")]])[-2:]
    assert common < rare


def test_what_has_no_words_is_worth_nothing() -> None:
    assert useful("", " \n", "…?!", "\ud800") == [0.0] * 4
    assert usefulness([]) == []


def test_hostile_texts_are_reckoned() -> None:
    texts = ["\ud800x", "a\x00b", "🦜 Figaro", "שלום B42", "x" * 1_000_000, " ".join(map(str, range(300_000)))]
    assert all(math.isfinite(one) and one > 0 for one in useful(*texts))


@settings(MODERATE)
@given(histories())
def test_every_group_gets_a_figure_of_zero_or_more(steps: list[Step]) -> None:
    some = groups(steps)
    figures = usefulness(iter(some))
    assert len(figures) == len(some) and all(math.isfinite(one) and one >= 0 for one in figures)


@pytest.mark.slow
def test_it_is_the_same_in_every_process() -> None:
    program = """
from memories import said, sentences
from tinymem.upkeep.usefulness import usefulness
print(usefulness([said(" ".join(sentences(40, seed=n)))] for n in range(30)))
"""
    first, second = python(program), python(program)  # strings hash otherwise in each
    assert first.communicate()[0] == second.communicate()[0] != ""


@pytest.mark.slow
def test_retention_takes_linear_time(tmp_path: Path) -> None:
    some = sentences(1_000)
    archives = {}
    for count in (25_000, 100_000):
        steps = [said(f"{some[at % 997]} {some[at % 991]} Item {at}.", at) for at in range(1, count + 1)]
        archives[count] = open_archive(tmp_path / str(count))
        archives[count].write(steps, window=False, tokens=[10] * count)

    def retained(count: int) -> RetentionReport:
        limits = Retention(max_steps=count * 6 // 10, max_bytes=10 * count)
        return retain(archives[count], limits, lambda gone: None, LATER, dry_run=True)

    assert grows_linearly(retained, 100_000)
    reasons = retained(100_000).reasons
    assert reasons["max_steps"] == 40_000 and reasons["max_bytes"] > 40_000
    for archive in archives.values():
        archive.close()
