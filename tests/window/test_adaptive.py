"""AdaptiveMemoryManager: never over its tokens, valid, whole, and pruned in jumps."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import THOROUGH, WORDS, Words, histories

from tinymem import (
    ActionStep,
    AdaptiveMemoryManager,
    MessageStep,
    Step,
    SystemPromptStep,
    TaskStep,
    ToolCall,
    count_tokens,
    no_pruning,
)
from tinymem.errors import BudgetError, InputError, MessageError
from tinymem.messages import groups, problems, repair
from tinymem.steps.step import Style
from tinymem.window import PruneReport

STYLES: tuple[Style, ...] = ("tools", "observation")
BUDGETS = st.one_of(st.integers(3, 60), st.integers(40, 200), st.integers(100, 600))
LENGTH = 20  # words of a message in the examples below: 4 tokens of overhead, the reply 3


def said(word: str, count: int = LENGTH, **more: Any) -> MessageStep:
    return MessageStep("user", " ".join([word] * count), **more)


def filled(max_tokens: int, count: int, **options: Any) -> AdaptiveMemoryManager:
    memory = AdaptiveMemoryManager(max_tokens, counter=WORDS, **options)
    for i in range(count):
        memory.add(said(f"w{i}"))
    return memory


def words(memory: AdaptiveMemoryManager) -> list[str]:
    return [step.text.split()[0] for step in memory]


def check(memory: AdaptiveMemoryManager) -> None:
    messages = memory.to_messages()
    assert memory.tokens == count_tokens(messages, WORDS) <= memory.max_tokens
    assert problems(messages) == [] and repair(messages) == messages


def resized(memory: AdaptiveMemoryManager, max_tokens: int, **options: Any) -> AdaptiveMemoryManager:
    """A memory of the same steps with room for another number of tokens."""
    options |= {"max_tokens": max_tokens, "counter": WORDS, "style": memory._sending.style}
    return AdaptiveMemoryManager(steps=memory.steps, **options)


def test_the_newest_request_gives_way_to_the_newest_group() -> None:
    def read(count: int, **more: Any) -> ActionStep:
        return ActionStep(tool_calls=[ToolCall("", {"a": 1}, observation="") for _ in range(count)], **more)

    for room in range(20, 80):
        memory = AdaptiveMemoryManager(room, low_water=room * 2 // 3, counter=WORDS, style="tools")
        with suppress(BudgetError):
            memory.add_steps([read(1, pinned=True), MessageStep("user", "0")])
            newest = memory.add(read(2))
            assert newest.id == memory.steps[-1].id, room


@pytest.mark.parametrize("length", [LENGTH, 400])
def test_the_newest_request_stays_shortened_where_it_is_long(length: int) -> None:
    memory = AdaptiveMemoryManager(300, "Be brief.", counter=WORDS)
    request = memory.add(said("seek", length))
    for number in range(20):
        memory.add(ActionStep(tool_name="read", tool_args={"n": number}, observation="word " * 40))
        assert request.id in [step.id for step in memory]
        assert memory.steps[-1].text.count("word") == 40
        check(memory)


# -- whatever is added ------------------------------------------------------------------------------------------------


@dataclass
class History:
    """What is known of a memory from outside: what it was given, and what it reported."""

    memory: AdaptiveMemoryManager
    given: list[Step]
    reports: list[PruneReport]


def told(steps: Sequence[Step], max_tokens: int, low: float, style: Style) -> Iterator[History]:
    """The memory after each step."""
    reports: list[PruneReport] = []

    def note(report: PruneReport) -> None:
        gone = {step.id for step in report.removed}
        for group in groups(memory.steps):
            assert sum(step.id in gone for step in group) in (0, len(group)), "groups stay or go whole"
        reports.append(report)

    memory = AdaptiveMemoryManager(
        max_tokens, low_water=int(low * max_tokens), counter=WORDS, style=style, on_prune=note
    )
    history = History(memory, [], reports)
    for step in steps:
        before = memory.steps, memory.tokens, memory.next_number, len(reports)
        try:
            history.given.append(memory.add(step))
        except BudgetError as error:
            assert error.needed == sum(error.parts.values()) > error.budget == max_tokens
            assert (memory.steps, memory.tokens, memory.next_number, len(reports)) == before
        except MessageError:  # the result of a call that was refused
            assert isinstance(step, MessageStep) and step.role == "tool"
        yield history


@THOROUGH
@given(histories(), BUDGETS, st.floats(0, 1), st.sampled_from(STYLES))
def test_it_is_never_over_its_tokens_and_what_it_sends_is_valid(
    steps: list[Step], max_tokens: int, low: float, style: Style
) -> None:
    for history in told(steps, max_tokens, low, style):
        check(history.memory)


@THOROUGH
@given(histories(), BUDGETS, st.floats(0, 1), st.sampled_from(STYLES))
def test_groups_stay_whole_in_order_and_nothing_is_lost(
    steps: list[Step], max_tokens: int, low: float, style: Style
) -> None:
    for history in told(steps, max_tokens, low, style):
        given, window = history.given, history.memory.steps
        whole = {step.id: step for step in given}
        held = [step.id for step in window]
        assert held == [step.id for step in given if step.id in set(held)]
        assert [step.step_number for step in window] == [whole[id].step_number for id in held]
        gone = {step.id: step for report in history.reports for step in report.removed}
        cut = {step.id: step for report in history.reports for step in report.shortened}
        assert set(held) | set(gone) == set(whole) and not set(held) & set(gone)
        for step in window:
            assert step == whole[step.id] or (cut[step.id] == whole[step.id] and not step.pinned)
        for id, step in gone.items():
            assert id in cut or step == whole[id]


@THOROUGH
@given(histories(), BUDGETS, st.sampled_from(STYLES))
def test_system_prompt_task_pinned_steps_and_the_newest_group_stay(
    steps: list[Step], max_tokens: int, style: Style
) -> None:
    for history in told(steps, max_tokens, 2 / 3, style):
        held = {step.id for step in history.memory}
        must = {step.id for step in history.given if step.pinned}
        for kind in (SystemPromptStep, TaskStep):
            must |= {step.id for step in [s for s in history.given if isinstance(s, kind)][-1:]}
        if history.given:
            must.add(history.given[-1].id)
        assert must <= held


@THOROUGH
@given(histories(), st.lists(st.integers(0, 400), max_size=5), st.sampled_from(STYLES))
def test_however_it_is_used_it_stays_within_its_tokens(steps: list[Step], sizes: list[int], style: Style) -> None:
    reports: list[PruneReport] = []
    try:
        memory = AdaptiveMemoryManager(steps=steps, max_tokens=200, counter=WORDS, style=style, on_prune=reports.append)
    except BudgetError:
        return
    for size in sizes:
        before = memory.steps
        try:
            memory = resized(memory, size, on_prune=reports.append)
        except BudgetError:
            assert memory.steps == before
        check(memory)
        for report in reports:
            before = memory.steps
            try:
                memory.restore(report)
            except BudgetError:
                assert memory.steps == before
            check(memory)


# -- in jumps ---------------------------------------------------------------------------------------------------------


def test_it_falls_to_the_low_mark_when_it_is_over_the_high_one() -> None:
    memory = AdaptiveMemoryManager(3 + 24 * 9, low_water=3 + 24 * 4, counter=WORDS)
    sizes = []
    for i in range(20):
        memory.add(said(f"w{i}"))
        sizes.append(len(memory))
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 9, 4, 5, 6, 7, 8, 9, 4, 5, 6, 7, 8]


def test_by_default_it_falls_to_two_thirds() -> None:
    reports: list[PruneReport] = []
    memory = filled(1_000, 500, on_prune=reports.append)
    assert memory.low_water == 666
    total = 500 * 24
    assert len(reports) <= total / (1_000 - 666) + 1
    assert all(report.kept == 27 for report in reports)


def test_adding_a_step_counts_that_step_and_not_the_history() -> None:
    counter = Words()
    memory = AdaptiveMemoryManager(100_000, counter=counter)
    asked = []
    for i in range(500):
        before = counter.asked
        memory.add(said(f"w{i}"))
        assert memory.tokens == 3 + 24 * (i + 1)
        memory.to_messages()
        asked.append(counter.asked - before)
    assert set(asked) == {2}  # role and content


def test_what_is_done_to_the_messages_does_not_reach_the_memory() -> None:
    memory = AdaptiveMemoryManager(500)
    memory.add(MessageStep("user", [{"type": "text", "text": "before"}]))
    message = memory.to_messages()[0]
    message["content"][0]["text"] = "after"
    message["role"] = "assistant"
    assert memory.to_messages() == [{"role": "user", "content": [{"type": "text", "text": "before"}]}]


# -- what stays -------------------------------------------------------------------------------------------------------


def test_a_newest_message_that_is_too_long_is_shortened_and_its_original_reported() -> None:
    reports: list[PruneReport] = []
    memory = filled(200, 5, on_prune=reports.append)
    long = memory.add(MessageStep("user", "crates of plums " * 500))
    (report,) = reports
    assert report.shortened == (long,) and memory.steps[-1].id == long.id
    assert "characters left out" in memory.steps[-1].text and memory.steps[-1].text.startswith("crates")
    assert 60 < memory.tokens <= memory.low_water + 24
    memory = resized(memory, 10_000)
    memory.restore(report)
    assert memory.steps[-1] == long and words(memory) == ["w0", "w1", "w2", "w3", "w4", "crates"]


def test_what_is_shortened_leaves_room_for_the_next_steps() -> None:
    reports: list[PruneReport] = []
    memory = filled(300, 0, on_prune=reports.append)
    memory.add(said("7", 500))
    assert 150 < memory.tokens <= memory.low_water == 200
    for i in range(4):
        memory.add(said(f"w{i}"))
    assert len(reports) == 1 and len(memory) == 5


def test_a_long_result_is_shortened_and_its_call_is_not() -> None:
    memory = AdaptiveMemoryManager(120, "Be brief.", counter=WORDS, style="tools")
    look = ToolCall("look", {"at": "the crates"}, "c1")
    memory.add(ActionStep("Look.", [look]))
    memory.add(MessageStep("tool", "plums " * 500, "c1"))
    check(memory)
    _, call, result = memory.to_messages()
    assert call["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "the crates"}'}
    assert result["tool_call_id"] == "c1" and "characters left out" in result["content"]


def test_a_task_that_came_between_a_call_and_its_long_result_stays_whole() -> None:
    memory = AdaptiveMemoryManager(120, counter=WORDS, style="tools")
    task = TaskStep("Count the crates. " * 8)
    memory.add(ActionStep("Look.", [ToolCall("look", {}, "c1")]))
    memory.add(task)
    memory.add(MessageStep("tool", "plums " * 500, "c1"))
    check(memory)
    assert memory.steps[1].text == task.text and "left out" in memory.steps[2].text


@pytest.mark.parametrize(
    ("step", "part"),
    [
        (TaskStep("word " * 200), "current task"),
        (SystemPromptStep("word " * 200), "system prompt"),
        (said("word", 200, pinned=True), "pinned steps"),
        (ActionStep("x", [ToolCall("write", {"text": "word " * 200}, "c1")]), "newest group"),
    ],
)
@pytest.mark.parametrize("style", STYLES)
def test_what_cannot_be_made_to_fit_is_refused_and_nothing_changes(step: Step, part: str, style: Style) -> None:
    reports: list[PruneReport] = []
    memory = filled(150, 5, style=style, on_prune=reports.append)
    if part == "newest group" and style == "observation":
        return  # there the call is a text as any other, and shortened
    before = memory.steps, memory.next_number, memory.open_calls
    with pytest.raises(BudgetError) as caught:
        memory.add(step)
    assert (memory.steps, memory.next_number, memory.open_calls, reports) == (*before, [])
    error = caught.value
    assert error.budget == 150 and error.parts["reply"] == 3 and sum(error.parts.values()) == error.needed
    assert error.parts[part] > 147
    memory.add(said("next"))
    check(memory)


def test_an_open_call_is_sent_with_a_result_that_says_there_is_none() -> None:
    memory = AdaptiveMemoryManager(100, counter=WORDS, style="tools")
    memory.add(ActionStep("x", [ToolCall("f", {}, "c1"), ToolCall("f", {}, "c2")]))
    check(memory)
    assert [m["role"] for m in memory.to_messages()] == ["assistant", "tool", "tool"]
    memory.add(MessageStep("tool", "done", "c2"))
    check(memory)
    assert [m["content"] for m in memory.to_messages()[1:]] == ["[no result was recorded]", "done"]


def test_a_result_whose_call_has_left_is_not_sent() -> None:
    memory = AdaptiveMemoryManager(60, counter=WORDS, style="tools")
    memory.add(ActionStep("x", [ToolCall("f", {}, "c1")]))
    for i in range(4):
        memory.add(said(f"w{i}"))
    before = memory.tokens
    memory.add(MessageStep("tool", "late", "c1"))
    assert (memory.tokens, len(memory.to_messages())) == (before, len(memory) - 1)


# -- other ways in and out --------------------------------------------------------------------------------------------


def test_a_report_is_restored_where_there_is_room_and_refused_where_there_is_none() -> None:
    reports: list[PruneReport] = []
    memory = filled(100, 5, on_prune=reports.append)
    before = memory.steps
    with pytest.raises(BudgetError) as caught:
        memory.restore(reports[0])
    assert memory.steps == before and caught.value.needed > caught.value.budget == 100
    memory = resized(memory, caught.value.needed)
    memory.restore(reports[0])
    assert memory.steps[: len(reports[0].removed)] == reports[0].removed
    memory.clear()
    memory.restore(PruneReport(before[-1:]))
    assert memory.steps == before[-1:]


def test_another_strategy_may_not_bring_it_over_its_tokens() -> None:
    def longer(steps: Sequence[Step]) -> list[Step]:
        return [MessageStep("user", "word " * 500, id=step.id, step_number=step.step_number) for step in steps]

    memory = filled(100, 2)
    before = memory.steps
    with pytest.raises(BudgetError):
        memory.prune(longer)
    assert memory.steps == before
    assert not memory.prune(no_pruning()).changed


def test_a_memory_of_too_many_steps_starts_pruned() -> None:
    steps = [said(f"w{i}") for i in range(20)]
    memory = AdaptiveMemoryManager(steps=steps, max_tokens=100, counter=WORDS)
    assert words(memory) == ["w18", "w19"] and memory.add(said("w20")).step_number == 20
    again = AdaptiveMemoryManager.from_list(memory.to_list(), max_tokens=100, counter=WORDS)
    assert again.steps == memory.steps and isinstance(again, AdaptiveMemoryManager)


def test_steps_that_are_added_at_once_are_pruned_at_once() -> None:
    reports: list[PruneReport] = []
    memory = filled(100, 0, on_prune=reports.append)
    added = memory.add_steps([said("w0"), said("long", 500), said("w2"), said("w3")])
    assert words(memory) == ["w2", "w3"] and reports[0].removed == tuple(added[:2])


def test_another_style_and_the_summary_mode_are_valid_too() -> None:
    memory = AdaptiveMemoryManager(500, "Be brief.", counter=WORDS)
    memory.add(ActionStep("Look.", [ToolCall("look", {}, "c1")]))
    memory.add(MessageStep("tool", "plums", "c1"))
    assert [m["role"] for m in memory.to_messages()] == ["system", "assistant", "tool"]
    assert [m["role"] for m in memory.to_messages(style="observation")] == ["system", "assistant", "user"]
    assert [m["role"] for m in memory.to_messages(summary_mode=True)] == ["assistant", "tool"]
    with pytest.raises(InputError, match="style must be one of auto, tools, observation"):
        memory.to_messages(style="xml")  # type: ignore[arg-type]


def test_threads_may_add_and_read_at_once() -> None:
    memory = AdaptiveMemoryManager(300, counter=WORDS)
    over: list[int] = []

    def work(name: str) -> None:
        for i in range(60):
            memory.add(said(f"{name}{i}"))
            seen = memory.tokens, count_tokens(memory.to_messages(), WORDS)
            over.extend(tokens for tokens in seen if tokens > 300)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert over == [] and memory.next_number == 240
    check(memory)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_tokens": -1}, "max_tokens must be a whole number"),
        ({"max_tokens": "many"}, "max_tokens must be a whole number"),
        ({"max_tokens": None}, "max_tokens must be a whole number"),
        ({"max_tokens": 10, "low_water": 11}, "low_water must be at most max_tokens"),
        ({"max_tokens": 10, "low_water": 1.5}, "low_water must be a whole number"),
        ({"max_tokens": 10, "style": "xml"}, "style must be one of"),
        ({"max_tokens": 10, "counter": "klingon"}, "klingon"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        AdaptiveMemoryManager(**options)


def test_too_few_tokens_for_any_prompt_are_refused() -> None:
    with pytest.raises(BudgetError, match="reply 3 need 3 tokens, 1 more than the budget of 2"):
        AdaptiveMemoryManager(2)
    with pytest.raises(BudgetError, match="system prompt"):
        AdaptiveMemoryManager(10, "Be very brief. " * 5)
    assert AdaptiveMemoryManager(3).tokens == 3


def test_the_groups_of_its_window_are_those_that_were_given() -> None:
    memory = AdaptiveMemoryManager(90, counter=WORDS, style="tools")
    for i in range(20):
        memory.add(ActionStep(f"a{i}", [ToolCall("f", {}, f"c{i}")]))
        memory.add(MessageStep("tool", f"r{i} " * 10, f"c{i}"))
        check(memory)
    assert all(len(group) == 2 for group in groups(memory.steps)) and memory.steps[-1].text.startswith("r19")
