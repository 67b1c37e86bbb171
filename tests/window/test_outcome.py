"""What is made of what a strategy returned: always a window, and nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import open_memory, texts_in
from strategies import THOROUGH, histories

from tinymem import (
    ActionStep,
    FinalAnswerStep,
    HierarchicalMemory,
    MemoryManager,
    MessageStep,
    Step,
    SummaryStep,
    SystemPromptStep,
    TaskStep,
    ToolCall,
    compose,
    keep_last_n_steps,
    token_budget,
)
from tinymem.errors import InputError
from tinymem.memory.context.window import current_task
from tinymem.messages import groups, messages_from_steps, problems, repair
from tinymem.steps.standins import COVERS, REVISION, SEEN, covers_of, is_stand_in, rank, sources_of
from tinymem.window.outcome import Outcomes, check_window
from tinymem.window.semantic import default_query
from tinymem.window.strategy import critical


def said(text: str, **more: Any) -> MessageStep:
    return MessageStep("user", text, **more)


CALL = ActionStep("x", [ToolCall("f", id="1")], step_number=1, id="call")
RESULT = MessageStep("tool", "ok", "1", step_number=2, id="ok")
WINDOW: list[Step] = [
    TaskStep("t", step_number=0, id="task"), CALL, RESULT,
    said("a", step_number=3, id="a"), said("b", step_number=4, id="b"), said("c", step_number=5, id="c"),
]  # fmt: skip


def window_of(after: Any, before: Sequence[Step] = WINDOW) -> list[Step]:
    return Outcomes()(before, after, lambda steps: after)


def texts(steps: Sequence[Step]) -> list[str]:
    return [step.text for step in steps]


def summary(text: str = "[Summary] Earlier steps.", **more: Any) -> TaskStep:
    return TaskStep(task=text, **more)


# -- for every history and every function ------------------------------------------------------------------------------


NEW: list[Step] = [
    summary(), summary(pinned=True), said("new"), SystemPromptStep("new"), SummaryStep("new", ["a", "b"]),
    ActionStep("new", [ToolCall("f", id="new")]), MessageStep("tool", "new", "new"), FinalAnswerStep("new"),
]  # fmt: skip


@st.composite
def functions(draw: st.DrawFn) -> Callable[[list[Step]], list[Step]]:
    """A function that takes out, doubles, shuffles, shortens, rewrites and adds whatever it likes."""
    random = Random(draw(st.integers(0, 2**32)))
    new = draw(st.lists(st.sampled_from(NEW), max_size=4))
    share, changed = draw(st.floats(0, 1)), draw(st.floats(0, 0.5))
    shuffled, doubled = draw(st.booleans()), draw(st.booleans())

    def other(step: Step) -> Step:
        if random.random() >= changed:
            return step
        return random.choice((
            step.shortened(3), step.truncate(3), step.evolve(pinned=not step.pinned), step.evolve(step_number=7),
            step.evolve(metadata={}), step.evolve(metadata={"covers": [step.id]}), TaskStep("other", id=step.id),
            SummaryStep("s", [step.id], id=step.id, step_number=step.step_number),
            SummaryStep("s", ["x", step.id], id=step.id), ActionStep("rewritten", observation=step.text),
        ))  # fmt: skip

    def function(given_steps: list[Step]) -> list[Step]:
        found = [other(step) for step in given_steps if random.random() < share]
        for step in new:
            found.insert(random.randint(0, len(found)), step.evolve(id=f"{step.id}-{random.random()}"))
        if doubled:
            found += found[:3]
        if shuffled:
            random.shuffle(found)
        return found

    return function


@THOROUGH
@given(histories(max_chunks=10), functions())
def test_whatever_a_function_returns_is_a_window_and_restores_to_what_it_was(
    history: list[Step], function: Callable[[list[Step]], list[Step]]
) -> None:
    memory = MemoryManager(auto_prune_at=None)
    memory.add_steps(history)
    before = memory.steps
    report = memory.prune(function)
    after = memory.steps
    check_window(before, after)  # nothing is left to mend
    assert problems(repair(messages_from_steps(after))) == []
    held = {step.id: step for step in after}
    assert [step.id for step in before if step.id in held] == [step.id for step in after]
    assert [step.step_number for step in before if step.id in held] == [step.step_number for step in after]
    for step in before:  # nothing is lost
        assert held.get(step.id) == step or step in report.removed or step in report.shortened
    for step in critical(before, "current"):
        assert step.id in held and not is_stand_in(held[step.id])
    assert texts(critical(after, "current")) == texts([held[step.id] for step in critical(before, "current")])
    for group in groups(before):
        assert len({step.id in held and not is_stand_in(held[step.id]) for step in group}) == 1
    known = {step.id for step in before}
    for step in after:
        if is_stand_in(step) and step not in before:
            assert known >= {*covers_of(step)} and not step.pinned
            assert not {*covers_of(step)} & {s.id for s in after if not is_stand_in(s)}
    for _ in range(2):
        memory.restore(report)
        assert memory.steps == before


# -- steps that were there ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [list, tuple, set, iter, lambda steps: dict.fromkeys(steps), lambda steps: (s for s in steps)]
)
def test_any_iterable_of_steps_is_taken_and_order_restored(kind: Callable[[list[Step]], Any]) -> None:
    assert window_of(kind(WINDOW[::-1])) == WINDOW
    assert window_of(kind([WINDOW[4], WINDOW[0]])) == [WINDOW[0], WINDOW[4]]


# -- new steps ---------------------------------------------------------------------------------------------------------


def test_a_new_step_takes_the_place_of_the_last_that_is_gone_before_it() -> None:
    note = summary(metadata={"by": "me"})
    after = window_of([WINDOW[0], note, WINDOW[5]])
    assert [step.id for step in after] == ["task", "b", "c"]
    assert type(after[1]) is TaskStep and after[1].text == note.text and after[1].step_number == 4
    assert covers_of(after[1]) == ("call", "ok", "a", "b") == tuple(after[1].metadata[COVERS])
    assert after[1].metadata["by"] == "me" and {*sources_of(after[1])} == {step.id for step in WINDOW}


def test_steps_that_were_written_again_stand_for_their_originals_one_by_one() -> None:
    steps: list[Step] = [TaskStep("t"), *(ActionStep(tool_name="ls", observation=f"{n}" * 50) for n in range(4))]
    rewritten = [ActionStep(tool_name="ls", observation=step.text[:5]) for step in steps[1:3]]
    after = window_of([steps[0], *rewritten, *steps[3:]], steps)
    assert [step.id for step in after] == [step.id for step in steps]
    assert [covers_of(step) for step in after[1:3]] == [(step.id,) for step in steps[1:3]]


def test_new_steps_for_which_nothing_is_gone_are_left_out_with_one_warning(our_log: pytest.LogCaptureFixture) -> None:
    memory = MemoryManager(steps=[TaskStep("Count."), said("one"), said("two")])
    before = memory.steps

    def remind(steps: list[Step]) -> list[Step]:
        return [*steps, said("Be brief."), said("Be kind.")]

    for _ in range(3):
        assert not memory.prune(remind).changed
    (record,) = our_log.records
    assert "remind returned 2 new steps for which nothing was taken out" in record.getMessage()
    assert record.levelno == logging.WARNING and "brief" not in record.getMessage()
    report = memory.prune(lambda steps: [*steps[:2], said("one thing"), said("another")])
    assert texts(memory.steps) == ["Count.", "one", "one thing"] and report.shortened == before[2:]


def test_a_new_step_is_neither_task_nor_system_prompt_and_leaves_again() -> None:
    memory = MemoryManager("Be brief.", steps=[TaskStep("Count."), *(said(f"{n}") for n in range(6))])
    memory.prune(lambda steps: [*steps[:2], summary(pinned=True), SystemPromptStep("[Rules]"), *steps[-1:]])
    assert texts(memory.steps) == ["Be brief.", "Count.", "[Summary] Earlier steps.", "[Rules]", "5"]
    assert memory.system_prompt == "Be brief."
    task = current_task(memory.steps)
    assert task is not None and task.text == "Count." and default_query(memory.steps).startswith("Count.")
    memory.prune(keep_last_n_steps(1))
    assert texts(memory.steps) == ["Be brief.", "Count.", "5"]


def test_metadata_of_the_user_that_is_called_covers_makes_no_stand_in() -> None:
    for covers in ("insurance", 7, ["fire", "water"], [1], None):
        task = TaskStep("Compare the policies.", metadata={"covers": covers, REVISION: "b", SEEN: 5})
        assert covers_of(task) == sources_of(task) == () and current_task([task]) is task and rank(task)[:2] == (0, 0)


# -- what must stay ----------------------------------------------------------------------------------------------------


def test_system_prompt_task_and_pins_come_back_and_it_is_said_once(our_log: pytest.LogCaptureFixture) -> None:
    memory = MemoryManager("Be brief.", steps=[TaskStep("Old."), TaskStep("Count."), said("!", pinned=True), said("a")])

    def newest(steps: list[Step]) -> list[Step]:
        return steps[-1:]

    for text in "bcd":
        memory.add(said(text))
        memory.prune(newest)
    assert texts(memory.steps) == ["Be brief.", "Count.", "!", "d"]
    memory.prune(lambda steps: [])
    assert texts(memory.steps) == ["Be brief.", "Count.", "!"]
    first, second = (record.getMessage() for record in our_log.records)
    assert "newest took out what must stay, SystemPromptStep" in first and "<lambda>" in second


def test_a_strategy_inside_of_compose_says_it_too(our_log: pytest.LogCaptureFixture) -> None:
    steps: list[Step] = [TaskStep("Count."), said("a"), said("b")]
    strategy = compose(lambda steps: [summary(), *steps[-1:]], token_budget(1_000))
    assert texts(strategy(steps)) == texts(strategy(steps)) == ["Count.", "[Summary] Earlier steps.", "b"]
    assert len(our_log.records) == 1


def test_check_window_says_what_a_memory_would_mend() -> None:
    check_window(WINDOW, [WINDOW[0], summary(), WINDOW[5]])
    check_window(WINDOW, [step.shortened(0) for step in WINDOW])
    pairs: list[tuple[list[Step], str]] = [
        ([*WINDOW, said("new")], "1 new steps for which nothing was taken out"),
        ([WINDOW[0], WINDOW[0]], "returned a step twice"),
        ([WINDOW[3], WINDOW[0]], "returned step a before|returned step a after|returned step"),
        ([*WINDOW[:2], WINDOW[5]], "split a call from its results: step ok"),
        ([], "took out what must stay, TaskStep task"),
        ([WINDOW[0], WINDOW[3].evolve(step_number=9)], "changed more of step a"),
        ([WINDOW[0], CALL.evolve(tool_calls=()), RESULT], "changed more of step call|split a call"),
    ]
    for after, says_what in pairs:
        with pytest.raises(InputError, match=f"^the strategy .*({says_what})"):
            check_window(WINDOW, after)


# -- on disk -----------------------------------------------------------------------------------------------------------


def newest_five(steps: list[Step]) -> list[Step]:
    if len(steps) <= 12:
        return steps
    gone = len(steps) - 7
    return [*steps[:2], TaskStep(task=f"[Summary] {gone} steps; the first: {steps[2].text}"), *steps[-5:]]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with open_memory(tmp_path / "memory", prune_strategy=newest_five, system_prompt="Be brief.") as opened:
        opened.add(TaskStep("Note the codes."))
        for n in range(30):
            opened.add(said(f"Door {n} opens with code {7_000 + n}."))
        yield opened


def stand_ins(memory: HierarchicalMemory) -> list[Step]:
    return [step for step in memory.short_term.steps if is_stand_in(step)]


def test_a_memory_keeps_the_originals_shows_the_stand_in_and_reopens_equal(memory: HierarchicalMemory) -> None:
    (held,) = stand_ins(memory)
    window = memory.steps
    for id in (held.id, *covers_of(held)):
        assert memory.get(id).text.startswith("Door ") and not is_stand_in(memory.get(id))
    context = memory.context("Which code opens door 3?")
    assert held.to_messages()[0] in context.messages and "code 7003" in context.recalled.text
    memory.close()
    with open_memory(memory.path, prune_strategy=newest_five, system_prompt="Be brief.") as again:
        assert again.steps == window and again.stats().steps == 32


@pytest.mark.parametrize("which", ["covered", "seen"])
def test_a_stand_in_goes_with_what_it_may_tell_of(memory: HierarchicalMemory, which: str) -> None:
    report = memory.short_term.prune(lambda steps: [TaskStep("[Summary] " + "; ".join(texts(steps))), *steps[-2:]])
    (held,) = stand_ins(memory)
    kept = memory.short_term.steps[-1]
    gone = memory.get(covers_of(held)[3]) if which == "covered" else kept
    assert memory.forget([gone.id]) == 1
    assert not stand_ins(memory)
    memory.restore(report)  # which holds an earlier one
    assert which == "seen" or not stand_ins(memory)
    memory.close()
    assert texts_in(memory.path, gone.text.encode()) == {gone.text.encode(): []}


def test_a_stand_in_that_tells_of_nothing_forgotten_stays(memory: HierarchicalMemory) -> None:
    memory.add(said("Hello."))  # the window is pruned now, and not with the next one
    before = stand_ins(memory)
    later = memory.add(said("Something else."))
    assert before and memory.forget([later.id]) == 1
    assert stand_ins(memory) == before


def test_redaction_leaves_the_ids_of_a_stand_in_alone(tmp_path: Path) -> None:
    def upper(text: str) -> str:
        return text.upper()

    with open_memory(tmp_path, prune_strategy=newest_five, redact=upper) as memory:
        memory.add_steps([TaskStep("Note."), *(said(f"door {n}") for n in range(20))])
        (held,) = stand_ins(memory)
    with open_memory(tmp_path, prune_strategy=newest_five, redact=upper) as memory:
        (again,) = stand_ins(memory)
        assert again.text == held.text.upper()
        assert covers_of(again) == covers_of(held) and sources_of(again) == sources_of(held)
        memory.short_term.prune(lambda steps: [*steps[:-1], steps[-1].evolve(content=f"{steps[-1].text}!")])
        changed = memory.steps[-1]
    with open_memory(tmp_path, prune_strategy=newest_five, redact=upper) as memory:
        assert memory.steps[-1] == changed and rank(changed)[1] == 1
