"""The calls on strategies that tinymem's founding documents show, as a reader would write them."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinymem import (
    ActionStep,
    FinalAnswerStep,
    HierarchicalMemory,
    MemoryManager,
    Step,
    SummaryStep,
    SystemPromptStep,
    TaskStep,
    keep_last_n_steps,
    prune_old_observations,
    semantic_pruning,
    summarize_strategy,
)


def agent_run(actions: int) -> list[Step]:
    """A system prompt, a task, and actions; each has 600 characters of output."""
    run: list[Step] = [SystemPromptStep(content="You are a careful engineer."), TaskStep(task="Fix the build.")]
    for number in range(actions):
        output = f"log {number} ".ljust(600, ".")
        run.append(ActionStep(tool_name="bash", tool_args={"cmd": f"make {number}"}, observation=output))
    return run


def actions_in(memory: MemoryManager) -> list[ActionStep]:
    return memory.get_steps_by_type(ActionStep)


def lengths(memory: MemoryManager) -> list[int]:
    return [len(str(action.observation)) for action in actions_in(memory)]


def test_keep_last_n_steps() -> None:
    memory = MemoryManager(steps=agent_run(20), prune_strategy=keep_last_n_steps(5))
    before = memory.steps
    memory.prune()
    assert list(memory.steps) == [*before[:2], *before[-5:]]


def test_prune_old_observations_by_position() -> None:
    memory = MemoryManager(steps=agent_run(8))
    memory.prune(prune_old_observations(5))
    assert lengths(memory) == [100] * 3 + [600] * 5
    memory.prune(prune_old_observations(3, 50))
    assert lengths(memory) == [50] * 5 + [600] * 3


def test_prune_old_observations_by_age_alone() -> None:
    memory = MemoryManager(steps=agent_run(20))
    memory.prune(prune_old_observations(max_age_seconds=3600))
    assert lengths(memory) == [600] * 20  # fresh results stay whole, however many
    old = [step.evolve(timestamp=time.time() - 7200) for step in agent_run(6)]
    memory = MemoryManager(steps=[*old, *agent_run(6)[2:]])
    memory.prune(prune_old_observations(max_age_seconds=3600))
    assert lengths(memory) == [100] * 6 + [600] * 6
    memory.prune(prune_old_observations(keep_last_n=2, max_length=100, max_age_seconds=3600))
    assert lengths(memory) == [100] * 10 + [600] * 2


# -- semantic_pruning --------------------------------------------------------------------------------------------------


class LetterEmbedder:
    """As short as an embedder can be."""

    def __init__(self, kind: type = list) -> None:
        self.kind, self.asked = kind, list[str]()

    def embed(self, step_or_text: Any) -> Any:
        text = str(step_or_text)
        self.asked.append(text)
        vector = [0.0] * 64
        for word in text.lower().split():
            vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % 64] += 1.0
        return np.array(vector) if self.kind is np.ndarray else self.kind(vector)


def long_run() -> list[Step]:
    run: list[Step] = [TaskStep(task="Find the port of the billing service.")]
    run.append(ActionStep(tool_name="grep", observation="the billing service listens on port 8443"))
    run += [ActionStep(tool_name="ls", observation=f"lunch on day {n}: soup, bread and more soup") for n in range(80)]
    return [*run, ActionStep(thought="Which port has the billing service?", tool_name="think", observation="hm")]


@pytest.mark.parametrize(
    "embedder",
    ["static", "hashing", LetterEmbedder(), LetterEmbedder(tuple), LetterEmbedder(np.ndarray)],
    ids=["static", "hashing", "list", "tuple", "array"],
)
def test_semantic_pruning_takes_a_name_and_any_object_with_embed(embedder: Any) -> None:
    memory = MemoryManager(steps=long_run(), prune_strategy=semantic_pruning(embedder, 600))
    before = memory.steps
    memory.prune()
    observations = [action.observation for action in actions_in(memory)]
    assert "the billing service listens on port 8443" in observations and "hm" in observations
    assert memory.steps[0] == before[0] and len(memory.steps) < 40


# -- summarize_strategy ------------------------------------------------------------------------------------------------


def count_tools(steps: list[Step]) -> str:
    return f"{len([step for step in steps if isinstance(step, ActionStep)])} commands were run."


def test_summarize_strategy_with_a_function() -> None:
    memory = MemoryManager(steps=agent_run(60), prune_strategy=summarize_strategy(count_tools))
    before = memory.steps
    report = memory.prune()
    system, task, summary, *newest = memory.steps
    assert [system, task, *newest] == [*before[:2], *before[-25:]]
    assert isinstance(summary, SummaryStep) and "35 commands were run." in summary.text
    memory.restore(report)
    assert memory.steps == before


def test_summarize_strategy_with_a_lambda_with_other_numbers_and_by_tokens() -> None:
    memory = MemoryManager(steps=agent_run(30))
    memory.prune(summarize_strategy(lambda steps: "Much was done.", max_steps=20, keep_recent=5))
    assert len(memory.steps) == 2 + 1 + 5 and "Much was done." in memory.steps[2].text
    memory = MemoryManager(steps=agent_run(30))
    memory.prune(summarize_strategy(count_tools, max_tokens=700))
    assert "commands were run." in memory.steps[2].text and memory.tokens <= 700


# -- a plain function --------------------------------------------------------------------------------------------------


def without_failures(steps: list[Step]) -> list[Step]:
    """Filter with isinstance and set."""
    failed = {step for step in steps if isinstance(step, ActionStep) and step.error is not None}
    important = {step for step in steps if isinstance(step, (SystemPromptStep, TaskStep, FinalAnswerStep))}
    recent = set(steps[-5:])
    return [step for step in steps if step in important or (step in recent and step not in failed)]


def test_a_function_that_filters_with_isinstance_and_set() -> None:
    run = [*agent_run(10), ActionStep(tool_name="bash", error="exit code 2"), *agent_run(3)[2:]]
    memory = MemoryManager(steps=run, prune_strategy=without_failures)
    before = memory.steps
    report = memory.prune()
    assert list(memory.steps) == [*before[:2], before[-5], *before[-3:]]
    memory.restore(report)
    assert memory.steps == before


def with_summary(steps: list[Step]) -> list[Step]:
    """Put a task that sums up in the place of what is taken out."""
    if len(steps) <= 12:
        return steps
    system = [step for step in steps if isinstance(step, SystemPromptStep)]
    old, recent = steps[len(system) : -5], steps[-5:]
    return [*system, TaskStep(task=f"[Summary] {len(old)} earlier steps."), *recent]


def test_what_a_function_took_out_is_recovered_from_a_memory_over_a_restart(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, prune_strategy=with_summary, max_tokens=2_000) as memory:
        added = [memory.add(step) for step in agent_run(40)]
        window = memory.steps
        assert [step.text[:9] for step in window if isinstance(step, TaskStep)] == ["Fix the b", "[Summary]"]
    with HierarchicalMemory(tmp_path, prune_strategy=with_summary, max_tokens=2_000) as memory:
        assert memory.steps == window
        assert all(memory.get(step.id) == step for step in added)
        assert "log 7 " in memory.recall("log 7", max_tokens=500).text
