"""Corrections: a question about a corrected fact brings the correction, never what was said before alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tinymem import HierarchicalMemory, MessageStep, TaskStep
from tinymem.errors import InputError
from tinymem.upkeep import import_memory

open_memory = partial(HierarchicalMemory, store="exact")
COLOURS = ["red", "blue", "green"]
THINGS = ["vault", "garage", "locker", "server", "printer", "gate", "meter", "safe", "router", "boiler",
          "freezer", "lift", "camera", "sensor", "pump", "crane", "forge", "kiln", "press", "loom"]  # fmt: skip
PLACES = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS]
ASIDES = ["The {} was cleaned on day {}.", "Somebody left keys near the {} at {}.", "The {} is {} years old."]


@pytest.fixture(scope="module")
def corrected() -> Iterator[tuple[HierarchicalMemory, dict[str, tuple[str, str]]]]:
    """A memory of 60 facts that were corrected, half of them said twice, among 360 other remarks."""
    rng, codes = random.Random(7), iter(range(4_000, 9_000))
    facts = {place: (f"K{next(codes)}", f"K{next(codes)}") for place in PLACES}
    with open_memory(max_tokens=4_000) as memory:
        said = [f"The code of the {place} is {old}." for place, (old, _) in facts.items()]
        said += [f"Remember, the {place}'s code is {old}" for place, (old, _) in [*facts.items()][::2]]
        said += [aside.format(place, rng.randrange(9_000, 9_999)) for place in facts for aside in ASIDES]
        said += [f"The name of the {place} is Unit-{rng.randrange(99)}." for place in facts for _ in range(3)]
        rng.shuffle(said)
        steps = memory.archive([MessageStep("user", text) for text in said])
        ids = {step.text: step.id for step in steps}
        for place, (old, new) in facts.items():
            memory.correct(ids[f"The code of the {place} is {old}."], f"The code of the {place} is {new}.")
        yield memory, facts


@pytest.mark.slow
@pytest.mark.parametrize("question", ["What is the code of the {}?", "{} code", "code of the {} {}"])
def test_no_stale_answer_comes_back(
    corrected: tuple[HierarchicalMemory, dict[str, tuple[str, str]]], question: str
) -> None:
    memory, facts = corrected
    for place, (old, new) in facts.items():
        found = memory.recall(question.format(place, old), 300)
        assert new in found.text and old not in found.text
        best = max(found.items, key=lambda item: item.score)
        assert new in best.text


def test_words_of_the_old_claim_find_a_correction_that_has_none_of_them() -> None:
    with open_memory() as memory:
        old = memory.archive([MessageStep("user", "The rendezvous is at the lighthouse.")])[0]
        memory.archive([MessageStep("user", f"Ship {at} sails at noon.") for at in range(40)])
        memory.correct(old.id, "Pier 9, not there.")
        assert [item.text for item in memory.recall("Where is the rendezvous, at the lighthouse?", k=1).items] == [
            "Pier 9, not there."
        ]


def test_a_correction_is_itself_corrected_and_can_be_taken_back() -> None:
    with open_memory() as memory:
        old = memory.archive([MessageStep("user", "The port of staging is 8443.")])[0]
        first = memory.correct(old.id, "The port of staging is 8444.")
        second = memory.correct(old.step_number or 0, MessageStep("assistant", "Staging listens on 8445."))
        assert second.metadata["corrects"] == [old.id, first.id]
        ask = "Which port has staging?"
        assert [item.step.id for item in memory.recall(ask).items] == [second.id]
        assert [step.text for step in memory.history()] == [old.text, first.text, second.text]
        assert f"corrects: {old.id}, {first.id}" in str(memory.explain(ask))
        assert f"corrected by #{second.step_number}" in memory.open(first.id)
        memory.forget([second.id])
        assert [item.step.id for item in memory.recall(ask).items] == [first.id]


def test_a_correction_of_what_stands_in_the_window_stands_there_too() -> None:
    with open_memory(max_tokens=2_000) as memory:
        old = memory.add_steps([TaskStep("Deploy."), MessageStep("user", "Use the port 8443.")])[1]
        new = memory.correct(old.id, "Use the port 8444.")
        assert memory.steps[-1].id == new.id and memory.context().messages[-1]["content"] == "Use the port 8444."


def test_a_filter_that_the_correction_does_not_pass_brings_neither() -> None:
    with open_memory() as memory:
        old = memory.archive([MessageStep("user", "The port of staging is 8443.", session="a")])[0]
        memory.correct(old.id, MessageStep("user", "The port of staging is 8444.", session="b"))
        assert not memory.recall("Which port has staging?", session="a")


def test_corrections_survive_export_and_a_restart(tmp_path: Path) -> None:
    with open_memory(tmp_path / "one") as memory:
        old = memory.archive([MessageStep("user", "The port of staging is 8443.")])[0]
        memory.correct(old.id, "The port of staging is 8444.")
        memory.export(tmp_path / "all.jsonl")
    import_memory(tmp_path / "two", tmp_path / "all.jsonl")
    for name in ("one", "two"):
        with open_memory(tmp_path / name) as memory:
            assert [item.text for item in memory.recall("Which port has staging?").items] == [
                "The port of staging is 8444."
            ]


def test_nothing_is_corrected_by_nothing() -> None:
    with open_memory() as memory:
        step = memory.add_message("user", "The port is 8443.")
        with pytest.raises(InputError, match="say what is true"):
            memory.correct(step.id, "  ")
        with pytest.raises(InputError, match="no step"):
            memory.correct(99, "The port is 8444.")
