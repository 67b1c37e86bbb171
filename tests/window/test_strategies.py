"""Strategies: what stays in the window, and what a custom one may do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE, THOROUGH, WORDS, histories, prune_strategies, pruned, summary_strategies

from tinymem.errors import BudgetError
from tinymem.messages.conversion import groups, messages_from_steps
from tinymem.messages.tokens import count_tokens
from tinymem.steps.standins import newest_request
from tinymem.steps.types import ActionStep, MessageStep, PlanningStep, Step, SystemPromptStep, TaskStep, ToolCall
from tinymem.window.outcome import check_window
from tinymem.window.semantic import semantic_pruning
from tinymem.window.strategies import (
    PruneStrategy,
    compose,
    critical,
    keep_last_n_steps,
    keep_system_and_recent,
    no_pruning,
    prune_old_observations,
    token_budget,
)
from tinymem.window.strategy import Group
from tinymem.window.summarize import summarize_strategy


def tokens(steps: Sequence[Step], style: Any = "auto") -> int:
    return count_tokens(messages_from_steps(steps, style=style), WORDS)


def texts(steps: Sequence[Step]) -> list[str]:
    return [step.text for step in steps]


def said(*words: str) -> list[Step]:
    return [MessageStep("user", word) for word in words]


@THOROUGH
@given(histories(), prune_strategies())
def test_every_strategy_returns_a_valid_window(steps: list[Step], strategy: PruneStrategy) -> None:
    before = list(steps)
    after = pruned(strategy, steps)
    check_window(steps, after)
    assert steps == before
    ids = [step.id for step in after]
    assert ids == [step.id for step in steps if step.id in set(ids)]  # in order, none twice, none new
    for group in groups(steps):
        assert len({step.id in ids for step in group}) == 1  # whole or gone


@THOROUGH
@given(histories(), st.one_of(prune_strategies(), summary_strategies()))
def test_every_strategy_keeps_system_prompts_the_task_and_pinned_steps(
    steps: list[Step], strategy: PruneStrategy
) -> None:
    after = pruned(strategy, steps)
    for step in critical(steps, tasks="current"):
        assert any(step is kept for kept in after) or isinstance(step, ActionStep)
        assert step.id in {kept.id for kept in after}
        assert not step.pinned or any(step is kept for kept in after)  # whole, too


@MODERATE
@given(histories(), st.one_of(prune_strategies(), summary_strategies()))
def test_pruning_twice_with_the_same_limits_changes_nothing_more(steps: list[Step], strategy: PruneStrategy) -> None:
    once = pruned(strategy, steps)
    assert strategy(once) == once


@pytest.mark.parametrize(
    "strategy",
    [
        keep_last_n_steps(2), keep_system_and_recent(2), token_budget(300, counter=WORDS),
        semantic_pruning("hashing:64", 300, counter=WORDS), summarize_strategy(max_steps=3),
        summarize_strategy(max_tokens=300, counter=WORDS),
    ],
)  # fmt: skip
def test_the_newest_request_stays_while_the_agent_works_on_it(strategy: PruneStrategy) -> None:
    request = MessageStep("user", "Find the vault code.")
    steps = [TaskStep("old"), *said("hello " * 200), request]
    window: list[Step] = steps
    for number in range(12):
        window = strategy([*window, ActionStep(tool_name="read", tool_args={"n": number}, observation="word " * 60)])
        assert request in window
    assert steps[1] not in window


def test_a_request_that_stands_among_results_stays_with_their_calls() -> None:
    calls = [ToolCall("read", {}, id) for id in "ab"]
    asked = [
        ActionStep(tool_calls=calls),
        MessageStep("user", "Hurry."),
        *(MessageStep("tool", "1", id) for id in "ab"),
    ]
    steps = [*asked, MessageStep("assistant", "Yes.", pinned=True), PlanningStep("Go on.")]
    after = keep_last_n_steps(1)(steps)
    check_window(steps, after)
    assert after == steps


# -- keep_last_n_steps


def besides_request(steps: list[Step], kept: list[Group], free: list[Group], most: int) -> list[Group]:
    """The groups that are `kept` for their number, up to so many steps: without a request that is older than these."""
    if most and kept and newest_request(steps) in kept[0]:
        return kept if kept == free[-len(kept) :] and sum(map(len, kept)) <= most else kept[1:]
    return kept


@THOROUGH
@given(histories(), st.integers(0, 8))
def test_never_more_than_n_other_steps_stay_but_the_newest_group(steps: list[Step], n: int) -> None:
    after = keep_last_n_steps(n)(steps)
    fixed = {step.id for step in critical(steps)}
    free = [group for group in groups(steps) if not any(step.id in fixed for step in group)]
    kept = besides_request(steps, [group for group in free if group[0].id in {step.id for step in after}], free, n)
    assert kept == free[len(free) - len(kept) :]  # the newest, without a gap
    assert sum(map(len, kept)) <= n or (n >= 1 and len(kept) == 1)
    if len(kept) < len(free):
        assert sum(map(len, kept)) + len(free[-len(kept) - 1]) > n  # and as many as fit


def test_keep_system_and_recent_lets_earlier_tasks_go() -> None:
    steps = [SystemPromptStep("s"), TaskStep("t1"), *said("a"), TaskStep("t2"), *said("b", "c")]
    assert texts(keep_system_and_recent(2)(steps)) == ["s", "t2", "b", "c"]
    assert texts(keep_system_and_recent(3)(steps)) == ["s", "a", "t2", "b", "c"]
    assert texts(keep_last_n_steps(2)(steps)) == ["s", "t1", "t2", "b", "c"]


# -- token_budget


@THOROUGH
@given(
    histories(),
    st.integers(0, 150),
    st.integers(0, 150),
    st.sampled_from(["auto", "tools", "observation"]),
    st.booleans(),
)
def test_no_window_is_over_its_budget(steps: list[Step], high: int, low: int, style: Any, all_tasks: bool) -> None:
    strategy = token_budget(
        high, low_water=min(low, high), counter=WORDS, style=style, tasks="all" if all_tasks else "current"
    )
    must = [g for g in groups(steps) if {s.id for s in g} & {s.id for s in critical(steps, "current")}]
    needed = tokens([step for group in must for step in group], style)
    if tokens(steps, style) <= high:
        assert strategy(steps) == steps
    elif needed > high:
        with pytest.raises(BudgetError) as caught:
            strategy(steps)
        assert caught.value.needed == needed == sum(caught.value.parts.values())
        assert caught.value.budget == high
    else:
        assert tokens(strategy(steps), style) <= high


@pytest.mark.parametrize(
    "strategy",
    [
        token_budget(53, low_water=28, counter=WORDS),  # a message of one word costs 5, the reply 3
        keep_last_n_steps(10, low_water=5), keep_system_and_recent(10, low_water=5),
    ],
)  # fmt: skip
def test_below_the_high_water_mark_nothing_changes_and_above_it_the_window_falls_to_the_low_one(
    strategy: PruneStrategy,
) -> None:
    window: list[Step] = []
    sizes = []
    for word in "abcdefghijklmnopqrst":
        window = strategy([*window, *said(word)])
        sizes.append(len(window))
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 5, 6, 7, 8, 9, 10, 5, 6, 7, 8]


def test_the_newest_group_may_go_beyond_the_low_water_mark() -> None:
    long = MessageStep("user", "w " * 20)
    steps = [*said("a", "b", "c", "d"), long]
    assert token_budget(40, low_water=10, counter=WORDS)(steps) == [long]


def test_a_group_that_could_never_fit_goes_alone() -> None:
    steps = [*said("a", "b"), MessageStep("user", "w " * 100), *said("c")]
    assert texts(token_budget(30, counter=WORDS)(steps)) == ["a", "b", "c"]


def test_older_tasks_go_first_when_critical_steps_alone_are_too_much() -> None:
    steps: list[Step] = [SystemPromptStep("s"), *(TaskStep(f"task {n}") for n in range(6)), *said("a")]
    kept = token_budget(3 + 5 + 3 * 6, counter=WORDS)(steps)
    assert texts(kept) == ["s", "task 3", "task 4", "task 5"]


def test_with_tasks_current_an_older_task_is_a_step_like_any_other() -> None:
    steps = [TaskStep("old task"), *said("a", "b"), TaskStep("new task"), *said("c")]
    assert texts(token_budget(24, counter=WORDS)(steps)) == ["old task", "new task", "c"]
    assert texts(token_budget(24, counter=WORDS, low_water=24, tasks="current")(steps)) == ["a", "b", "new task", "c"]


def test_a_shortened_step_is_counted_again() -> None:
    strategy = token_budget(60, counter=WORDS)
    long, first = ActionStep(tool_name="f", observation="w " * 50), said("a")
    assert strategy([*first, long]) == first
    (short,) = prune_old_observations(keep_last_n=0, max_length=10)([long])
    assert short.id == long.id
    assert strategy([*first, short]) == [*first, short]


def test_one_strategy_can_serve_several_windows() -> None:
    strategy = token_budget(13, counter=WORDS, low_water=13)
    first, second = said("a", "b", "c"), said("d", "e", "f")
    for _ in range(3):
        assert texts(strategy(first)) == ["b", "c"]
        assert texts(strategy(second)) == ["e", "f"]


# -- compose


def test_strategies_run_from_left_to_right() -> None:
    steps = [*said("a", "b", "c"), ActionStep(tool_name="ls", observation="x" * 900), *said("d")]
    cut = prune_old_observations(keep_last_n=0, max_length=100)
    after = compose(cut, keep_last_n_steps(2))(steps)
    assert after == cut(steps)[-2:]
    assert compose()(steps) == steps == compose(no_pruning(), no_pruning())(steps)


def test_a_strategy_may_change_the_list_that_it_gets() -> None:
    def careless(steps: Sequence[Step]) -> list[Step]:
        assert isinstance(steps, list)
        del steps[:1]
        return steps

    steps = said("a", "b", "c")
    assert texts(compose(careless, careless)(steps)) == ["c"]
    assert texts(steps) == ["a", "b", "c"]
