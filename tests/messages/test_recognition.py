"""A history that is given again: only what is new of it is added, whatever the memory, and however it was cut."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from memories import open_memory
from turns import lines

from tinymem import HierarchicalMemory, MemoryManager, MessageStep, keep_last_n_steps
from tinymem.errors import InputError
from tinymem.messages.conversion import messages_from_steps
from tinymem.messages.recognition import keys_of, name_hash

Chat = list[dict[str, Any]]


def held(memory: HierarchicalMemory) -> Chat:
    """All that was ever added, as messages."""
    numbers = [row.number for row in memory.long_term.journal.rows(limit=10_000)]
    return messages_from_steps(memory.get(number) for number in numbers)


def texts(memory: HierarchicalMemory) -> list[str]:
    return [str(message["content"]) for message in held(memory)]


# -- keys


def test_a_key_says_who_said_what_in_which_session_and_for_which_time() -> None:
    steps = [MessageStep("user", "again", session=session) for session in ("s", "s", "t", None)]
    keys = [key for own in keys_of([*steps, steps[0].evolve(speaker="Ann")]) for key in own]
    assert [key.nth for key in keys] == [1, 2, 1, 1, 1]
    assert len({key.said for key in keys}) == 4 and len({key.id for key in keys}) == 5
    assert all(re.fullmatch("[0-9a-f]{22}", key.id) for key in keys)
    assert name_hash(None) != name_hash("None")


# -- whole histories


def test_a_memory_that_is_opened_again_knows_what_it_has(tmp_path: Path) -> None:
    history = lines(*map(str, range(40)))
    for until in (10, 40, 40):
        with open_memory(tmp_path / "m", max_tokens=60) as memory:  # most of it has left the window
            memory.add_messages(history[:until], session="s", on_conflict="skip")
    with open_memory(tmp_path / "m", create=False) as memory:
        assert held(memory) == history


def test_without_a_session_and_by_default_it_is_as_before(memory: HierarchicalMemory) -> None:
    for _ in range(2):
        memory.add_messages([{"role": "system", "content": "Be brief."}, *lines("a", "a")])
    assert len(held(memory)) == 6
    assert memory.add_messages(lines("x"), on_conflict="skip") != []


def test_an_edit_is_new_and_what_follows_it_unchanged_is_not(memory: HierarchicalMemory) -> None:
    memory.add_messages(lines("a", "b", "c"), session="s", on_conflict="skip")
    new = memory.add_messages(lines("a", "B", "c", "d"), session="s", on_conflict="skip")
    assert [step.text for step in new] == ["B", "d"]
    for version in (lines("a", "b", "c"), lines("a", "B", "c"), lines("a")):
        assert memory.add_messages(version, session="s", on_conflict="skip") == []


def test_a_window_that_was_pruned_takes_nothing_in_again() -> None:
    memory = MemoryManager(prune_strategy=keep_last_n_steps(2))
    memory.add_messages(lines("a", "b", "c", "d"), on_conflict="skip")
    memory.prune()
    assert memory.add_messages(lines("a", "b", "c", "d"), on_conflict="skip") == []


# -- mistakes


@pytest.mark.parametrize("on_conflict", ["", "error", "Skip", None, 1])
def test_another_word_is_refused(on_conflict: Any) -> None:
    with pytest.raises(InputError, match="on_conflict must be one of add, skip"):
        MemoryManager().add_messages([], on_conflict=on_conflict)


@pytest.mark.slow
def test_processes_and_threads_that_add_the_same_history_add_it_once(tmp_path: Path) -> None:
    history = lines(*map(str, range(60)))
    memories = [open_memory(tmp_path / "m") for _ in range(4)]
    failed: list[BaseException] = []

    def grow(memory: HierarchicalMemory) -> None:
        try:
            for until in range(1, len(history) + 1):
                memory.add_messages(history[:until], session="s", on_conflict="skip")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=grow, args=(memory,)) for memory in memories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and held(memories[0]) == history
    for memory in memories:
        memory.close()
