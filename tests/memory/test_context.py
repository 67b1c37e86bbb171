"""How a context is put together: what is in it, in which order, and what stays the same from call to call."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from memories import START, open_memory, said
from strategies import WORDS

from tinymem import Context, HierarchicalMemory, count_tokens, prune_old_observations
from tinymem.errors import BudgetError
from tinymem.memory.context.context import NOTE
from tinymem.recall.render import is_block
from tinymem.steps.step import Message
from tinymem.steps.types import ActionStep, MessageStep, Step, SystemPromptStep, TaskStep, ToolCall

MEMORY = {"max_tokens": 800}
FRUIT = ["apple", "banana", "cherry", "damson", "elder", "fig", "grape", "hazel"]


def looked(what: str, found: str) -> ActionStep:
    return ActionStep(f"Look at {what}.", tool_name="look", tool_args={"at": what}, observation=found)


def chatter(count: int, start: int = 0) -> list[Step]:
    """Turns about fruit, each a user's line and an answer."""
    turns: list[Step] = []
    for i in range(start, start + count):
        fruit, at = FRUIT[i % len(FRUIT)], START + timedelta(minutes=i)
        turns.append(said(f"Question {i}: how is the {fruit} doing in field {i}?", timestamp=at))
        turns.append(said(f"Answer {i}: the {fruit} in field {i} is ripe.", role="assistant", timestamp=at))
    return turns


def split(context: Context, key: bytes) -> tuple[list[Message], Message | None, list[Message]]:
    """What stands before the block, the block, and what stands behind it."""
    for at, message in enumerate(context.messages):
        if is_block(str(message["content"]), key):
            return context.messages[:at], message, context.messages[at + 1 :]
    return context.messages, None, []


# -- what is in it, and in which order --------------------------------------------------------------------------------


def test_the_block_is_one_user_message_just_before_the_newest_group(memory: HierarchicalMemory) -> None:
    memory.add(SystemPromptStep("Be brief."))
    memory.add_steps(chatter(60))
    memory.add(said("And the damson in field 3?"))
    before, block, behind = split(memory.context(), memory.long_term.key)
    assert block is not None and block["role"] == "user"
    assert behind == [{"role": "user", "content": "And the damson in field 3?"}]
    assert before[0] == {"role": "system", "content": "Be brief."}
    assert before[-1]["content"].startswith("Answer 59")
    assert "field 3" in block["content"]


def test_system_prompt_current_task_and_pinned_steps_are_always_in(memory: HierarchicalMemory) -> None:
    memory.add_steps([SystemPromptStep("Old rules."), SystemPromptStep("Be brief."), TaskStep("An old task.")])
    memory.add_steps([said("The gate code is 4711.", pinned=True), TaskStep("Harvest everything."), *chatter(80)])
    must = ["Be brief.", "The gate code is 4711.", "Harvest everything."]
    for budget in (60, 100, 400, 2_000):
        texts = [m["content"] for m in memory.context("", max_tokens=budget).messages]
        assert [text for text in texts if text in must] == must


def test_what_the_window_has_no_room_for_may_be_recalled(memory: HierarchicalMemory) -> None:
    memory.add_steps(chatter(8))
    assert memory.stats().archived_steps == 0
    items = memory.context("apple in field 0", max_tokens=200).recalled.items
    assert [item.step.step_number for item in items][:2] == [1, 2]


def test_a_conversation_cut_where_the_assistant_speaks_begins_with_a_note(memory: HierarchicalMemory) -> None:
    memory.add_steps([step for step in chatter(100) if step.text.startswith("Answer")])
    before, block, _ = split(memory.context("elder in field 4"), memory.long_term.key)
    assert before[0] == NOTE and before[1]["role"] == "assistant" and block is not None
    nothing_recalled = memory.context("", max_tokens=30)
    assert nothing_recalled.messages[0] == NOTE
    assert nothing_recalled.tokens <= 30


# -- the prefix, for prompt caches ------------------------------------------------------------------------------------


def test_the_prefix_stays_byte_identical_but_for_jumps(memory: HierarchicalMemory) -> None:
    memory.add_steps([SystemPromptStep("Be brief."), TaskStep("Watch the fields.")])
    steps = chatter(60)
    memory.add_steps(steps[:60])
    jumps = 0
    before = split(memory.context(), memory.long_term.key)[0]
    for step in steps[60:]:
        memory.add(step)
        now, block, _ = split(memory.context(), memory.long_term.key)
        assert block is not None
        if now[: len(before)] != before:
            jumps += 1
            assert now[:2] == before[:2]
        before = now
    assert 3 <= jumps <= len(steps[60:]) / 5


# -- too much ---------------------------------------------------------------------------------------------------------


def test_an_oversized_newest_observation_is_shortened_and_excerpts_of_it_come_back(tmp_path: Path) -> None:
    lines = [f"{i:06}: GET /fruit/{i % 97} took {i % 31} ms and was fine\n" for i in range(3_500)]
    lines[2_000] = "002000: the zucchini broker refused the handshake with code 8731\n"
    with HierarchicalMemory(tmp_path, store="exact", max_tokens=3_000) as memory:
        memory.add_steps(
            [TaskStep("Why does the zucchini broker refuse the handshake?"), said("Fine.", role="assistant")]
        )
        step = memory.add(looked("log", "".join(lines)))
        context = memory.context("the zucchini broker's handshake")
        call, result = context.messages[-2:]
        assert context.tokens <= 3_000 and call["content"].endswith('look({"at": "log"})')
        assert result["content"].startswith("Observation: 000000: GET") and result["content"].endswith("was fine\n")
        assert "characters left out" in result["content"] and "code 8731" in context.recalled.text
        assert memory.get(step.id) == step


def test_what_must_be_in_and_does_not_fit_is_an_error_with_numbers_that_add_up(memory: HierarchicalMemory) -> None:
    memory.add(SystemPromptStep("You are a careful gardener. " * 10))
    memory.add(ActionStep("Pinned.", [ToolCall("look", {"at": "gate"}, "c1")], pinned=True))
    memory.add(MessageStep("tool", "the gate is green " * 5, "c1"))
    memory.add(TaskStep("Harvest all the fields. " * 5))
    memory.add(said("Go."))
    with pytest.raises(BudgetError) as caught:
        memory.context(max_tokens=50)
    error = caught.value
    assert list(error.parts) == ["reply", "system prompt", "pinned steps", "current task"]
    assert sum(error.parts.values()) == error.needed > error.budget == 50
    assert str(error).endswith("raise max_tokens, shorten them, or pin fewer steps")
    with pytest.raises(BudgetError):
        memory.context(max_tokens=error.needed - 1)
    assert memory.context(max_tokens=error.needed).tokens <= error.needed


# -- strategies that shorten ------------------------------------------------------------------------------------------


def test_what_a_strategy_cut_out_of_a_shown_step_may_be_recalled(tmp_path: Path) -> None:
    strategy = prune_old_observations(keep_last_n=1, max_length=80)
    listing = "\n".join(f"{fruit} costs {i + 3} coins" for i, fruit in enumerate(FRUIT * 6))
    steps = [looked("prices", f"{listing}\nquince costs 99 coins\n{listing}"), looked("weather", "sunny")]
    for added in (steps, []):  # after a restart, too
        with open_memory(tmp_path, max_tokens=4_000, prune_strategy=strategy) as memory:
            memory.add_steps(added)
            assert "quince" not in memory.steps[0].text and "characters left out" in memory.steps[0].text
            context = memory.context("How many coins does the quince cost?")
            assert "quince costs 99 coins" in context.recalled.text and str(context.messages).count("quince costs") == 1


# -- the report -------------------------------------------------------------------------------------------------------


def test_explain_has_a_line_for_every_item(memory: HierarchicalMemory) -> None:
    memory.add_steps([SystemPromptStep("Be brief."), TaskStep("Watch the fields.")])
    memory.add_steps(chatter(60))
    context = memory.context("apple in field 0", max_tokens=300)
    head, *lines = context.explain().splitlines()
    assert head == f"{context.tokens} of 300 tokens, {len(context.messages)} messages"
    assert len(lines) == len(context.items)
    tiers = [line.split()[0] for line in lines]
    assert set(tiers) == {"fixed", "window", "recall", "out"}
    assert re.match(r"fixed +#1 system_prompt +\d+ tokens +Be brief\.", lines[0])
    recalled = next(line for line in lines if line.startswith("recall"))
    assert re.search(r"\d+ tokens +[+-]\d+\.\d\d  \w+ [+-]\d", recalled)


def test_explain_says_what_had_no_room(memory: HierarchicalMemory) -> None:
    memory.add_steps([said(f"The deploy of service {at} failed with error E{at}47. " * 3) for at in range(40)])
    memory.add_steps([said(f"Lunch {at} was fine.") for at in range(60)])
    asked = "Which error did the deploy of service 7 fail with?"
    small, large = (memory.context(asked, max_tokens=budget) for budget in (200, 800))
    assert small.recalled.overflow.passages > 0 == large.recalled.overflow.passages
    assert str(small.recalled.overflow) in small.explain() and "no room" not in large.explain()


def test_every_step_of_the_window_is_accounted_for_once(memory: HierarchicalMemory) -> None:
    memory.add_steps([TaskStep("Old."), TaskStep("Watch the fields."), *chatter(10), TaskStep("New.")])
    for budget in (30, 120, 300, 800):
        context = memory.context("apple", max_tokens=budget)
        ids = [item.step.id for item in context.items if item.tier != "recall"]
        assert len(ids) == len(set(ids))
        assert {step.id for step in memory.short_term.steps} <= {item.step.id for item in context.items}


def test_a_counter_of_the_users_own_decides(tmp_path: Path) -> None:
    with open_memory(tmp_path, counter=WORDS, max_tokens=300) as memory:
        memory.add_steps(chatter(80))
        context = memory.context("banana in field 1")
        assert context.tokens == count_tokens(context.messages, WORDS) <= 300 < count_tokens(context.messages)
