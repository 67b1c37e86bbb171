"""semantic_pruning: within its budget, groups whole, verbatim, deterministic, every text embedded once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import THOROUGH

from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import BudgetError, EmbedderError
from tinymem.messages.conversion import groups, messages_from_steps
from tinymem.messages.tokens import count_tokens
from tinymem.protocols import Vectors
from tinymem.steps.types import ActionStep, MessageStep, Step, SystemPromptStep, TaskStep, ToolCall
from tinymem.window.excerpts import LEAST
from tinymem.window.outcome import check_window
from tinymem.window.semantic import semantic_pruning
from tinymem.window.step_index import StepIndex
from tinymem.window.strategies import token_budget
from tinymem.window.strategy import PruneStrategy, critical

MARK = r"\n?… \[[0-9]+ characters left out\] …\n?"


class Counting(HashingEmbedder):
    """Remembers every text that it embeds."""

    def __init__(self) -> None:
        super().__init__(64)
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return super().embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed_documents(texts)


def log(name: str, lines: int = 60) -> str:
    return "\n".join(f"{name} line {number}: worker {number * 7} moved on" for number in range(lines))


def run(count: int) -> list[Step]:
    return [
        ActionStep(f"Look at {n}.", tool_name="cat", tool_args={"n": n}, observation=log(f"log{n}"))
        for n in range(count)
    ]


TASK = TaskStep("Find out on which port billing listens.")


def tokens(steps: list[Step], style: Any = "auto", counter: Any = None) -> int:
    return count_tokens(messages_from_steps(steps, style=style), counter)


@st.composite
def long_runs(draw: st.DrawFn) -> list[Step]:
    """Runs with long results, repeated ones and late ones too, some pinned."""
    steps: list[Step] = [SystemPromptStep("You are careful."), TaskStep("Find the port of worker 9.")]
    for number in range(draw(st.integers(1, 9))):
        text = log(draw(st.sampled_from(["a", "b", "c", "port"])), draw(st.integers(0, 60)))
        call = ToolCall("cat", {"n": number}, f"c{number}", observation=text if draw(st.booleans()) else None)
        steps.append(ActionStep("Look.", [call], pinned=draw(st.integers(0, 9)) == 0))
        if not call.answered:
            steps += [MessageStep("user", "wait")] if draw(st.booleans()) else []
            steps.append(MessageStep("tool", text or "none", call.id))
        steps += [MessageStep("assistant", text[:700] or "ok")] if draw(st.booleans()) else []
    return steps


@THOROUGH
@given(
    long_runs(), st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 4), st.booleans(),
    st.sampled_from(["auto", "tools", "observation"]), st.sampled_from([None, "Which worker is it?"]),
)  # fmt: skip
def test_a_window_of_long_steps_is_valid_verbatim_and_within_its_budget(
    steps: list[Step], high: int, low: int, recent: int, shorten: bool, style: Any, query: str | None
) -> None:
    low = min(low, high)

    def made() -> PruneStrategy:
        return semantic_pruning("hashing:64", high, query, recent, low_water=low, style=style, shorten=shorten)

    strategy = made()
    must = [group for group in groups(steps) if {s.id for s in group} & {s.id for s in critical(steps, "current")}]
    if tokens(steps, style) <= high:
        assert strategy(steps) == steps
        return
    if tokens([step for group in must for step in group], style) > high:
        with pytest.raises(BudgetError):
            strategy(steps)
        return
    after = strategy(steps)
    check_window(steps, after)
    assert tokens(after, style) <= high
    assert after == strategy(steps) == made()(list(steps))
    assert strategy(after) == after
    before = {step.id: step for step in steps}
    fixed = {step.id for group in must for step in group}
    for step in after:
        assert step == before[step.id] or (shorten and step.id not in fixed)
        for old, new in zip(before[step.id].to_messages(), step.to_messages(), strict=True):
            verbatim(str(old["content"]), str(new["content"]))


def verbatim(old: str, new: str) -> None:
    if old == new:
        return
    for place, part in enumerate(p for p in re.split(MARK, new) if p):
        assert part in old
        assert len(part) >= LEAST or place == 0  # a short first line


def needle_run() -> list[Step]:
    found = log("conf") + "\nThe port of billing is 8123, see ops.\n" + log("conf2")
    steps: list[Step] = [TASK, *run(40)]
    steps[5] = ActionStep("Look.", tool_name="cat", observation=found)
    return [*steps, ActionStep("I need the port of billing now.", tool_name="date", observation="Monday")]


def test_what_bears_on_the_task_stays_where_the_newest_steps_would_have_pushed_it_out() -> None:
    steps = needle_run()
    assert not any("8123" in step.text for step in token_budget(2_000)(steps))
    after = semantic_pruning("static", 2_000)(steps)
    assert tokens(after) <= 2_000 and after[-1].id == steps[-1].id
    (found,) = [step for step in after if "8123" in step.text]
    assert found.id == steps[5].id and 300 < len(found.text) < len(steps[5].text)


def test_every_text_is_embedded_once_whatever_is_asked_and_whichever_step_has_it() -> None:
    embedder = Counting()
    steps: list[Step] = [TASK, *run(80)]
    strategy = semantic_pruning(embedder, 4_000, query="Which worker?")
    first = strategy(steps)
    embedded = list(embedder.texts)
    assert len(embedded) == len(set(embedded)) > 100
    assert strategy(steps) == first and embedder.texts == [*embedded, "worker"]
    again = ActionStep("Once more.", tool_name="cat", observation=log("log7"))
    strategy([*steps[:40], again, *steps[40:]])
    assert {*embedder.texts[len(embedded) :]} == {"Once more.", "cat({})", "worker"}


def test_an_embedder_that_fails_says_so_and_nothing_is_kept() -> None:
    class Broken(Counting):
        is_broken = True

        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            if self.is_broken:
                raise RuntimeError("no connection")
            return super().embed_documents(texts)

    embedder = Broken()
    index = StepIndex(embedder)
    with pytest.raises(EmbedderError, match=r"failed on 14 texts: RuntimeError in test_semantic.py"):
        index.score(run(2), "q")
    embedder.is_broken = False
    assert len(index.score(run(2), "q").scores) and len(embedder.texts) == 14 + 1


def test_a_call_that_wrote_a_file_is_brief_beside_its_result_and_whole_where_it_answers() -> None:
    script = "".join(f"def step_{at}(): return {at}\n" for at in range(60)) + "def open_vault(): return 4711\n"
    arguments, result = {"path": "job.py", "content": script}, "Written; billing listens on 8123."
    wrote = ActionStep("Write it.", tool_name="write", tool_args=arguments, observation=result)
    steps = [TASK, wrote, *run(12)]
    beside = semantic_pruning("static", 2_000, query="On which port does billing listen?", keep_recent=1)(steps)
    (shown,) = [step for step in beside if "8123" in step.text]
    assert "job.py" in shown.text and "characters left out" in shown.text and len(shown.text) < 400
    assert wrote in semantic_pruning("static", 2_000, query="def open_vault(): return", keep_recent=1)(steps)


def test_the_newest_groups_stay_whole() -> None:
    steps = needle_run()
    after = semantic_pruning("static", 12_000, keep_recent=3)(steps)
    assert after[-3:] == steps[-3:]
    assert semantic_pruning("static", 1_000, keep_recent=0, query="line 3 of log7")(steps)[-1].id != steps[-1].id


def test_a_newest_group_that_is_too_long_is_shortened() -> None:
    steps = [TASK, *run(3), ActionStep("Read it.", tool_name="cat", observation=log("huge", 600))]
    after = semantic_pruning("static", 1_000)(steps)
    assert after[-1].id == steps[-1].id and tokens(after) <= 1_000
    assert 500 < len(after[-1].text) < 3_000
    assert semantic_pruning("static", 1_000, shorten=False)(steps)[-1].id != steps[-1].id


def test_repetitions_are_kept_once() -> None:
    same = [ActionStep("Look.", tool_name="cat", observation=log("port", 20)) for _ in range(12)]
    found = "The port of billing is 8123. " + "Mind the gap. " * 20
    steps = [TASK, *same, ActionStep("Look there.", tool_name="cat", observation=found), *run(6)]
    after = semantic_pruning("static", 2_400, query="port line worker, port of billing", keep_recent=1)(steps)
    assert sum("port line 3" in step.text for step in after) < 4 and any("8123" in step.text for step in after)


def test_the_question_may_be_a_text_or_made_of_the_steps() -> None:
    steps, asked = needle_run(), list[int]()

    def question(window: Any) -> str:
        asked.append(len(window))
        return "On which port does billing listen?"

    by_text = semantic_pruning("static", 1_500, query="On which port does billing listen?")
    assert semantic_pruning("static", 1_500, query=question)(steps) == by_text(steps)
    assert asked == [len(steps)]
