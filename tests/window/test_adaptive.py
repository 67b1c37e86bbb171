"""AdaptiveMemoryManager: never over its tokens, valid, whole, and pruned in jumps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import THOROUGH, WORDS, histories

from tinymem import AdaptiveMemoryManager, count_tokens, no_pruning
from tinymem.errors import BudgetError, MessageError
from tinymem.messages import groups, problems, repair
from tinymem.steps.step import Style
from tinymem.steps.types import ActionStep, MessageStep, Step, SystemPromptStep, TaskStep, ToolCall
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
    return AdaptiveMemoryManager(steps=memory.steps, max_tokens=max_tokens, counter=WORDS, **options)


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
def test_it_is_valid_within_its_tokens_and_whole(steps: list[Step], max_tokens: int, low: float, style: Style) -> None:
    for history in told(steps, max_tokens, low, style):
        check(history.memory)
        given, window = history.given, history.memory.steps
        whole = {step.id: step for step in given}
        held = [step.id for step in window]
        assert held == [step.id for step in given if step.id in set(held)]
        assert [step.step_number for step in window] == [whole[id].step_number for id in held]
        gone = {step.id: step for report in history.reports for step in report.removed}
        cut = {step.id: step for report in history.reports for step in report.shortened}
        assert set(held) | set(gone) == set(whole) and not set(held) & set(gone), "nothing is lost"
        for step in window:
            assert step == whole[step.id] or (cut[step.id] == whole[step.id] and not step.pinned)
        for id, step in gone.items():
            assert id in cut or step == whole[id]
        must = {step.id for step in given if step.pinned} | {step.id for step in given[-1:]}
        for kind in (SystemPromptStep, TaskStep):
            must |= {step.id for step in [s for s in given if isinstance(s, kind)][-1:]}
        assert must <= set(held), "system prompt, task, pinned steps and the newest group stay"


# -- in jumps ---------------------------------------------------------------------------------------------------------


def test_by_default_it_falls_to_two_thirds() -> None:
    reports: list[PruneReport] = []
    assert filled(1_000, 500, on_prune=reports.append).low_water == 666
    assert len(reports) <= 500 * 24 / (1_000 - 666) + 1 and {report.kept for report in reports} == {27}


# -- what stays -------------------------------------------------------------------------------------------------------


def test_a_long_result_is_shortened_and_its_call_is_not() -> None:
    memory = AdaptiveMemoryManager(120, "Be brief.", counter=WORDS, style="tools")
    look = ToolCall("look", {"at": "the crates"}, "c1")
    memory.add(ActionStep("Look.", [look]))
    memory.add(MessageStep("tool", "plums " * 500, "c1"))
    check(memory)
    _, call, result = memory.to_messages()
    assert call["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "the crates"}'}
    assert result["tool_call_id"] == "c1" and "characters left out" in result["content"]


@pytest.mark.parametrize(
    ("step", "part", "styles"),
    [
        (TaskStep("word " * 200), "current task", STYLES),
        (SystemPromptStep("word " * 200), "system prompt", STYLES),
        (said("word", 200, pinned=True), "pinned steps", STYLES),
        (ActionStep("x", [ToolCall("write", {"text": "word " * 200}, "c1")]), "newest group", ["tools"]),
    ],
)
def test_what_cannot_be_made_to_fit_is_refused_and_nothing_changes(step: Step, part: str, styles: list[Style]) -> None:
    for style in styles:
        reports: list[PruneReport] = []
        memory = filled(150, 5, style=style, on_prune=reports.append)
        before = memory.steps, memory.next_number, memory.open_calls
        with pytest.raises(BudgetError) as caught:
            memory.add(step)
        assert (memory.steps, memory.next_number, memory.open_calls, reports) == (*before, [])
        error = caught.value
        assert error.budget == 150 and error.parts["reply"] == 3 and sum(error.parts.values()) == error.needed
        assert error.parts[part] > 147
        memory.add(said("next"))
        check(memory)


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
