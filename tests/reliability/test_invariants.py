"""What holds for every history, strategy, window, budget and query."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provider_chats import with_ids_by_place
from strategies import MODERATE, Chat, chats, histories, prune_strategies, summary_strategies, texts

from tinymem import Context, HierarchicalMemory, Step, count_tokens, no_pruning, prune_old_observations
from tinymem.errors import BudgetError
from tinymem.memory.context.context import NOTE
from tinymem.memory.context.window import fixed_steps
from tinymem.messages import groups, messages_from_steps, problems, repair
from tinymem.recall.render import is_block
from tinymem.steps.step import Message
from tinymem.window.strategies import PruneStrategy

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


@contextmanager
def memory_of(steps: Sequence[Step], **options: Any) -> Iterator[HierarchicalMemory]:
    with tempfile.TemporaryDirectory() as folder, open_memory(folder, **options) as memory:
        for step in steps:
            memory.add(step)
        yield memory


def every_other_group(steps: Sequence[Step]) -> list[Step]:
    return [step for group in groups(steps)[::2] for step in group]


def all_shortened(steps: Sequence[Step]) -> list[Step]:
    return [step.truncate(12) for step in steps]


def nothing(steps: Sequence[Step]) -> list[Step]:
    return []


STRATEGIES: st.SearchStrategy[PruneStrategy | None] = st.one_of(
    st.none(), prune_strategies(), summary_strategies(), st.sampled_from([every_other_group, all_shortened, nothing])
)
BUDGETS = st.one_of(st.integers(1, 80), st.integers(60, 400), st.integers(300, 4_000))
QUERIES = st.one_of(st.none(), st.none(), texts())


def needed_for(steps: Sequence[Step]) -> int:
    """Tokens of what must be in the prompt, counted on the messages."""
    return count_tokens(repair(messages_from_steps(fixed_steps(steps))))


def context_within(memory: HierarchicalMemory, budget: int, query: str | None = None) -> Context | None:
    """The context, or None where it is right that there is none."""
    needed = needed_for(memory.short_term.steps)
    if needed <= budget:
        return memory.context(query, max_tokens=budget)
    with pytest.raises(BudgetError) as caught:
        memory.context(query, max_tokens=budget)
    error = caught.value
    assert (error.needed, error.budget) == (needed, budget)
    assert sum(error.parts.values()) == needed and all(error.parts.values())
    assert f"{needed - budget} more than the budget of {budget}" in str(error)
    return None


def block_of(context: Context) -> Message:
    return {"role": "user", "content": context.recalled.text or None}


def check_sequence(context: Context) -> None:
    assert context.tokens == count_tokens(context.messages) <= context.budget
    assert problems(context.messages) == []
    assert repair(context.messages) == context.messages


def check_block(context: Context, memory: HierarchicalMemory) -> None:
    """What was recalled is one user message just before the newest group, and no step is in it that is shown whole."""
    key = memory.long_term.key
    at = [i for i, message in enumerate(context.messages) if is_block(str(message["content"]), key)]
    assert len(at) == bool(context.recalled)
    if not at:
        return
    block = context.messages[at[0]]
    assert block == block_of(context)
    roles = [message["role"] for message in context.messages[at[0] + 1 :]]
    assert roles[:1] != ["tool"]
    newest = messages_from_steps(step for group in groups(memory.short_term.steps)[-1:] for step in group)
    noted = [one for one in newest if isinstance(one.get("content"), list)]  # a note may replace a file
    assert len(roles) <= len(repair(newest)) + len(noted)
    shown = {i.step.step_number: i.step for i in context.items if i.tier in ("fixed", "window") and i.step.is_sent}
    for excerpt in context.recalled.items:
        assert excerpt.step.step_number is not None and shown.get(excerpt.step.step_number) != excerpt.step


@MODERATE
@given(histories(), STRATEGIES, st.integers(1, 600), st.lists(st.tuples(BUDGETS, QUERIES), min_size=1, max_size=4))
def test_a_context_is_valid_and_never_over_budget_after_every_single_step(
    steps: list[Step], strategy: PruneStrategy | None, window: int, asked: list[tuple[int, str | None]]
) -> None:
    with memory_of([], window_tokens=window, prune_strategy=strategy) as memory:
        for number, step in enumerate(steps):
            memory.add(step)
            for budget, query in asked if step is steps[-1] else [asked[number % len(asked)]]:
                if context := context_within(memory, budget, query):
                    check_sequence(context)
                    check_block(context, memory)


@MODERATE
@given(histories(), STRATEGIES, BUDGETS, QUERIES)
def test_opened_again_it_goes_on_exactly_where_it_was(
    steps: list[Step], strategy: PruneStrategy | None, budget: int, query: str | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"window_tokens": 120, "prune_strategy": strategy}
        with open_memory(folder, **options) as memory:
            for step in steps:
                memory.add(step)
            window, number = memory.short_term.steps, memory.short_term.next_number
            before = context_within(memory, budget, query)
        with open_memory(folder, **options) as memory:
            assert memory.short_term.steps == window
            assert memory.short_term.next_number == number
            after = context_within(memory, budget, query)
            if before and after:
                assert (after.messages, after.explain()) == (before.messages, before.explain())


@MODERATE
@given(histories(), STRATEGIES)
def test_whatever_was_added_is_there_whole(steps: list[Step], strategy: PruneStrategy | None) -> None:
    with memory_of(steps, window_tokens=60, prune_strategy=strategy) as memory:
        for number, step in enumerate(steps, 1):
            assert memory.get(step.id) == memory.get(number) == step.evolve(step_number=number)
        assert memory.stats().steps == len(steps)
        assert memory.stats().window_steps == len(memory.short_term)


@MODERATE
@given(chats(), st.lists(st.integers(0, 20), max_size=3))
def test_what_fits_comes_out_as_it_went_in(messages: Chat, cuts: list[int]) -> None:
    ends = [*sorted(min(cut, len(messages)) for cut in cuts), len(messages)]
    with memory_of([], max_tokens=1_000_000) as memory:
        for start, end in zip([0, *ends], ends, strict=False):
            memory.add_messages(messages[start:end])
        context = memory.context()
        assert with_ids_by_place(context.messages) == with_ids_by_place(repair(messages))
        if not problems(messages):
            assert len(context.messages) == len(messages)
            assert all(message in messages for message in context.messages)
        assert not context.recalled


@MODERATE
@given(histories(max_chunks=20), st.integers(150, 500), st.randoms(use_true_random=False))
def test_what_stands_around_the_block_only_gives_way_to_what_is_asked_from_its_oldest_end(
    steps: list[Step], budget: int, dice: random.Random
) -> None:
    with memory_of([], window_tokens=200) as memory:
        for step in steps:
            memory.add(step)
            if needed_for(memory.short_term.steps) > budget or dice.random() < 0.6:
                continue
            asked = [memory.context(query, max_tokens=budget) for query in ("", None, step.text[:30], "something else")]
            # The note stands in for a block, where a sequence would begin with the assistant.
            whole, *others = [[m for m in c.messages if m != NOTE and m != block_of(c)] for c in asked]
            newest = {step.id for step in groups(memory.short_term.steps)[-1]}
            has_newest = any(item.step.id in newest for item in asked[0].items if item.tier in ("fixed", "window"))
            for messages in others:
                rest = iter(whole)
                assert all(message in rest for message in messages)
                assert messages[-1:] == whole[-1:] or not has_newest  # one that does not fit is not shown at all


@MODERATE
@given(histories(), st.integers(0, 3), st.sampled_from([no_pruning(), prune_old_observations(keep_last_n=1)]))
def test_forgetting_any_steps_leaves_valid_contexts_and_numbers_that_only_grow(
    steps: list[Step], every: int, strategy: PruneStrategy
) -> None:
    with memory_of(steps, prune_strategy=strategy) as memory:
        gone = [step.id for step in steps[every :: every + 1]]
        if gone:
            assert memory.forget(gone) == len(gone)
        left = [step for step in steps if step.id not in gone]
        assert [step.id for step in memory.short_term.steps] == [step.id for step in left]
        if context := context_within(memory, 600):
            check_sequence(context)
        added = memory.add_messages([{"role": "user", "content": "and now?"}])
        assert [step.step_number for step in added] == [len(steps) + 1]
