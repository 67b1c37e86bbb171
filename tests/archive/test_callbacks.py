"""Callbacks: told of what happened once it is on disk; what they raise is logged and loses nothing."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tinymem import (
    ActionStep,
    Callbacks,
    HierarchicalMemory,
    MessageStep,
    Recall,
    Step,
    TaskStep,
    keep_last_n_steps,
)
from tinymem.errors import InputError
from tinymem.window import PruneReport

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


def talk(count: int) -> list[Step]:
    return [MessageStep("user", f"Lamp {i} hangs in room {i * 3}.") for i in range(count)]


def on_disk(path: Path) -> dict[str, bool]:
    """Ids of the steps that another reader of the journal sees, and whether each is in the window."""
    with open_memory(path, create=False) as other:
        return {row.id: bool(row.window) for row in other.long_term.journal.rows()}


def test_callbacks_hear_of_a_step_once_it_is_on_disk(tmp_path: Path) -> None:
    told: list[tuple[int | None, bool]] = []
    with open_memory(tmp_path) as memory:
        memory.add(TaskStep("Before."))
    callbacks = Callbacks(on_step=lambda s: told.append((s.step_number, s.id in on_disk(tmp_path))))
    with open_memory(tmp_path, callbacks=callbacks) as memory:
        memory.add_steps(talk(2))
        memory.add_messages([{"role": "user", "content": "One more."}])
        memory.archive(talk(1))
    assert told == [(2, True), (3, True), (4, True), (5, True)]


def test_step_callbacks_by_type_get_only_their_type(tmp_path: Path) -> None:
    actions: list[Step] = []
    every: list[Step] = []
    callbacks = Callbacks(on_step={ActionStep: actions.append, Step: every.append})
    with open_memory(tmp_path, callbacks=callbacks) as memory:
        added = memory.add_steps([TaskStep("Look."), ActionStep(tool_name="ls", observation="a.py"), *talk(1)])
    assert actions == added[1:2] and every == added


def test_callbacks_hear_of_what_leaves_the_window_once_it_is_written(tmp_path: Path) -> None:
    reports: list[PruneReport] = []
    archived: list[tuple[list[int | None], set[bool]]] = []

    def note(steps: Any) -> None:
        held = on_disk(tmp_path)
        archived.append(([step.step_number for step in steps], {held[step.id] for step in steps}))

    callbacks = Callbacks(reports.append, note)
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(3), callbacks=callbacks) as memory:
        memory.add_steps(talk(5))
        memory.add_steps(talk(1))
        memory.archive(talk(2))
    assert [[step.step_number for step in report.removed] for report in reports] == [[1, 2], [3]]
    assert archived == [([1, 2], {False}), ([3], {False}), ([7, 8], {False})]


def test_callbacks_hear_of_what_came_back(tmp_path: Path) -> None:
    told: list[Recall] = []
    with open_memory(
        tmp_path, prune_strategy=keep_last_n_steps(2), callbacks=Callbacks(on_recall=told.append)
    ) as memory:
        memory.add_steps(talk(30))
        found = memory.recall("lamp 7", 200)
        context = memory.context("lamp 9")
    assert told == [found, context.recalled]


def test_what_a_callback_raises_is_logged_and_loses_nothing(tmp_path: Path, our_log: pytest.LogCaptureFixture) -> None:
    told: list[Step] = []

    def fails(_: object) -> None:
        raise RuntimeError("the metrics server is down")

    callbacks = Callbacks(fails, fails, fails, [fails, told.append])
    with (
        our_log.at_level(logging.ERROR),
        open_memory(tmp_path, prune_strategy=keep_last_n_steps(2), callbacks=callbacks) as memory,
    ):
        added = memory.add_steps(talk(9))
        assert told == added and len(memory.short_term) == 2 and memory.stats().steps == 9
        assert "lamp 3" in memory.recall("lamp 3 hangs", 200).text.lower()
    assert len(our_log.records) == 4, "each once, however often it fails"
    for message in our_log.messages:
        assert "fails failed; nothing is lost" in message and "RuntimeError in test_callbacks.py, line " in message
        assert message.count("raise RuntimeError(") == 1, "the line of code, without its message"


def test_a_callback_may_use_the_memory(tmp_path: Path) -> None:
    found: list[str] = []

    def look(steps: Any) -> None:
        found.append(memory.recall(steps[0].text, 100).text)

    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2), callbacks=Callbacks(on_archive=look)) as memory:
        memory.add_steps(talk(6))
    assert "Lamp 0" in found[0]


@pytest.mark.parametrize(
    "wrong", [{"on_prune": 1}, {"on_archive": "x"}, {"on_recall": []}, {"on_step": [3]}, {"on_step": 3},
              {"on_step": {"action": print}}],
)  # fmt: skip
def test_what_cannot_be_called_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Callbacks(**wrong)
