"""What can be a strategy, and which steps none of them takes out."""

from __future__ import annotations

from typing import Any

import pytest

import tinymem
from tinymem import HierarchicalMemory, MemoryManager, compose, no_pruning
from tinymem.errors import InputError
from tinymem.steps.types import MessageStep, SystemPromptStep, TaskStep
from tinymem.window.strategy import MAKERS, critical


@pytest.mark.parametrize("maker", MAKERS)
def test_what_makes_a_strategy_and_was_not_called_is_refused(maker: str, tmp_path: Any) -> None:
    forgotten = getattr(tinymem, maker)
    call = f"call it, prune_strategy={maker}\\((\\.\\.\\.)?\\)$"
    with pytest.raises(InputError, match=call):
        MemoryManager(prune_strategy=forgotten)
    with pytest.raises(InputError, match=call):
        HierarchicalMemory(tmp_path / "memory", prune_strategy=forgotten)
    assert not (tmp_path / "memory").exists()
    with pytest.raises(InputError, match=f"strategy is {maker}"):
        MemoryManager().prune(forgotten)
    with pytest.raises(InputError, match=f"strategy 1 is {maker}"):
        compose(no_pruning(), forgotten)


def test_all_that_make_strategies_are_known_to_be_such() -> None:
    found = {name for name in tinymem.__all__
             if getattr(getattr(tinymem, name), "__annotations__", {}).get("return") == "PruneStrategy"}  # fmt: skip
    assert found == set(MAKERS)


def test_a_function_of_the_same_name_is_the_users_own() -> None:
    def no_pruning(steps: list[tinymem.Step]) -> list[tinymem.Step]:
        return steps

    assert not MemoryManager(prune_strategy=no_pruning).prune().changed


def test_a_stand_in_is_not_critical_whatever_its_type() -> None:
    kinds = (SystemPromptStep, TaskStep)
    inserted = [kind("[Summary]", id=kind.type, metadata={"covers": ["a", kind.type]}) for kind in kinds]
    steps = [SystemPromptStep("Be brief."), TaskStep("Count."), *inserted, MessageStep("user", "One.")]
    assert critical(steps) == critical(steps, "current") == steps[:2]
