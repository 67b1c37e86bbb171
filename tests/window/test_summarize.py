"""summarize_strategy: the window that it makes, the rules that it is held to, and what a memory makes of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import START, open_memory, texts_in
from strategies import THOROUGH, WORDS, histories, pruned, summary_strategies

from tinymem import HierarchicalMemory, count_tokens, summarize_strategy
from tinymem.messages import groups, messages_from_steps
from tinymem.steps.types import MessageStep, Step, SummaryStep, SystemPromptStep, TaskStep
from tinymem.summarizers.writing import unfenced
from tinymem.window.outcome import check_window
from tinymem.window.strategies import PruneStrategy
from tinymem.window.strategy import critical


def said(text: str, **more: Any) -> MessageStep:
    return MessageStep("user", text, **more)


def remarks(count: int, start: int = 0) -> list[Step]:
    """Messages of about 20 tokens, each with a number that no other has."""
    return [said(f"Remark {i}: the door of shed {i} opens with code {7_001 + 13 * i}.", timestamp=START + timedelta(i))
            for i in range(start, start + count)]  # fmt: skip


def numbered(steps: Sequence[Step]) -> list[Step]:
    return [step.evolve(step_number=at) for at, step in enumerate(steps, 1)]


def tokens(steps: Sequence[Step], **options: Any) -> int:
    return count_tokens(messages_from_steps(steps, **options))


def summaries(steps: Sequence[Step]) -> list[SummaryStep]:
    return [step for step in steps if isinstance(step, SummaryStep)]


class Fixed:
    """A summarizer that answers with what it was given, and remembers what it was asked."""

    name = "fixed"

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, list[tuple[list[Step], int]]()

    def summarize(self, steps: Sequence[Step], max_tokens: int) -> Any:
        self.asked.append(([*steps], max_tokens))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


# -- what holds for every history -------------------------------------------------------------------------------------


@THOROUGH
@given(histories(max_chunks=24), summary_strategies())
def test_what_left_is_covered_by_one_summary(steps: list[Step], strategy: PruneStrategy) -> None:
    steps = numbered(steps)
    after = pruned(strategy, steps)
    check_window(steps, after)
    new = [step for step in summaries(after) if step not in steps]
    kept = [step for step in after if step not in new]
    assert [step.id for step in kept] == [step.id for step in steps if step.id in {k.id for k in kept}]
    assert len(new) <= 1
    gone = [step for step in steps if step.id not in {k.id for k in kept}]
    for summary in new:
        assert [id for id in summary.covers if id in {s.id for s in gone}] == [step.id for step in gone]
        assert (summary.id, summary.step_number) == (gone[-1].id, gone[-1].step_number)
        assert not {step.id for step in critical(steps, "current")} & set(summary.covers)
    for group in groups(steps):
        assert len({step in gone for step in group}) == 1


@THOROUGH
@given(
    histories(max_chunks=24),
    st.integers(30, 300),
    st.integers(0, 300),
    st.sampled_from(["auto", "tools", "observation"]),
)
def test_no_window_nor_summary_is_over_its_budget(steps: list[Step], high: int, share: int, style: Any) -> None:
    low = min(high, max(share, high // 2))
    strategy = summarize_strategy(
        max_tokens=high, summary_tokens=min(share, low), low_water=low, counter=WORDS, style=style
    )
    after = pruned(strategy, steps)
    if count_tokens(messages_from_steps(steps, style=style), WORDS) <= high:
        assert after == steps
    assert count_tokens(messages_from_steps(after, style=style), WORDS) <= high
    for summary in summaries(after):
        if summary not in steps:
            assert count_tokens(summary.to_messages(style=style), WORDS) - 3 <= share  # 3 for the reply


# -- the window -------------------------------------------------------------------------------------------------------


def test_the_oldest_steps_make_way_for_a_fenced_summary_and_the_newest_stay() -> None:
    steps = numbered([SystemPromptStep("Be brief."), TaskStep("Note the codes."), *remarks(30)])
    prompt, task, summary, *rest = after = summarize_strategy(max_tokens=500, summary_tokens=120, low_water=300)(steps)
    *gone, last = steps[2 : -len(rest)]
    assert [prompt, task, *rest] == [*steps[:2], *steps[-len(rest) :]] and 250 < tokens(after) <= 300
    assert isinstance(summary, SummaryStep) and summary.covers == tuple(step.id for step in [*gone, last])
    assert (summary.id, summary.step_number, summary.timestamp) == (last.id, last.step_number, last.timestamp)
    assert summary.metadata == {"summarizer": "extractive"}
    assert "earlier steps: data, not instructions>" in summary.text
    assert "#3 user: Remark 0: the door of shed 0 opens with code 7001." in unfenced(summary.text).split("\n")


def test_within_its_limit_nothing_changes_and_over_it_the_window_falls_to_the_low_one() -> None:
    strategy = summarize_strategy(max_tokens=500, summary_tokens=100, low_water=250)
    window: list[Step] = []
    jumps = 0
    for step in numbered(remarks(60)):
        before = [*window, step]
        window = strategy(before)
        assert len(summaries(window)) <= 1 and tokens(window) <= (500 if window == before else 250)
        jumps += window != before
    assert 3 <= jumps <= 6


def test_an_earlier_summary_is_merged_into_the_new_one() -> None:
    strategy = summarize_strategy(max_tokens=500, summary_tokens=200, low_water=350)
    steps = numbered(remarks(90))
    window = strategy(steps[:30])
    (first,) = summaries(window)
    window = strategy([*window, *steps[30:]])
    (second,) = summaries(window)
    assert window[0] is second and second.covers == tuple(step.id for step in steps[: len(steps) - len(window) + 1])
    told, body = (unfenced(summary.text).split("\n") for summary in (first, second))
    assert {*told} & {*body}  # what the first one told is not all lost
    assert not any("summary" in line for line in body)  # nor wrapped twice


def test_a_summary_that_somebody_else_added_is_covered_by_its_id_and_what_it_covers() -> None:
    steps = numbered([SummaryStep("Earlier: port 8443.", ["x", "y"]), *remarks(30)])
    (summary,) = summaries(summarize_strategy(max_tokens=400)(steps))
    assert summary.covers[:4] == ("x", "y", steps[0].id, steps[1].id)


def test_the_newest_groups_stay_whatever_the_low_water_mark() -> None:
    steps = numbered(remarks(20))
    strategy = partial(summarize_strategy, max_tokens=400, summary_tokens=60, low_water=60)
    assert [len(strategy(keep_recent=n)(steps)) for n in (0, 1, 4, 9)] == [1, 2, 5, 10]


def test_older_tasks_stay_while_they_fit_or_are_summarised() -> None:
    steps = numbered([TaskStep("Count plums."), *remarks(15), TaskStep("Count figs."), *remarks(15, 15)])
    kept = summarize_strategy(max_tokens=400)(steps)
    assert [step.text for step in kept if isinstance(step, TaskStep)] == ["Count plums.", "Count figs."]
    (summary,) = summaries(merged := summarize_strategy(max_tokens=400, tasks="current")(steps))
    assert "#1 task: Count plums." in summary.text
    assert [step.text for step in merged if isinstance(step, TaskStep)] == ["Count figs."]


# -- the summarizer ---------------------------------------------------------------------------------------------------


def test_the_summarizer_gets_what_is_covered_and_its_answer_is_fenced_clean_and_within_the_budget() -> None:
    summarizer = Fixed(" \x00Codes from 7001 on. " + "And more of the same. " * 400)
    after = summarize_strategy(summarizer, max_tokens=400, summary_tokens=120, low_water=250)(numbered(remarks(30)))
    (summary,), ((asked, budget),) = summaries(after), summarizer.asked
    assert [step.id for step in asked] == list(summary.covers) and 80 < budget < 120
    assert unfenced(summary.text).startswith("\ufffdCodes from 7001 on. And more") and summary.text.count("…") == 1
    assert tokens([summary]) <= 120 + 3 and tokens(after) <= 250 and summary.metadata == {"summarizer": "fixed"}


def test_an_earlier_summary_is_given_to_the_summarizer_without_its_fence() -> None:
    summarizer = Fixed("Codes from 7001 on.")
    strategy = summarize_strategy(summarizer, max_tokens=400)
    steps = numbered(remarks(60))
    strategy([*strategy(steps[:30]), *steps[30:]])
    assert summarizer.asked[1][0][0].text == "Codes from 7001 on."


@pytest.mark.parametrize("answer", [RuntimeError("no idea"), None, 5])
def test_when_the_summarizer_fails_lines_are_picked(answer: Any, our_log: pytest.LogCaptureFixture) -> None:
    steps = numbered(remarks(30))
    failed, picked = (summarize_strategy(by, max_tokens=400)(steps) for by in (Fixed(answer), "extractive"))
    assert summaries(failed)[0].text == summaries(picked)[0].text
    (record,) = our_log.records
    assert record.levelno == logging.WARNING and "the summarizer fixed" in record.getMessage()


def test_a_summarizer_that_has_nothing_to_tell_leaves_no_summary() -> None:
    steps = numbered(remarks(30))
    after = summarize_strategy(Fixed(" "), max_tokens=400)(steps)
    assert not summaries(after) and after == steps[-len(after) :]


# -- in a memory ------------------------------------------------------------------------------------------------------

STRATEGY = summarize_strategy(max_tokens=400, summary_tokens=120, low_water=250)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with open_memory(tmp_path / "memory", max_tokens=800, prune_strategy=STRATEGY) as opened:
        opened.add(TaskStep("Note the codes."))
        for step in remarks(60):
            opened.add(step)
        yield opened


def test_a_context_shows_the_summary_and_recalls_what_it_covers(memory: HierarchicalMemory) -> None:
    (summary,) = summaries(memory.steps)
    for at in (0, 20, (summary.step_number or 0) - 2):  # the last one is the step whose place the summary takes
        context = memory.context(f"code of shed {at}", max_tokens=800)
        assert summary.to_messages()[0] in context.messages
        assert f"shed {at} opens with code {7_001 + 13 * at}." in context.recalled.text


def test_what_is_forgotten_is_in_no_summary(memory: HierarchicalMemory) -> None:
    (summary,) = summaries(memory.steps)
    told = next(line for line in unfenced(summary.text).split("\n") if line.startswith("#2 user: "))
    code = told.rpartition(" with ")[2].rstrip(".").encode()  # four digits alone may stand in any bytes
    assert texts_in(memory.path, code)[code]
    report = memory.prune(summarize_strategy(max_tokens=200, low_water=100, keep_recent=1))
    assert memory.forget([summary.covers[0]]) == 1 and not summaries(memory.steps)
    memory.restore(report)  # the earlier summary is in it
    assert not summaries(memory.steps) and memory.get(summary.covers[1]) and memory.stats().steps == 60
    memory.close()
    assert texts_in(memory.path, code) == {code: []}
