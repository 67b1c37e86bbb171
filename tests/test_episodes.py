"""Episodes: the runs of steps that left the window, read from the journal."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tinymem import HierarchicalMemory, MessageStep, Step, TaskStep, keep_last_n_steps
from tinymem.episodes import EXTRACT, MOST, Episode

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    """A memory whose window holds two steps."""
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2)) as opened:
        yield opened


def talk(count: int, **more: Any) -> list[Step]:
    return [MessageStep("user", f"Line {i} of the talk.", **more) for i in range(count)]


def spans(memory: HierarchicalMemory) -> list[tuple[int, int, str | None]]:
    return [(episode.first, episode.last, episode.session) for episode in memory.medium_term]


def test_nothing_archived_is_no_episode(memory: HierarchicalMemory) -> None:
    assert list(memory.medium_term) == []
    memory.add_steps(talk(2))
    assert list(memory.medium_term) == []


def test_an_episode_covers_what_left_the_window_and_says_how_it_began(memory: HierarchicalMemory) -> None:
    added = memory.add_steps(talk(10))
    ids = tuple(step.id for step in added[:8])
    assert list(memory.medium_term) == [Episode(1, 8, None, ids, "Line 0 of the talk.")]
    memory.add(MessageStep("user", "One more."))
    assert spans(memory) == [(1, 9, None)]


def test_a_session_ends_an_episode(memory: HierarchicalMemory) -> None:
    for session in ("monday", "tuesday", None, "monday"):
        memory.add_steps(talk(3, session=session))
    memory.add_steps(talk(2))
    assert spans(memory) == [(1, 3, "monday"), (4, 6, "tuesday"), (7, 9, None), (10, 12, "monday")]


def test_a_new_task_begins_an_episode(tmp_path: Path) -> None:
    def old_ones_go(steps: Any) -> list[Step]:
        return list(steps[-1:])

    with open_memory(tmp_path, prune_strategy=old_ones_go) as memory:
        for task in ("Sow.", "Reap."):
            memory.add(TaskStep(task))
            memory.add_steps(talk(3))
        memory.add(MessageStep("user", "Done."))
        assert [(e.first, e.last, e.extract) for e in memory.medium_term] == [(1, 4, "Sow."), (5, 8, "Reap.")]


def test_long_runs_are_cut(memory: HierarchicalMemory) -> None:
    memory.add_steps(talk(2 * MOST + 12))
    assert spans(memory) == [(1, MOST, None), (MOST + 1, 2 * MOST, None), (2 * MOST + 1, 2 * MOST + 10, None)]


def test_more_steps_than_are_read_at_once_are_all_covered(memory: HierarchicalMemory) -> None:
    added = memory.add_steps(talk(2_345))
    assert [id for episode in memory.medium_term for id in episode.ids] == [step.id for step in added[:-2]]


def test_an_extract_is_one_short_line(memory: HierarchicalMemory) -> None:
    memory.add_steps([MessageStep("user", "A\n\n  long \t story. " * 100), *talk(2)])
    [episode] = memory.medium_term
    assert len(episode.extract) <= EXTRACT and episode.extract.startswith("A long story. A long story.")


def test_what_was_forgotten_is_in_no_episode(memory: HierarchicalMemory) -> None:
    added = memory.add_steps([MessageStep("user", "The password is xylophone."), *talk(9)])
    memory.forget([added[0].id])
    [episode] = memory.medium_term
    assert added[0].id not in episode.ids and "xylophone" not in episode.extract


def test_episodes_are_there_after_opening_again(tmp_path: Path) -> None:
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2)) as memory:
        memory.add_steps(talk(10))
        before = list(memory.medium_term)
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2)) as memory:
        assert list(memory.medium_term) == before
