"""Retention: what goes, in which order and why, and what never does."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import START, said, sqlite
from strategies import MODERATE

import tinymem.memory.upkeep
from tinymem import (
    ActionStep,
    FinalAnswerStep,
    HierarchicalMemory,
    MessageStep,
    Retention,
    Step,
    ToolCall,
    keep_last_n_steps,
)
from tinymem.upkeep import RetentionReport

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")
DAY = timedelta(days=1)


def days(count: int, **more: Any) -> list[Step]:
    """One step a day."""
    return [said(f"Day {day}.", id=f"day-{day}", timestamp=START + day * DAY, **more) for day in range(count)]


def held(memory: HierarchicalMemory) -> list[str]:
    return [row.id for row in memory.long_term.journal.rows(limit=10_000)]


def gone(report: RetentionReport) -> list[tuple[str, str]]:
    return [*report.removed.items()]


# limits


def test_what_is_older_than_max_age_goes(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.archive(days(10))
        report = memory.retain(Retention(max_age=4 * DAY), now=START + 10 * DAY)
        assert gone(report) == [(f"day-{day}", "max_age") for day in range(6)]
        assert held(memory) == [f"day-{day}" for day in range(6, 10)]
        assert (report.kept, report.reasons) == (4, {"max_age": 6})
        assert gone(memory.retain(Retention(max_age=4 * DAY), now=START + 10 * DAY)) == []
        assert memory.retain(Retention(max_age=timedelta.max)).removed == {}


def test_over_max_bytes_steps_go_until_the_file_is_small_enough(tmp_path: Path) -> None:
    dice = random.Random(1)
    texts = ["".join(dice.choices("abcdefgh ", k=dice.choice([10, 400, 9_000]))) for _ in range(120)]
    with open_memory(tmp_path) as memory:
        memory.archive([said(text, at) for at, text in enumerate(texts)])
        memory.long_term.queue.embed_pending()
        most = memory.long_term.journal.maintenance.size() // 2
        report = memory.retain(Retention(max_bytes=most))
        assert most >= memory.long_term.journal.maintenance.size() > most * 0.8, "and not many more"
        assert len(report.removed) == 120 - report.kept
        assert report.reasons == {"max_bytes": len(report.removed)}
        sqlite(memory.long_term.journal).read("PRAGMA wal_checkpoint(TRUNCATE)")
        assert sqlite(memory.long_term.journal).path.stat().st_size <= most
        assert memory.retain(Retention(max_bytes=0)).kept == 0


# exempt


def test_the_window_pinned_steps_and_milestones_stay(tmp_path: Path) -> None:
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2)) as memory:
        memory.archive(
            [
                said("pinned", id="pinned", pinned=True, timestamp=START),
                said("noted", id="noted", metadata={"milestone": True}, timestamp=START),
                FinalAnswerStep("42", id="answer", timestamp=START),
                said("marked", id="marked", timestamp=START),
                said("unmarked", id="unmarked", pinned=True, timestamp=START),
            ]
        )
        memory.mark("marked")
        memory.mark("unmarked", False)
        memory.add_steps(days(10))
        for limits in (Retention(max_age=timedelta(0)), Retention(max_steps=1), Retention(max_bytes=1)):
            memory.retain(limits)
            left = held(memory)
            assert left == ["pinned", "noted", "answer", "marked", "unmarked", "day-8", "day-9"]
            assert memory.retain(limits).removed == {}


@settings(MODERATE, max_examples=30)
@given(st.data())
def test_of_what_is_not_exempt_goes_what_tools_gave_and_the_oldest(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    def rank(step: Step) -> int:
        return ["tool", "assistant", "user"].index(getattr(step, "role", "tool"))

    steps: list[Step] = []
    for at in range(data.draw(st.integers(1, 12))):
        pinned = data.draw(st.booleans() if at % 3 == 0 else st.just(False))
        role = data.draw(st.sampled_from(["call", "user", "assistant"]))
        if role == "call":
            steps += [
                ActionStep("Act.", [ToolCall("f", {}, f"{at}")], pinned=pinned),
                MessageStep("tool", "Done.", f"{at}"),
            ]
        else:
            steps.append(MessageStep(role, data.draw(st.sampled_from(["Hm.", "Gate B42.", "No."])), pinned=pinned))
    most = data.draw(st.integers(0, len(steps)))
    with open_memory(tmp_path_factory.mktemp("memory")) as memory:
        memory.archive(steps)
        order = sorted((step for step in steps if not step.pinned), key=rank)
        gone = {step.id for step in order[: len(steps) - most]}
        assert {*memory.retain(Retention(max_steps=most)).removed} == gone
        assert held(memory) == [step.id for step in steps if step.id not in gone]


# a memory's own


def test_a_memory_with_a_retention_keeps_to_it_when_it_is_opened_and_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tinymem.memory.upkeep, "RETAIN_EVERY", 10)
    with open_memory(tmp_path) as memory:
        memory.archive(days(30))
    caplog.set_level(logging.INFO)
    with open_memory(tmp_path, retention=Retention(max_steps=20), prune_strategy=keep_last_n_steps(2)) as memory:
        assert len(held(memory)) == 20
        assert "10 steps went by the memory's retention: {'max_steps': 10}" in caplog.text
        for n in range(9):
            memory.add(said(f"{n}"))
        assert len(held(memory)) == 29
        assert memory.add(said("the tenth")).step_number == 40
        assert len(held(memory)) == 20
        memory.archive([said(f"{n}") for n in range(4)])
        assert memory.retain().reasons == {"max_steps": 4}


def test_a_retention_that_cannot_be_kept_is_logged_and_adding_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with open_memory(tmp_path) as memory:
        memory.archive(days(5))
    with open_memory(tmp_path) as other, other.long_term.journal.reading():
        monkeypatch.setattr(type(other.long_term.journal).__init__, "__defaults__", (True, 0.2))
        with open_memory(tmp_path, retention=Retention(max_steps=2)) as memory:
            assert "over its retention" in caplog.text and "another process or thread reads" in caplog.text
            memory.add(said("goes on"))
            assert len(held(memory)) == 3
