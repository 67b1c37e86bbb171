"""MemoryManager: the window, its pruning, and getting back what was pruned."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE, histories, prune_strategies, summary_strategies
from turns import answers, asks

from tinymem.errors import BudgetError, InputError
from tinymem.steps.types import CARRY_OUT, ActionStep, MessageStep, PlanningStep, Step, SystemPromptStep, TaskStep
from tinymem.window.manager import MemoryManager, PruneReport
from tinymem.window.strategies import PruneStrategy, keep_last_n_steps


def texts(memory: MemoryManager) -> list[str]:
    return [step.text for step in memory]


def filled(*words: str, **options: Any) -> MemoryManager:
    memory = MemoryManager(**options)
    for word in words:
        memory.add_message("user", word)
    return memory


# -- adding


def test_numbers_grow_after_pruning_clearing_and_restoring() -> None:
    memory = filled("a", "b", "c", prune_strategy=keep_last_n_steps(1))
    report = memory.prune()
    assert memory.add_message("user", "d").step_number == 3
    memory.clear()
    assert memory.add_message("user", "e").step_number == 4
    memory.restore(report)
    assert memory.add_message("user", "f").step_number == 5 == memory.next_number - 1
    assert [step.step_number for step in memory] == [0, 1, 4, 5]


def test_messages_become_steps_with_what_is_known_about_them() -> None:
    known: dict[str, Any] = {"speaker": "Ann", "session": "s1", "pinned": True, "metadata": {"channel": "mail"}}
    when = datetime(2025, 1, 1, tzinfo=timezone.utc)
    step = MemoryManager().add_message("user", "hi", timestamp=when, **known)
    assert step == MessageStep("user", "hi", timestamp=when, id=step.id, step_number=0, **known)


def test_the_first_system_message_is_the_system_prompt() -> None:
    memory = MemoryManager()
    assert memory.system_prompt is None
    assert isinstance(memory.add_message("system", "Be careful."), SystemPromptStep)
    assert isinstance(memory.add_message("system", "Be brief."), MessageStep)
    assert memory.system_prompt == "Be careful." == MemoryManager("Be careful.").system_prompt


def test_a_result_is_taken_though_its_call_was_pruned_and_then_not_sent() -> None:
    memory = MemoryManager(prune_strategy=keep_last_n_steps(0))
    memory.add_messages([asks("1", "2"), answers("1")])
    memory.prune()
    memory.add_messages([answers("2", "late")])
    memory.add_message("user", "go on")
    assert texts(memory) == ["late", "go on"]
    assert memory.to_messages(style="tools") == [{"role": "user", "content": "go on"}]
    assert memory.to_messages()[0] == {"role": "user", "content": "Observation: late"}


# -- rendering, saving, looking


def test_a_short_call_is_sent_as_text_and_summary_mode_leaves_out_prompts_plans_and_thoughts() -> None:
    memory = MemoryManager("system")
    memory.add_steps([TaskStep("task"), PlanningStep("plan"), ActionStep("thought", tool_name="f", observation="seen")])
    assert [m["content"] for m in memory.to_messages()] == [
        "system", "task", "plan", CARRY_OUT, "thought\nf({})", "Observation: seen"
    ]  # fmt: skip
    assert [m["content"] for m in memory.to_messages(summary_mode=True)] == ["task", "f({})", "Observation: seen"]


@MODERATE
@given(histories(), prune_strategies())
def test_a_saved_window_comes_back_exactly(steps: list[Step], strategy: PruneStrategy) -> None:
    memory = MemoryManager(auto_prune_at=None)
    memory.add_steps(steps)
    with contextlib.suppress(BudgetError):
        memory.prune(strategy)
    records = json.loads(json.dumps(memory.to_list()))
    again = MemoryManager.from_list(records, auto_prune_at=None)
    assert again.steps == memory.steps
    assert again.next_number <= memory.next_number
    assert again.open_calls <= memory.open_calls


def test_steps_without_a_number_get_the_next_one() -> None:
    memory = MemoryManager(steps=[TaskStep("a"), TaskStep("b", step_number=7), TaskStep("c")])
    assert [step.step_number for step in memory] == [0, 7, 8]


def test_steps_are_found_by_class_or_name() -> None:
    memory = MemoryManager("system")
    memory.add_steps([TaskStep("t"), ActionStep("a"), ActionStep("b")])
    assert [step.text for step in memory.get_steps_by_type(ActionStep)] == ["a", "b"]
    assert memory.get_steps_by_type("action") == memory.get_steps_by_type(ActionStep)
    assert len(memory.get_steps_by_type(Step)) == 4 and memory.action_count == 2


def test_clear_empties_it_or_keeps_the_system_prompt_and_can_be_undone() -> None:
    memory = filled("a", "b", system_prompt="system")
    before = memory.steps
    report = memory.clear(keep_system=True)
    assert texts(memory) == ["system"] and report.kept == 1
    memory.restore(report)
    assert memory.steps == before
    memory.clear()
    assert len(memory) == 0


# -- pruning


def test_it_prunes_when_more_steps_are_held_than_it_was_told() -> None:
    reports: list[PruneReport] = []
    memory = filled(*"abcde", prune_strategy=keep_last_n_steps(2), auto_prune_at=5, on_prune=reports.append)
    assert len(memory) == 5 and not reports
    memory.add_message("user", "f")
    assert texts(memory) == ["e", "f"]
    assert [step.text for step in reports[0].removed] == list("abcd")
    assert (reports[0].kept, reports[0].shortened, reports[0].changed) == (2, (), True)


@MODERATE
@given(histories(), prune_strategies(), histories(max_chunks=3))
def test_restoring_a_report_gives_back_the_exact_window(
    steps: list[Step], strategy: PruneStrategy, later: list[Step]
) -> None:
    memory = MemoryManager(auto_prune_at=None)
    memory.add_steps(steps)
    before = memory.steps
    try:
        report = memory.prune(strategy)
    except BudgetError:
        assert memory.steps == before
        return
    assert len(report.removed) + report.kept == len(before)
    added = memory.add_steps(later)
    for _ in range(2):  # the second time changes nothing more
        memory.restore(report)
        assert memory.steps == (*before, *added)


@MODERATE
@given(
    histories(),
    st.lists(st.one_of(prune_strategies(), summary_strategies()), max_size=3),
    st.randoms(use_true_random=False),
)
def test_reports_can_be_restored_in_any_order(steps: list[Step], many: list[PruneStrategy], random: Any) -> None:
    memory = MemoryManager(auto_prune_at=None)
    memory.add_steps(steps)
    before = memory.steps
    reports = []
    for strategy in many:
        try:
            reports.append(memory.prune(strategy))
        except BudgetError:
            assert all(step.id in {held.id for held in before} for step in memory)
    random.shuffle(reports)
    for report in [*reports, *reports]:
        memory.restore(report)
    assert memory.steps == before


def broken(steps: Sequence[Step]) -> list[Step]:
    raise RuntimeError("the disk is full")


def test_a_strategy_that_raises_loses_nothing() -> None:
    memory = filled("a", "b")
    before = memory.steps
    with pytest.raises(RuntimeError, match="the disk is full"):
        memory.prune(broken)
    assert memory.steps == before


def test_a_strategy_that_raises_while_adding_refuses_the_step() -> None:
    memory = filled("a", "b", prune_strategy=broken, auto_prune_at=2)
    with pytest.raises(RuntimeError):
        memory.add_message("user", "c")
    assert texts(memory) == ["a", "b"] and memory.next_number == 2


def test_when_on_prune_raises_the_window_stays_as_it_was() -> None:
    def full(report: PruneReport) -> None:
        raise OSError("the disk is full")

    memory = filled("a", "b", prune_strategy=keep_last_n_steps(1), auto_prune_at=2, on_prune=full)
    for prune in (memory.prune, lambda: memory.add_message("user", "c")):
        with pytest.raises(OSError, match="full"):
            prune()
    assert texts(memory) == ["a", "b", "c"]  # added, not pruned: nothing is lost


def test_who_is_asked_may_look_but_not_change() -> None:
    def meddling(steps: Sequence[Step]) -> list[Step]:
        memory.add_message("user", "c")
        return list(steps)

    memory = filled("a", "b", prune_strategy=meddling)
    with pytest.raises(InputError, match="must not change the memory"):
        memory.prune()
    memory.add_message("user", "d")
    assert texts(memory) == ["a", "b", "d"]


# -- threads


def test_adding_pruning_restoring_and_reading_at_once_loses_nothing() -> None:
    reports: list[PruneReport] = []
    memory = MemoryManager(prune_strategy=keep_last_n_steps(20), auto_prune_at=50, on_prune=reports.append)
    done = threading.Event()

    def read() -> bool:
        while not done.is_set():
            numbers = [step.step_number or 0 for step in memory.steps]
            assert numbers == sorted(set(numbers))
            memory.to_messages()
        return True

    def work(thread: int) -> None:
        for n in range(200):
            memory.add_message("user", f"{thread}/{n}")
            if n % 50 == thread:
                memory.prune(keep_last_n_steps(5))

    with ThreadPoolExecutor(9) as pool:
        reader = pool.submit(read)
        list(pool.map(work, range(8)))
        done.set()
        assert reader.result()
    for report in reports:
        memory.restore(report)
    assert [step.step_number for step in memory] == list(range(1600))
