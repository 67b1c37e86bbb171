"""What callers write: ids, numbers, dates, names and steps in the forms that come to mind."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from datetime import date, datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tinymem import ActionStep, HierarchicalMemory, MemoryManager, MessageStep, PruneStrategy, Step, TaskStep
from tinymem.errors import InputError

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


@pytest.mark.parametrize("ids", ["#1", ["#1"], 1, [1], "1", ("#1", 1)])
def test_a_step_is_forgotten_by_its_number(ids: Any) -> None:
    with open_memory() as memory:
        memory.add_messages([{"role": "user", "content": text} for text in ("one", "two")])
        assert memory.forget(ids) == 1
        assert [step.text for step in memory.history()] == ["two"]


DAYS = [datetime(2025, month, 1, 12, tzinfo=timezone.utc) for month in (1, 2, 3)]


@pytest.mark.parametrize("day", ["2025-02-01", date(2025, 2, 1), "2025-02-01T12:00", "2025-02-01T12:00Z", DAYS[1]])
def test_a_time_may_be_a_day_or_text(day: Any) -> None:
    with open_memory() as memory:
        memory.archive([MessageStep("user", f"Harvest {at}.", timestamp=when) for at, when in enumerate(DAYS)])
        assert [item.text for item in memory.recall("harvest", since=day, until=day)] == ["Harvest 1."]
        assert memory.forget(before=day) == 1 and memory.forget(since=day) == 2


def test_a_filter_that_names_nothing_says_so() -> None:
    with open_memory() as memory:
        memory.add(ActionStep("Look.", tool_name="look", observation="ripe", session="a", speaker="Ann"))
        for name in ("session", "speaker", "tool"):
            filters: dict[str, Any] = {name: "nobody"}
            assert memory.recall("ripe", **filters).note == f"no step has the {name} 'nobody'"
        with pytest.raises(InputError, match="type must be one of action"):
            memory.recall("ripe", type="acton")


def test_a_recall_is_the_sequence_of_its_excerpts() -> None:
    with open_memory() as memory:
        memory.add_message("user", "The gate is open.")
        found = memory.recall("gate")
        assert (len(found), [*found], found[0], found[:1]) == (1, [*found.items], found.items[0], found.items)
        assert not memory.recall("")


class OwnTask(TaskStep):
    """A subclass without fields of its own."""


@dataclasses.dataclass(frozen=True)
class OwnNote(Step):
    """A type of its own."""

    content: str = ""

    def to_messages(self, *args: Any, **options: Any) -> list[dict[str, Any]]:
        return [{"role": "user", "content": self.content}]


WAYS: dict[str, Callable[[HierarchicalMemory, Step], object]] = {
    "add": lambda memory, step: memory.add(step),
    "archive": lambda memory, step: memory.archive([step]),
    "add_steps": lambda memory, step: memory.add_steps([step]),
    "replace": lambda memory, step: memory.add_steps([step], on_conflict="replace"),
    "archive_replace": lambda memory, step: memory.archive([step], on_conflict="replace"),
}


@pytest.mark.parametrize("step", [OwnTask("Ship."), OwnNote(content="x"), Step()])
@pytest.mark.parametrize("way", WAYS)
def test_a_class_of_ones_own_is_refused_with_advice(step: Step, way: str, tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory, pytest.raises(InputError, match=r"TaskStep.* with what is your own in its"):
        WAYS[way](memory, step)
    with open_memory(tmp_path) as memory:
        assert memory.stats().steps == 0 and memory.add_message("user", "more")


def test_steps_are_copied_pickled_and_replaced_and_memories_say_what_to_do() -> None:
    with open_memory() as memory:
        task = memory.add(TaskStep("Ship.", metadata={"a": [{"b": 1}]}))
        steps = [task, memory.add(ActionStep("t", tool_name="look", tool_args={"q": [1]}, observation="o"))]
        assert [copy.copy(steps[0]), copy.deepcopy(steps)[1], *pickle.loads(pickle.dumps(steps))] == [*steps, *steps]
        assert dataclasses.replace(task, task="Wait.").task == "Wait."
        for held in (memory, MemoryManager()):
            for function in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be copied or pickled: copy its steps"):
                    function(held)
        window: Any = memory.steps
        assert window == steps and window == tuple(steps) and window != [] and MemoryManager().steps == ()


def test_advice_names_the_call_that_was_meant() -> None:
    memory: Any = MemoryManager()
    with pytest.raises(InputError, match=r"add_message\(role, text\)"):
        memory.add("Hello")
    with pytest.raises(InputError, match=r"MemoryManager\(steps="):
        MemoryManager([TaskStep("Ship.")])  # type: ignore[list-item]


def newest_two(steps: list[Step]) -> list[Step]:
    return steps[-2:]


def test_a_strategy_over_a_list_is_one_and_add_gives_the_type_that_went_in() -> None:
    strategy: PruneStrategy = newest_two
    with open_memory(prune_strategy=strategy) as memory:
        assert memory.add(TaskStep("Ship.")).task == MemoryManager().add(TaskStep("Ship.")).task
