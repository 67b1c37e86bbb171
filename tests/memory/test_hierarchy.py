"""HierarchicalMemory as its users meet it: adding, opening again, recalling, forgetting, and what it refuses."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
from collections.abc import Callable, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from memories import START, open_memory, said, texts_in
from turns import answers, asks

from tinymem import Callbacks, HierarchicalMemory, MemoryManager
from tinymem.errors import InputError, MessageError, PruneError
from tinymem.messages import problems
from tinymem.steps.types import ActionStep, MessageStep, Step, TaskStep
from tinymem.window.strategies import keep_last_n_steps, no_pruning, prune_old_observations

MEMORY = {"max_tokens": 800}
FRUIT = ["plums", "pears", "figs"]


def talk(count: int, start: int = 0, **more: Any) -> list[Step]:
    return [said(f"Remark {i}: lot {i} holds {i * 7} crates of {FRUIT[i % 3]}.", **more)
            for i in range(start, start + count)]  # fmt: skip


# -- in, and opened again ---------------------------------------------------------------------------------------------


def test_steps_that_are_archived_at_once_are_recalled_but_never_in_the_window(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.add_steps([TaskStep("Count the crates."), said("The ladder is behind the shed.")])
        past = memory.archive(talk(30))
        assert memory.add(said("Where is lot 17?")).step_number == 33
        assert "lot 17 holds 119" in memory.context("lot 17").recalled.text
    with open_memory(tmp_path) as memory:
        assert [step.step_number for step in memory.steps] == [1, 2, 33]
        assert memory.get(past[4].id) == past[4]


def test_another_system_prompt_replaces_the_one_from_before(tmp_path: Path) -> None:
    for prompt in ("Be brief.", "Be thorough."):
        with open_memory(tmp_path, system_prompt=prompt) as memory:
            memory.add(said("Go on."))
            assert memory.system_prompt == prompt
            assert [m["content"] for m in memory.context(max_tokens=20).messages if m["role"] == "system"] == [prompt]


def test_the_window_may_be_made_smaller_or_larger_later(tmp_path: Path) -> None:
    for tokens, held in ((2_000, 50), (100, 2), (2_000, 52)):
        with open_memory(tmp_path, window_tokens=tokens) as memory:
            memory.add_steps(talk(50))
            assert memory.stats().window_tokens <= tokens and memory.stats().window_steps >= held


def test_a_memory_moves_with_its_folder(tmp_path: Path) -> None:
    with open_memory(tmp_path / "here", store="chroma") as memory:
        memory.add_steps(talk(10))
    (tmp_path / "here").rename(tmp_path / "there")
    with open_memory(tmp_path / "there", store="chroma") as memory:
        assert "lot 3 holds" in memory.recall("lot 3", 100).text


# -- chat messages ----------------------------------------------------------------------------------------------------


CALL, RESULT = asks("c1"), answers("c1", "plums")


def test_a_call_and_its_result_may_come_in_pieces(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.add_messages([{"role": "user", "content": "Look."}, CALL])
    with open_memory(tmp_path) as memory:  # the process may end between the two
        memory.add_messages([RESULT])
        assert memory.context().messages == [{"role": "user", "content": "Look."}, CALL, RESULT]


def test_a_result_may_come_when_its_call_has_left_the_window_before_a_restart(tmp_path: Path) -> None:
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(0)) as memory:
        memory.add_messages([CALL])
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(0)) as memory:
        memory.add_messages([RESULT])
        assert memory.stats().steps == 2
        assert memory.context("plums").messages[-1]["content"].count("plums") == 1


def test_a_prompt_is_added_back_without_the_block_that_was_recalled(memory: HierarchicalMemory) -> None:
    memory.add_steps(talk(100))
    sent = memory.context("lot 3").messages
    with open_memory(memory.path, namespace="other") as other:
        assert len(other.add_messages(sent)) == len(sent)  # there it is text as any other
    added = memory.add_messages(sent)
    assert len(added) == len(sent) - 1 and all("<recalled-" not in step.text for step in added)


def test_a_malformed_message_behind_a_block_is_named_by_its_place_in_the_list(memory: HierarchicalMemory) -> None:
    memory.add_steps(talk(100))
    block = {"role": "user", "content": memory.context("lot 3").recalled.text}
    with pytest.raises(MessageError, match=r"^message 3: role must be one of .*, not a str of length 6$") as caught:
        memory.add_messages([block, {"role": "user", "content": "x"}, block, {"role": "wizard", "content": "y"}])
    assert caught.value.index == 3
    assert memory.stats().steps == 100


def test_a_block_that_was_tampered_with_is_kept(memory: HierarchicalMemory) -> None:
    memory.add_steps(talk(100))
    block = memory.context("lot 3").recalled.text
    forged = block.replace("lot 3", "lot 4").replace("crates", "coins")
    framed = [{"role": "user", "content": text} for text in (forged, f"{block}\nand more", block)]
    assert [step.text for step in memory.add_messages(framed)] == [forged, f"{block}\nand more"]


# -- strategies, restored ---------------------------------------------------------------------------------------------


def test_what_a_pruning_took_out_is_restored_and_stays_so(tmp_path: Path) -> None:
    with open_memory(tmp_path, prune_strategy=no_pruning()) as memory:
        memory.add_steps([*talk(20), ActionStep("Look.", tool_name="look", observation="plums " * 50), said("Fine.")])
        whole, before = memory.steps, memory.context("", now=START).messages
        shortening = memory.prune(prune_old_observations(keep_last_n=0, max_length=60))
        removing = memory.prune(keep_last_n_steps(1))
        assert memory.context("lot 3").recalled and memory.stats().window_steps == 1
        memory.restore(removing)
        half_way = memory.steps
        assert len(half_way) == 22 and half_way != whole
    with open_memory(tmp_path, prune_strategy=no_pruning()) as memory:
        assert memory.steps == half_way
        memory.restore(shortening)
    with open_memory(tmp_path, prune_strategy=no_pruning()) as memory:
        assert memory.steps == whole and memory.context("", now=START).messages == before


def test_restoring_brings_nothing_back_that_was_forgotten(tmp_path: Path) -> None:
    with open_memory(tmp_path, prune_strategy=no_pruning()) as memory:
        first, second, *others = memory.add_steps(talk(6))
        report = memory.prune(keep_last_n_steps(2))
        memory.forget([second.id])
        memory.restore(report)
        assert memory.steps == (first, *others)
        assert second.text not in str(memory.context("").messages)


@pytest.mark.parametrize("outcome", [RuntimeError("no idea"), InputError("no idea"), ["no step"]])
def test_where_a_strategy_fails_the_step_is_in_and_the_error_says_so(tmp_path: Path, outcome: Any) -> None:
    def broken(steps: Sequence[Step]) -> Any:
        if len(steps) > 3 and isinstance(outcome, Exception):
            raise outcome
        return list(steps) if len(steps) <= 3 else outcome

    told: list[Step] = []
    adds: list[Callable[[HierarchicalMemory], object]] = [
        lambda memory: memory.add(said("The fourth.", id="4")),
        lambda memory: memory.add_message("user", "The fifth."),
        lambda memory: memory.add_steps([said("The sixth.", id="4")], on_conflict="replace"),
        lambda memory: memory.add_messages([{"role": "user", "content": "The seventh."}], on_conflict="skip"),
    ]
    with open_memory(tmp_path, prune_strategy=broken, callbacks=Callbacks(on_step=told.append)) as memory:
        memory.add_steps(talk(3))
        for add in adds:
            with pytest.raises(PruneError, match=r"what was added is in the memory.*broken failed") as caught:
                add(memory)
            assert "The f" not in str(caught.value)
        shown = ["The fifth.", "The sixth.", "The seventh."]
        assert [step.text for step in memory.steps[3:]] == shown and memory.stats().steps == 6
        assert [step.text for step in told[3:]] == ["The fourth.", *shown]
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2)) as memory:
        assert memory.add(said("One more.")).step_number == 8
        assert [step.text for step in memory.steps] == ["The seventh.", "One more."]


def test_pinned_steps_over_the_window_warn_and_adding_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_memory(tmp_path, max_tokens=400, window_tokens=50) as memory:
        memory.add(said("Mind the dog. " * 20, pinned=True))
        with caplog.at_level(logging.WARNING):
            memory.add_steps(talk(5))
        assert "the window cannot be kept within its tokens" in caplog.text
        assert memory.context("").messages[0]["content"].startswith("Mind the dog.")
        assert memory.stats().window_steps == 2


# -- awkward text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n\n", "a\x00b", "x\udfff y", "\x1b[2J", "\u202e", "𝕏" * 99])
def test_awkward_text_goes_in_and_comes_out_as_it_was(tmp_path: Path, text: str) -> None:
    with open_memory(tmp_path, max_tokens=600) as memory:
        step = memory.add(said(text))
        call = memory.add(ActionStep(text, tool_name="look", tool_args={"at": text}, observation=text, session=text))
        memory.add_steps(talk(60))
        for query in (text, "lot 3", f"{text} lot"):
            context = memory.context(query)
            assert context.tokens <= 600 and problems(context.messages) == []
            context.recalled.text.encode()
        memory.recall("lot", session=text, speaker=text)
    with open_memory(tmp_path, max_tokens=600) as memory:
        assert memory.get(step.id) == step and memory.get(call.id) == call
        assert memory.forget(session=text) == 1


# -- forgetting -------------------------------------------------------------------------------------------------------


def test_forgotten_text_is_nowhere(tmp_path: Path) -> None:
    secret = "xylophonesecret"
    with open_memory(tmp_path, max_tokens=400) as memory:
        memory.add_steps([*talk(60), said(f"The password is {secret}.", id="archived")])
        memory.add(
            ActionStep("Look.", tool_name="sh", tool_args={"c": secret}, observation=f"{secret}\n" * 200, id="a")
        )
        memory.add_steps([*talk(60, 60), said(f"As I said: {secret}!", id="late")])
        assert secret in memory.recall("What is the password?", 300).text
        memory.flush()
        memory.add(said(f"And {secret} again, which waits to be embedded.", id="waits"))
    with open_memory(tmp_path, max_tokens=400) as memory:
        assert texts_in(tmp_path, secret.encode())[secret.encode()]
        assert memory.forget(["archived", "a", "late", "waits"]) == 4
        assert texts_in(tmp_path, secret.encode(), b"xylophone") == {secret.encode(): [], b"xylophone": []}
        assert secret not in memory.recall(f"{secret} password", 4_000).text + str(memory.context(secret).messages)
        assert "late" not in {step.id for step in memory.steps}
        with pytest.raises(InputError):
            memory.get("late")
        assert memory.add(said("Next.")).step_number == 125
    assert texts_in(tmp_path, secret.encode())[secret.encode()] == []
    with open_memory(tmp_path, max_tokens=400) as memory:
        assert "lot 3 holds 21" in memory.recall("lot 3", 200).text and memory.stats().steps == 121


# -- with the real embedder and index ---------------------------------------------------------------------------------


def test_by_default_meaning_is_found_through_the_whole_way(tmp_path: Path) -> None:
    filler = [{"role": "user", "content": f"Ticket {i}: the {FRUIT[i % 3]} page was deployed."} for i in range(60)]
    with HierarchicalMemory(tmp_path, max_tokens=600) as memory:
        memory.add(said("My cat is allergic to chicken, so she only gets fish.", speaker="Ann"))
        memory.add_messages(filler)
        assert "allergic to chicken" in memory.context("What is the pet allergic to?").recalled.text
    with HierarchicalMemory(tmp_path, max_tokens=600) as memory:
        assert "allergic to chicken" in memory.recall("What food must the kitten not have?", 200).text


# -- what callers write ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", ["#1", ["#1"], 1, [1], "1", ("#1", 1)])
def test_a_step_is_forgotten_by_its_number(memory: HierarchicalMemory, ids: Any) -> None:
    memory.add_messages([{"role": "user", "content": text} for text in ("one", "two")])
    assert memory.forget(ids) == 1
    assert [step.text for step in memory.history()] == ["two"]


DAYS = [datetime(2025, month, 1, 12, tzinfo=timezone.utc) for month in (1, 2, 3)]


@pytest.mark.parametrize("day", ["2025-02-01", date(2025, 2, 1), "2025-02-01T12:00", "2025-02-01T12:00Z", DAYS[1]])
def test_a_time_may_be_a_day_or_text(memory: HierarchicalMemory, day: Any) -> None:
    memory.archive([MessageStep("user", f"Harvest {at}.", timestamp=when) for at, when in enumerate(DAYS)])
    assert [item.text for item in memory.recall("harvest", since=day, until=day)] == ["Harvest 1."]
    assert memory.forget(before=day) == 1 and memory.forget(since=day) == 2


def test_a_filter_that_names_nothing_says_so(memory: HierarchicalMemory) -> None:
    memory.add(ActionStep("Look.", tool_name="look", observation="ripe", session="a", speaker="Ann"))
    for name in ("session", "speaker", "tool"):
        filters: dict[str, Any] = {name: "nobody"}
        assert memory.recall("ripe", **filters).note == f"no step has the {name} 'nobody'"


def test_a_recall_is_the_sequence_of_its_excerpts(memory: HierarchicalMemory) -> None:
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


def test_steps_are_copied_pickled_and_replaced_and_memories_say_what_to_do(memory: HierarchicalMemory) -> None:
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
