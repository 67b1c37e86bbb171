"""Prompts of a session, each of which goes on from the one before, so that a provider's prompt cache holds."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tinymem import ActionStep, Context, HierarchicalMemory, MessageStep, Step, TaskStep
from tinymem.messages.tokens import default_counter
from tinymem.runs import PRICES
from tinymem.runs.replays.billing import PrefixCache
from tinymem.runs.replays.policies import pieces_of

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")
FRUIT = ["apple", "banana", "cherry", "damson", "elder", "fig", "grape", "hazel"]


def work(count: int, length: int = 6) -> list[Step]:
    """A task, and calls whose results name a fruit each."""
    steps: list[Step] = [TaskStep("Watch the fields.")]
    for at in range(count):
        found = f"Field {at}: the {FRUIT[at * 5 % 8]} of row {at * 7} is ripe. " * (1 + at % length)
        steps.append(ActionStep(f"Look {at}.", tool_name="look", tool_args={"at": f"field {at}"}, observation=found))
    return steps


def prompts_of_window(steps: list[Step], budget: int, **options: Any) -> list[Context]:
    with open_memory(max_tokens=budget, **options) as memory:
        found = []
        for step in steps:
            memory.add(step)
            found.append(memory.context(session="s"))
        return found


def prompts_of_history(steps: list[Step], budget: int, **options: Any) -> list[Context]:
    with open_memory(max_tokens=budget, **options) as memory:
        history: list[Any] = []
        found = []
        for step in steps:
            history += step.to_messages(style="tools")
            found.append(memory.fit(history, session="s"))
        return found


MAKERS = pytest.mark.parametrize("make", [prompts_of_window, prompts_of_history])


def jumps(prompts: list[Context]) -> int:
    return sum(after.messages[: len(before.messages)] != before.messages for before, after in pairwise(prompts))


@MAKERS
def test_a_prompt_begins_as_the_one_before_but_for_jumps(make: Any) -> None:
    prompts = make(work(150), 2_000)
    assert 2 <= jumps(prompts) <= 40
    assert all(prompt.stable == len(prompt.messages) for prompt in prompts)
    assert any(entry.kind == "recalled" for entry in prompts[-1].entries)


@pytest.mark.slow
@MAKERS
def test_no_excerpt_is_recalled_twice_into_a_prompt(make: Any) -> None:
    blocks = 0
    for prompt in make(work(80), 2_500):
        texts = [str(entry.message["content"]) for entry in prompt.entries if entry.kind == "recalled"]
        excerpts = [line for text in texts for line in text.splitlines() if "is ripe" in line]
        assert len(excerpts) == len(set(excerpts))
        blocks = max(blocks, len(texts))
    assert blocks > 1


@pytest.mark.slow
@MAKERS
def test_a_cache_serves_most_of_what_is_sent(make: Any) -> None:
    cache = PrefixCache(PRICES["anthropic"], default_counter())
    sent = [cache.send(pieces_of(one.messages, default_counter())) for one in make(work(250), 6_000)]
    assert sum(one.cached for one in sent) >= 0.8 * sum(one.tokens for one in sent)


@MAKERS
def test_where_nothing_is_cached_every_prompt_is_built_from_scratch(make: Any) -> None:
    assert jumps(make(work(60), 1_000, cache=1)) > 20


def test_the_same_call_again_has_the_same_prompt() -> None:
    steps = work(40)
    with open_memory(max_tokens=1_500) as memory:
        memory.add_steps(steps)
        history = [message for step in steps for message in step.to_messages(style="tools")]
        for _ in range(2):
            assert memory.context(session="s").messages == memory.context(session="s").messages
            assert memory.fit(history, session="f").messages == memory.fit(history, session="f").messages


def test_what_the_agent_asks_for_now_is_recalled_behind_what_was_sent() -> None:
    with open_memory(max_tokens=3_000) as memory:
        memory.add_steps([TaskStep("Keep the books."), MessageStep("user", "The vault's code is 4711-Q.")])
        memory.add_steps(
            [MessageStep("user", f"Invoice {at} of the {FRUIT[at % 8]} farm is paid. " * 4) for at in range(150)]
        )
        before = memory.context(session="s").messages
        memory.add_message("user", "What is the code of the vault?")
        after = memory.context(session="s").messages
    assert after[: len(before)] == before
    assert any("4711-Q" in str(message["content"]) for message in after)


def test_without_a_session_a_context_depends_on_nothing_that_was_sent() -> None:
    steps = work(80)
    with open_memory(max_tokens=1_500) as one, open_memory(max_tokens=1_500) as other:
        for step in steps:
            one.add(step)
            one.context(session="s")
        other.add_steps(steps)
        assert [m for m in one.context().messages if "recalled-" not in str(m)] == [
            m for m in other.context().messages if "recalled-" not in str(m)
        ]


def test_what_is_forgotten_or_cleared_is_sent_no_longer() -> None:
    with open_memory(max_tokens=2_000) as memory:
        memory.add_steps([TaskStep("Watch."), MessageStep("user", "The vault's code is 4711-Q."), *work(5)[1:]])
        assert "4711-Q" in str(memory.context(session="s").messages)
        memory.forget(memory.get(2).id)
        assert "4711-Q" not in str(memory.context(session="s").messages)
        memory.clear()
        assert "Field 3" not in str([entry.message for entry in memory.context("x", session="s").entries])


def test_where_nothing_is_recalled_the_window_has_the_room() -> None:
    with open_memory(max_tokens=2_000) as memory:
        history: list[Any] = []
        tokens = []
        for step in work(60):
            history += step.to_messages(style="tools")
            tokens.append(memory.fit(history, session="s", sessions="nobody").tokens)
    anew = [after for before, after in pairwise(tokens) if after < before]
    assert anew and min(anew) > 700  # 240 with the window's usual share


def test_a_session_begins_a_new_prompt_after_a_restart(tmp_path: Path) -> None:
    history = [message for step in work(60) for message in step.to_messages(style="tools")]
    with open_memory(tmp_path, max_tokens=2_000) as memory:
        for end in range(1, len(history), 2):
            before = memory.fit(history[:end], session="s").messages
    sent = []
    for _ in range(2):
        with open_memory(tmp_path, max_tokens=2_000) as memory:
            sent.append(memory.fit(history[:end], session="s").messages)
    assert sent[0] == sent[1] != before


def test_an_edited_history_starts_a_new_prompt() -> None:
    history = [message for step in work(10) for message in step.to_messages(style="tools")]
    with open_memory(max_tokens=4_000) as memory:
        memory.fit(history, session="s")
        edited = [*history[:2], {**history[2], "content": "[cleared]"}, *history[3:]]
        shown = [m for m in memory.fit(edited, session="s").messages if "recalled-" not in str(m)]
        assert shown == edited


@MAKERS
@pytest.mark.parametrize("gaps", [0, 900])
def test_the_newest_request_is_in_every_prompt_shortened_where_it_is_long(make: Any, gaps: int) -> None:
    request = MessageStep("user", "Find the vault code. " + "Mind the gap. " * gaps)
    for prompt in make([MessageStep("user", "Hello."), request, *work(40)[1:]], 800)[1:]:
        assert any(said["role"] == "user" and said["content"].startswith("Find the") for said in prompt.messages)
        assert prompt.tokens <= 800
