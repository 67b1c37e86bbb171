"""What windows and strategies refuse, and that it is said which argument is wrong before anything is pruned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tinymem import AdaptiveMemoryManager, MemoryManager, semantic_pruning, summarize_strategy
from tinymem.errors import BudgetError, FormatError, InputError, MessageError, StepError
from tinymem.steps.types import ActionStep, MessageStep, Step, TaskStep
from tinymem.window.strategies import compose, no_pruning, token_budget

A = MessageStep("user", "a", id="a")
NEW = MessageStep("user", "new")
RECORDS = MemoryManager(steps=[A, NEW]).to_list()

ASKED: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda memory: memory.add(None), InputError, "only steps can be added"),
    (lambda memory: memory.add(TaskStep), InputError, "only steps can be added"),
    (lambda memory: memory.add(A), InputError, "held already"),
    (lambda memory: memory.add_steps([NEW, NEW]), InputError, "held already"),
    (lambda memory: memory.add_message("robot", "x"), StepError, "role must be one of"),
    (lambda memory: memory.add_message("tool", "x"), StepError, "tool_call_id"),
    (lambda memory: memory.add_messages([{"role": "user", "content": "b"}, {"role": "robot"}]), MessageError, "1"),
    (lambda memory: memory.get_steps_by_type("dream"), InputError, "a step class or one of action, system_prompt"),
    (lambda memory: memory.to_messages(style="xml"), InputError, "style must be"),
    (lambda memory: memory.restore(MemoryManager(steps=[NEW]).clear()), InputError, "another memory"),
    (lambda memory: MemoryManager([TaskStep("Ship.")]), InputError, r"MemoryManager\(steps="),  # type: ignore[list-item]
    (lambda memory: memory.from_list(RECORDS[::-1]), InputError, "not above the one before"),
    (lambda memory: memory.from_list([RECORDS[0], {**RECORDS[0], "step_number": 7}]), InputError, "held already"),
    (lambda memory: memory.from_list([{**RECORDS[0], "role": "robot"}]), StepError, "role"),
    (lambda memory: memory.from_list([{**RECORDS[0], "format": 2}]), FormatError, "format"),
]


@pytest.mark.parametrize("kind", [MemoryManager, AdaptiveMemoryManager])
@pytest.mark.parametrize(("call", "error", "words"), ASKED)
def test_a_window_refuses_it_and_stays_as_it_was(
    kind: Callable[..., MemoryManager], call: Callable[[Any], object], error: type[Exception], words: str
) -> None:
    memory = kind(steps=[A])
    before = memory.steps, memory.next_number
    with pytest.raises(error, match=words):
        call(memory)
    assert (memory.steps, memory.next_number) == before


@pytest.mark.parametrize("after", [None, "steps", [A, "text"], {"a": 1}])
def test_a_strategy_that_misbehaves_loses_nothing(after: Any) -> None:
    def strategy(steps: list[Step]) -> Any:
        steps.clear()
        return after

    memory = MemoryManager(steps=[A, NEW])
    with pytest.raises(InputError, match=r"^a strategy must return a list of steps, not"):
        memory.prune(strategy)
    assert [step.text for step in memory] == ["a", "new"]
    with pytest.raises(InputError, match=r"^strategy 1 of 2: a strategy must return a list of steps, not"):
        compose(no_pruning(), strategy)([A])


@pytest.mark.parametrize(("bad", "told"), [(None, "None"), ("no_pruning", "'no_pruning'"), ([], "a list of length 0")])
def test_what_cannot_be_called_is_no_strategy(bad: Any, told: str) -> None:
    with pytest.raises(InputError, match=f"strategy 1 must be a callable, not {told}"):
        compose(no_pruning(), bad)


@pytest.mark.parametrize(
    "strategy",
    [token_budget(20), summarize_strategy(max_tokens=20), semantic_pruning("hashing:64", 20)],
    ids=["token_budget", "summarize_strategy", "semantic_pruning"],
)
def test_steps_that_stay_and_do_not_fit_are_a_budget_error_that_names_them(strategy: Any) -> None:
    with pytest.raises(BudgetError, match="current task") as caught:
        strategy([TaskStep("word " * 50), ActionStep("Look.")])
    assert caught.value.needed == sum(caught.value.parts.values()) > caught.value.budget == 20


def test_too_few_tokens_for_any_prompt_are_refused() -> None:
    with pytest.raises(BudgetError, match="reply 3 need 3 tokens, 1 more than the budget of 2"):
        AdaptiveMemoryManager(2)
    with pytest.raises(BudgetError, match="system prompt"):
        AdaptiveMemoryManager(10, "Be very brief. " * 5)
    assert AdaptiveMemoryManager(3).tokens == 3
