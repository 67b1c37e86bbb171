"""Corrections: a question about a corrected fact brings the correction, never what was said before alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tinymem import ActionStep, Context, HierarchicalMemory, MessageStep, Step, TaskStep, ToolCall, count_tokens
from tinymem.errors import BudgetError
from tinymem.recall.render import is_block
from tinymem.upkeep import import_memory

open_memory = partial(HierarchicalMemory, store="exact")
hashing_memory = partial(open_memory, embedder="hashing:64")
MEMORY = {"embedder": "static"}
COLOURS = ["red", "blue", "green"]
THINGS = ["vault", "garage", "locker", "server", "printer", "gate", "meter", "safe", "router", "boiler",
          "freezer", "lift", "camera", "sensor", "pump", "crane", "forge", "kiln", "press", "loom"]  # fmt: skip
PLACES = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS]
ASIDES = ["The {} was cleaned on day {}.", "Somebody left keys near the {} at {}.", "The {} is {} years old."]


@pytest.fixture(scope="module")
def corrected() -> Iterator[tuple[HierarchicalMemory, dict[str, tuple[str, str]]]]:
    """A memory of 60 facts that were corrected, among 360 other remarks."""
    rng, codes = random.Random(7), iter(range(4_000, 9_000))
    facts = {place: (f"K{next(codes)}", f"K{next(codes)}") for place in PLACES}
    with open_memory(max_tokens=4_000) as memory:
        said = [f"The code of the {place} is {old}." for place, (old, _) in facts.items()]
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


def test_words_of_the_old_claim_find_a_correction_that_has_none_of_them(memory: HierarchicalMemory) -> None:
    old = memory.archive([MessageStep("user", "The rendezvous is at the lighthouse.")])[0]
    memory.archive([MessageStep("user", f"Ship {at} sails at noon.") for at in range(40)])
    memory.correct(old.id, "Pier 9, not there.")
    assert [item.text for item in memory.recall("Where is the rendezvous, at the lighthouse?", k=1).items] == [
        "Pier 9, not there."
    ]


def test_a_correction_is_itself_corrected_and_can_be_taken_back(memory: HierarchicalMemory) -> None:
    old = memory.archive([MessageStep("user", "The port of staging is 8443.")])[0]
    first = memory.correct(old.id, "The port of staging is 8444.")
    second = memory.correct(old.step_number or 0, MessageStep("assistant", "Staging listens on 8445."))
    assert second.metadata["corrects"] == [old.id, first.id]
    ask = "Which port has staging?"
    assert [item.step.id for item in memory.recall(ask).items] == [second.id]
    assert [step.text for step in memory.history()] == [old.text, first.text, second.text]
    assert f"corrected by #{second.step_number}" in memory.open(first.id)
    memory.forget([second.id])
    assert [item.step.id for item in memory.recall(ask).items] == [first.id]


def test_a_correction_of_what_stands_in_the_window_stands_there_too(memory: HierarchicalMemory) -> None:
    old = memory.add_steps([TaskStep("Deploy."), MessageStep("user", "Use the port 8443.")])[1]
    new = memory.correct(old.id, "Use the port 8444.")
    assert memory.steps[-1].id == new.id and memory.context().messages[-1]["content"] == "Use the port 8444."


def test_a_filter_that_the_correction_does_not_pass_brings_neither(memory: HierarchicalMemory) -> None:
    old = memory.archive([MessageStep("user", "The port of staging is 8443.", session="a")])[0]
    memory.correct(old.id, MessageStep("user", "The port of staging is 8444.", session="b"))
    assert not memory.recall("Which port has staging?", session="a")


def test_as_of_a_moment_holds_what_was_not_corrected_yet(memory: HierarchicalMemory) -> None:
    def dated(text: str, month: int) -> MessageStep:
        return MessageStep("user", text, timestamp=datetime(2025, month, 1, tzinfo=timezone.utc))

    texts = [f"The port of staging is {port}." for port in (8443, 8444, 8445)]
    old = memory.archive([dated(texts[0], 1)])[0]
    for month, text in enumerate(texts[1:], 2):
        memory.correct(old.id, dated(text, month))
    asked = "Which port has staging?"
    for month, text in enumerate(texts, 1):
        then = memory.recall(asked, as_of=f"2025-{month:02}-15")
        assert [(item.text, item.mark) for item in then] == [(text, "")]


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


SUBJECTS = [
    ("Tom is allergic to peanuts.", "Eve is allergic to peanuts."),
    ("The tank holds 5 litres of oil.", "The tank holds 5 gallons of oil."),
    ("The port of staging is 8443.", "Noted: the port of staging is 8443."),
]


@pytest.mark.parametrize(("claim", "other"), SUBJECTS)
def test_another_claim_is_not_touched(memory: HierarchicalMemory, claim: str, other: str) -> None:
    old, near = memory.archive([MessageStep("user", text) for text in (claim, other)])
    new = memory.correct(old.id, "That has changed.")
    assert new.metadata["corrects"] == [old.id]
    assert near.id in {item.step.id for item in memory.recall(other).items}


SOURCES: list[dict[str, object]] = [
    {"session": "ben"}, {"speaker": "Ben"}, {"metadata": {"agent": "coder"}}, {"metadata": {"user": "ben"}}, {},
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(SOURCES)))
def test_a_correction_leaves_what_others_said(memory: HierarchicalMemory, at: int) -> None:
    said = memory.archive([MessageStep("user", "The gate's code is 4711.", **source) for source in SOURCES])  # type: ignore[arg-type]
    new = memory.correct(said[at].id, "The gate's code is 4712.")
    assert list(new.metadata["corrects"]) == [said[at].id]
    assert memory.recall("gate code", session="ben").text.count("4711") == (at != 0)


# -- in a window -------------------------------------------------------------------------------------------------------

OLD, NEW = "The gate's code is 4711.", "The gate's code is 4712."
TALK = [TaskStep("Open the gate."), MessageStep("user", OLD), MessageStep("assistant", "Noted."),
        MessageStep("user", "And now?")]  # fmt: skip
HISTORY = [message for step in TALK for message in step.to_messages()]


def texts(context: Context) -> list[str]:
    return [str(message["content"]) for message in context.messages]


def of_window(memory: HierarchicalMemory) -> Context:
    if not memory.steps:
        memory.add_steps(TALK)
    return memory.context(session="s", max_tokens=1_000)


def of_history(memory: HierarchicalMemory) -> Context:
    return memory.fit(HISTORY, session="s", max_tokens=1_000)


PROMPTS = pytest.mark.parametrize("prompt", [of_window, of_history])


def number_of(memory: HierarchicalMemory, text: str = OLD) -> int:
    return next(step.step_number or 0 for step in memory.history() if step.text == text)


@PROMPTS
def test_a_prompt_that_was_sent_changes_behind_the_corrected_step_and_goes_on_from_there(
    memory: HierarchicalMemory, prompt: Any
) -> None:
    sent = texts(prompt(memory))
    memory.correct(number_of(memory), NEW)
    context = prompt(memory)
    now = texts(context)
    assert now[:2] == sent[:2] and now[3 : len(sent) + 1] == sent[2:]
    assert f"user: {NEW} (corrects #{number_of(memory)}, above)\n" in now[2]
    assert is_block(now[2], memory.long_term.key) and context.entries[2].kind == "recalled"
    assert context.tokens == count_tokens(context.messages)
    again = prompt(memory)
    assert texts(again) == now and again.stable == len(now)
    memory.correct(number_of(memory), "The gate has no code.")
    assert "user: The gate has no code. (corrects #" in texts(prompt(memory))[2]


def test_a_note_that_a_framework_keeps_is_not_archived(memory: HierarchicalMemory) -> None:
    of_history(memory)
    memory.correct(number_of(memory), NEW)
    messages, steps = of_history(memory).messages, memory.stats().steps
    assert len(messages) == len(HISTORY) + 1
    assert memory.fit(messages, session="s").messages == messages and memory.stats().steps == steps


@PROMPTS
def test_what_was_corrected_by_something_that_is_forgotten_stands_alone_again(
    memory: HierarchicalMemory, prompt: Any
) -> None:
    sent = texts(prompt(memory))
    new = memory.correct(number_of(memory), NEW)
    assert texts(prompt(memory)) != sent
    memory.forget(new.id)
    assert texts(prompt(memory)) == sent


def test_a_correction_that_a_filter_leaves_out_is_not_shown(memory: HierarchicalMemory) -> None:
    of_history(memory)
    new = memory.correct(number_of(memory), MessageStep("user", NEW, session="other"))
    assert not any(NEW in text for text in texts(memory.fit(HISTORY, session="s", sessions="s")))
    assert not any(NEW in text for text in texts(memory.fit(HISTORY, session="s", without=[new.step_number or 0])))
    assert any(NEW in text for text in texts(memory.fit(HISTORY, session="s")))


def test_a_strategy_gets_the_number_of_the_correction_and_the_window_keeps_the_step(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def watch(steps: list[Step]) -> list[Step]:
        seen.append([step.text for step in steps])
        return steps

    with hashing_memory(tmp_path, prune_strategy=watch) as memory, hashing_memory(tmp_path) as other:
        memory.add_steps([*TALK[:2], ActionStep("", [ToolCall("look", {}, observation="It is shut.")])])
        number = other.correct(2, NEW).step_number
        memory.correct(3, "It is open.")
        memory.prune()
        assert seen[-1][1:3] == [f"{OLD}\n(corrected by #{number})", "look({})\nIt is shut.\n(corrected by #5)"]
        assert [step.text for step in memory.steps][1:3] == [OLD, "look({})\nIt is shut."]
        shortened = memory.prune(lambda steps: [step.shortened(8) for step in steps])
        assert OLD in {step.text for step in shortened.shortened}


def test_where_a_note_does_not_fit_the_prompt_is_without(memory: HierarchicalMemory) -> None:
    memory.add(TaskStep(OLD, pinned=True))
    memory.correct(1, MessageStep("user", NEW, session="other"))
    assert any("corrects #1" in text for text in texts(memory.context(session="s", max_tokens=100)))
    assert texts(memory.context(session="s", max_tokens=20)) == [OLD]
    with pytest.raises(BudgetError):
        memory.context(session="s", max_tokens=5)
