"""Several processes on one memory, which do as two memories do that are opened side by side; see also
tests/reliability/test_processes.py."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import python, said
from strategies import MODERATE
from work import PATIENCE

from tinymem import (
    ActionStep,
    Callbacks,
    HierarchicalMemory,
    MessageStep,
    Step,
    SystemPromptStep,
    ToolCall,
    keep_last_n_steps,
    no_pruning,
    prune_old_observations,
)
from tinymem.errors import InputError, PruneError, StorageError
from tinymem.messages import problems
from tinymem.window import PruneReport, PruneStrategy

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact", prune_strategy=no_pruning())
Pair = tuple[HierarchicalMemory, HierarchicalMemory]


def talk(count: int, **more: Any) -> list[Step]:
    return [said(f"Remark {i}: lot {i} holds {i * 7} crates.", **more) for i in range(count)]


def call(id: str) -> ActionStep:
    return ActionStep("Look.", [ToolCall("look", {}, id)])


def result(id: str, text: str = "plums") -> MessageStep:
    return MessageStep("tool", text, id)


def numbers(memory: HierarchicalMemory) -> list[int | None]:
    """Of the steps that the memory's next context is made of."""
    memory.stats()
    return [step.step_number for step in memory.short_term.steps]


@pytest.fixture
def both(tmp_path: Path) -> Any:
    with open_memory(tmp_path) as one, open_memory(tmp_path) as other:
        yield one, other


# one window


@pytest.mark.slow
def test_a_system_prompt_is_added_once_however_many_begin_with_it(tmp_path: Path) -> None:
    program = """
import sys
from tinymem import HierarchicalMemory
sys.stdin.readline()
HierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact", system_prompt="Be brief.").close()
"""
    begun = [python(program, tmp_path / "memory") for _ in range(4)]
    for process in begun:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.wait(timeout=600) for process in begun] == [0] * 4
    for process in begun:
        process.communicate()
    with open_memory(tmp_path / "memory") as memory:
        assert [type(step) for step in memory.short_term.steps] == [SystemPromptStep]


# numbers


def meanwhile(act: Callable[[], object], then: PruneStrategy) -> Any:
    """A strategy that lets another process act while it thinks, once."""
    todo = [act]

    def strategy(steps: list[Step]) -> list[Step]:
        if todo and len(steps) > 1:
            todo.pop()()
        return then(steps)

    return strategy


def test_a_pruning_during_which_another_process_adds_takes_out_what_it_chose(tmp_path: Path) -> None:
    reports: list[PruneReport] = []
    with open_memory(tmp_path) as other:
        think = meanwhile(lambda: other.add_steps(talk(2)), keep_last_n_steps(0))
        with open_memory(tmp_path, prune_strategy=think, callbacks=Callbacks(reports.append)) as one:
            one.add_steps([said("a"), said("b")])
            assert [step.step_number for step in reports[0].removed] == [1, 2]
            assert numbers(one) == numbers(other) == [3, 4]
            one.short_term.restore(reports[0])
            assert [step.text for step in one.short_term.steps[:2]] == ["a", "b"]
            assert numbers(one) == numbers(other) == [1, 2, 3, 4]


def test_a_step_is_added_once_by_whichever_process(both: Pair) -> None:
    step = said("once")
    both[0].add(step)
    for memory in both:
        with pytest.raises(InputError, match="held already"):
            memory.add(step)
    both[0].short_term.prune(keep_last_n_steps(0))
    for memory in both:
        with pytest.raises(InputError, match=r"in the memory already|held already"):
            memory.add(step)
        assert numbers(memory) == []
    assert both[1].stats().steps == 1 and both[1].add(said("next")).step_number == 2


# calls and results


def test_a_call_of_one_is_answered_by_the_other_once(both: Pair) -> None:
    one, other = both
    one.add(call("c1"))
    other.add_messages([{"role": "tool", "tool_call_id": "c1", "content": "plums"}])
    for memory in both:
        assert problems(messages := memory.context("").messages) == [] and len(messages) == 2
        assert memory.short_term.open_calls == frozenset()


def test_open_calls_are_known_where_they_have_left_every_window(both: Pair) -> None:
    one, other = both
    one.add_steps([call("c1"), said("meanwhile")])
    one.add(call("c2"))
    one.short_term.prune(keep_last_n_steps(0))
    assert numbers(one) == numbers(other) == [] and other.short_term.open_calls == {"c1", "c2"}
    other.add(result("c1"))
    one.add(call("c1"))  # an id that is used again
    other.add_steps([result("c1"), result("c2")])
    one.stats()
    assert one.short_term.open_calls == other.short_term.open_calls == frozenset()


def test_a_call_that_is_forgotten_waits_for_no_result_and_is_named_in_no_file(tmp_path: Path) -> None:
    with open_memory(tmp_path) as one, open_memory(tmp_path) as other:
        one.add_steps([call("call-xylophone"), call("c2")])
        one.forget([one.get(1).id])
        for memory in (one, other):
            memory.add(said("and on"))
            assert memory.short_term.open_calls == {"c2"}
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"xylophone" in file.read_bytes()]


# conflicts


@settings(MODERATE, max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("aaampkrfscx")), max_size=20), st.integers(0, 9))
def test_whatever_three_do_they_see_what_the_journal_has(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[tuple[int, str]], seed: int
) -> None:
    dice, folder = random.Random(seed), tmp_path_factory.mktemp("shared")
    memories = [open_memory(folder, prune_strategy=keep_last_n_steps(6)) for _ in range(3)]
    reports: list[PruneReport] = []
    alive: dict[str, str] = {}
    for who, deed in deeds:
        memory = memories[who]
        simple: dict[str, Callable[[], object]] = {"k": memory.stats, "c": memory.short_term.clear}
        if deed in "am":
            steps = talk(1 if deed == "a" else 3)
            alive |= {step.id: step.text for step in memory.add_steps(steps)}
        elif deed == "p":
            reports.append(memory.short_term.prune(keep_last_n_steps(dice.randrange(4))))
        elif deed == "r" and reports:
            memory.restore(dice.choice(reports))
        elif deed == "f" and alive:
            forgotten = dice.choice(sorted(alive))
            assert memory.forget(forgotten) == 1
            del alive[forgotten]
        elif deed == "s":
            memory.short_term.prune(prune_old_observations(keep_last_n=0, max_length=10))
        elif deed in simple:
            simple[deed]()
        elif deed == "x":
            memory.close()
            memories[who] = open_memory(folder, prune_strategy=keep_last_n_steps(6))
    for memory in [*memories, *memories]:
        memory.stats()
    rows = memories[0].long_term.journal.rows()
    assert {row.id for row in rows} == alive.keys()
    shown = [row.id for row in rows if row.window]
    for memory in memories:
        assert [step.id for step in memory.short_term.steps] == shown
        texts = [m["content"] for m in memory.context("").messages]
        assert texts == [m["content"] for m in memories[0].context("").messages]
        assert memory.short_term.positions == {row.id: row.position for row in rows if row.window}
        assert memory.short_term.next_number == memory.long_term.journal.next_number()
    for memory in memories:
        memory.close()


# threads


def test_adding_in_one_is_not_held_up_by_a_strategy_of_another(tmp_path: Path) -> None:
    thinking, done = threading.Event(), threading.Event()

    def slow(steps: Sequence[Step]) -> list[Step]:
        thinking.set()
        assert done.wait(PATIENCE)
        return list(steps)

    with open_memory(tmp_path, prune_strategy=slow) as one, open_memory(tmp_path) as other:
        thread = threading.Thread(target=one.add, args=[said("slow")])
        thread.start()
        assert thinking.wait(PATIENCE)
        assert other.add(said("quick")).step_number == 2
        done.set()
        thread.join(PATIENCE)
        assert numbers(other) == [1, 2]


def test_where_a_pruning_cannot_be_written_the_step_is_in_and_the_next_add_prunes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2)) as memory:
        memory.add_steps(talk(2))

        def full(*_: object) -> list[int]:
            raise StorageError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(memory.long_term.journal, "set_window", full)
            with pytest.raises(PruneError, match="the disk is full"):
                memory.add(said("third"))
        assert numbers(memory) == [1, 2, 3] and memory.stats().steps == 3
        assert memory.add(said("fourth")).step_number == 4 and numbers(memory) == [3, 4]


def test_what_one_shortens_or_puts_back_the_other_shows_so(both: Pair) -> None:
    one, other = both
    one.add_steps([ActionStep("Look.", tool_name="cat", observation="line " * 200), *talk(4)])
    assert numbers(other) == [1, 2, 3, 4, 5] and not other.short_term.shortened
    cut = one.short_term.prune(prune_old_observations(keep_last_n=0, max_length=40))
    assert numbers(other) == [1, 2, 3, 4, 5] and other.short_term.steps == one.short_term.steps
    gone = one.short_term.prune(keep_last_n_steps(3))
    assert numbers(one) == numbers(other) == [3, 4, 5]
    one.restore(gone)
    one.stats()
    assert other.stats().window_steps == 5
    assert other.short_term.steps == one.short_term.steps != ()
    assert len(other.short_term.steps[0].text) < 200 and other.short_term.shortened == one.short_term.shortened != set()
    other.restore(cut)
    assert numbers(one) == [1, 2, 3, 4, 5]
    assert one.short_term.steps == other.short_term.steps and not one.short_term.shortened
    assert one.short_term.positions == other.short_term.positions
