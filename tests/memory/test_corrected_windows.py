"""Corrections in a window: whoever sees a corrected step sees what corrects it, in a prompt right behind it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tinymem import ActionStep, Context, HierarchicalMemory, MessageStep, Step, TaskStep, ToolCall, count_tokens
from tinymem.errors import BudgetError
from tinymem.recall.render import is_block

open_memory = partial(HierarchicalMemory, store="exact", embedder="hashing:64")
OLD, NEW = "The gate's code is 4711.", "The gate's code is 4712."
TALK = [TaskStep("Open the gate."), MessageStep("user", OLD), MessageStep("assistant", "Noted."),
        MessageStep("user", "And now?")]  # fmt: skip
HISTORY = [message for step in TALK for message in step.to_messages()]


def texts(context: Context) -> list[str]:
    return [str(message["content"]) for message in context.messages]


def of_window(memory: HierarchicalMemory) -> Context:
    if not memory.steps:
        memory.add_steps(TALK)
    return memory.context(session="s", max_tokens=1_000)


def of_history(memory: HierarchicalMemory) -> Context:
    return memory.fit(HISTORY, session="s", max_tokens=1_000)


PROMPTS = pytest.mark.parametrize("prompt", [of_window, of_history])


def number_of(memory: HierarchicalMemory, text: str = OLD) -> int:
    return next(step.step_number or 0 for step in memory.history() if step.text == text)


@PROMPTS
def test_a_prompt_that_was_sent_changes_behind_the_corrected_step_and_goes_on_from_there(prompt: Any) -> None:
    with open_memory() as memory:
        sent = texts(prompt(memory))
        memory.correct(number_of(memory), NEW)
        context = prompt(memory)
        now = texts(context)
        assert now[:2] == sent[:2] and now[3 : len(sent) + 1] == sent[2:]
        assert f"user: {NEW} (corrects #{number_of(memory)}, above)\n" in now[2]
        assert is_block(now[2], memory.long_term.key) and context.entries[2].kind == "recalled"
        assert context.tokens == count_tokens(context.messages)
        again = prompt(memory)
        assert texts(again) == now and again.stable == len(now)
        memory.correct(number_of(memory), "The gate has no code.")
        assert "user: The gate has no code. (corrects #" in texts(prompt(memory))[2]


def test_a_note_that_a_framework_keeps_is_not_archived() -> None:
    with open_memory() as memory:
        of_history(memory)
        memory.correct(number_of(memory), NEW)
        messages, steps = of_history(memory).messages, memory.stats().steps
        assert len(messages) == len(HISTORY) + 1
        assert memory.fit(messages, session="s").messages == messages and memory.stats().steps == steps


@PROMPTS
def test_explanations_and_receipts_name_both_by_number(prompt: Any) -> None:
    with open_memory() as memory:
        prompt(memory)
        old = number_of(memory)
        new = memory.correct(old, NEW).step_number
        context = prompt(memory)
        assert f"corrected by #{new}" in [item.why for item in context.items if item.step.text == OLD]
        (receipt,) = memory.receipts.newest()
        assert [(item.number, item.corrects) for item in receipt.items] == [(new, (old,))]
        prompt(memory)
        assert len(memory.receipts.newest()) == 1  # nothing came into the prompt
        messages = HISTORY if prompt is of_history else None
        explained = memory.explain(messages=messages, session="s")
        assert f"in the window: #{new} (corrects #{old}, above)" in str(explained)


@PROMPTS
def test_what_was_corrected_by_something_that_is_forgotten_stands_alone_again(prompt: Any) -> None:
    with open_memory() as memory:
        sent = texts(prompt(memory))
        new = memory.correct(number_of(memory), NEW)
        assert texts(prompt(memory)) != sent
        memory.forget(new.id)
        assert texts(prompt(memory)) == sent


def test_a_correction_that_a_filter_leaves_out_is_not_shown() -> None:
    with open_memory() as memory:
        of_history(memory)
        new = memory.correct(number_of(memory), MessageStep("user", NEW, session="other"))
        assert not any(NEW in text for text in texts(memory.fit(HISTORY, session="s", sessions="s")))
        assert not any(NEW in text for text in texts(memory.fit(HISTORY, session="s", without=[new.step_number or 0])))
        assert any(NEW in text for text in texts(memory.fit(HISTORY, session="s")))


def test_a_strategy_gets_the_number_of_the_correction_and_the_window_keeps_the_step(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def watch(steps: list[Step]) -> list[Step]:
        seen.append([step.text for step in steps])
        return steps

    with open_memory(tmp_path, prune_strategy=watch) as memory, open_memory(tmp_path) as other:
        memory.add_steps([*TALK[:2], ActionStep("", [ToolCall("look", {}, observation="It is shut.")])])
        number = other.correct(2, NEW).step_number
        memory.correct(3, "It is open.")
        memory.prune()
        assert seen[-1][1:3] == [f"{OLD}\n(corrected by #{number})", "look({})\nIt is shut.\n(corrected by #5)"]
        assert [step.text for step in memory.steps][1:3] == [OLD, "look({})\nIt is shut."]
        shortened = memory.prune(lambda steps: [step.shortened(8) for step in steps])
        assert OLD in {step.text for step in shortened.shortened}


def test_where_a_note_does_not_fit_the_prompt_is_without() -> None:
    with open_memory() as memory:
        memory.add(TaskStep(OLD, pinned=True))
        memory.correct(1, MessageStep("user", NEW, session="other"))
        assert any("corrects #1" in text for text in texts(memory.context(session="s", max_tokens=100)))
        assert texts(memory.context(session="s", max_tokens=20)) == [OLD]
        with pytest.raises(BudgetError):
            memory.context(session="s", max_tokens=5)
