"""Episodes: runs of steps that left the window, summarised once, told in as many tokens as there are."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import texts_in
from strategies import MODERATE

from tinymem import FinalAnswerStep, HierarchicalMemory, MessageStep, Step, SummaryStep, TaskStep, keep_last_n_steps
from tinymem.archive import Episode
from tinymem.archive.episodes import MOST, MOST_TOKENS, SUMMARY_TOKENS
from tinymem.memory import Shares
from tinymem.messages.tokens import default_counter

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    """A memory whose window holds two steps."""
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2)) as opened:
        yield opened


def talk(count: int, start: int = 0, **more: Any) -> list[Step]:
    return [MessageStep("user", f"Pump {i} runs at {7000 + i} rpm.", **more) for i in range(start, start + count)]


def spans(memory: HierarchicalMemory) -> list[tuple[int, int, str | None]]:
    return [(episode.first, episode.last, episode.session) for episode in memory.medium_term]


class Counting:
    """A summarizer that says what it was given."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def summarize(self, steps: Sequence[Step], max_tokens: int) -> str:
        self.asked.append([step.text for step in steps])
        return f"{len(steps)} steps, the first: {steps[0].text}"


# what an episode is


LONG = "The log of the pump says nothing new. " * (MOST_TOKENS // 30)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (talk(MOST + 1), []),
        (talk(2 * MOST + 12), [(1, MOST, None), (MOST + 1, 2 * MOST, None)]),
        ([MessageStep("user", LONG) for _ in range(6)], [(1, 3, None)]),
        ([*talk(3, session="a"), *talk(3, session="b"), *talk(3), *talk(3, session="a"), *talk(3)],
         [(1, 3, "a"), (4, 6, "b"), (7, 9, None), (10, 12, "a")]),
    ],
    ids=["not closed yet", "most steps", "most tokens", "sessions"],
)  # fmt: skip
def test_an_episode_ends_at_most_steps_most_tokens_and_with_its_session(
    memory: HierarchicalMemory, steps: list[Step], expected: list[tuple[int, int, str | None]]
) -> None:
    memory.add_steps(steps)
    assert spans(memory) == expected


def test_a_new_task_begins_an_episode_and_a_final_answer_ends_one(tmp_path: Path) -> None:
    def only_the_last(steps: Any) -> list[Step]:
        return list(steps[-1:])

    with open_memory(tmp_path, prune_strategy=only_the_last) as memory:
        memory.add_steps([TaskStep("Sow."), *talk(3), TaskStep("Reap."), *talk(2), FinalAnswerStep("Reaped.")])
        memory.add_steps(talk(2))
        assert spans(memory) == [(1, 4, None), (6, 8, None)], "the current task stays in the window"


def test_an_episode_opens_to_the_steps_that_it_covers(memory: HierarchicalMemory) -> None:
    added = memory.add_steps(talk(2 * MOST + 12))
    first, second = memory.medium_term
    assert memory.medium_term.open(second) == added[MOST : 2 * MOST]
    summary = memory.medium_term.as_step(first)
    assert isinstance(summary, SummaryStep) and [memory.get(id) for id in summary.covers] == added[:MOST]
    assert str(first).startswith(f"#1-{MOST}:\n")


# summaries are kept


def test_each_episode_is_summarised_once_in_its_life(tmp_path: Path) -> None:
    summarizer = Counting()
    options: dict[str, Any] = {"summarizer": summarizer, "shares": Shares(episodes=0.2)}
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2), **options) as memory:
        for step in talk(3 * MOST + 5):
            memory.add(step)
        before = list(memory.medium_term)
        assert [len(texts) for texts in summarizer.asked] == [MOST] * 3
        memory.context("pump 7")
        memory.add_steps(talk(2 * MOST, 3 * MOST + 5))
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2), **options) as memory:
        memory.flush()
        assert list(memory.medium_term)[:3] == before and len(summarizer.asked) == 5
        assert before[1].summary.startswith(f"{MOST} steps, the first: Pump {MOST} runs")


def test_where_no_context_shows_them_none_are_made_but_for_who_iterates_and_no_model_is_asked(tmp_path: Path) -> None:
    summarizer = Counting()
    for _ in range(2):
        with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2), summarizer=summarizer) as memory:
            memory.add_steps(talk(2 * MOST + 5))
            memory.flush()
            assert "episodes" not in {item.tier for item in memory.context("pump", max_tokens=8_000).items}
            assert memory.medium_term.known() == []
    with open_memory(tmp_path, summarizer=summarizer) as memory:
        assert "rpm" in next(iter(memory.medium_term)).summary
    assert summarizer.asked == []


def test_a_summarizer_that_fails_is_replaced_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Counting):
        def summarize(self, steps: Sequence[Step], max_tokens: int) -> str:
            raise ConnectionError("no route to host")

    options: dict[str, Any] = {"summarizer": Broken(), "shares": Shares(episodes=0.2)}
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2), **options) as memory:
        with caplog.at_level(logging.WARNING):
            memory.add_steps(talk(MOST + 5))
            memory.flush()
        assert "no route to host" in caplog.text and memory.stats().steps == MOST + 5
        assert "rpm" in next(iter(memory.medium_term)).summary


def test_a_summary_that_is_too_long_is_cut(tmp_path: Path) -> None:
    class Chatty(Counting):
        def summarize(self, steps: Sequence[Step], max_tokens: int) -> str:
            return "\x1b[31mword " * 10_000

    options: dict[str, Any] = {"summarizer": Chatty(), "shares": Shares(episodes=0.2)}
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2), **options) as memory:
        memory.add_steps(talk(MOST + 5))
        [episode] = memory.medium_term
        assert 60 < default_counter().count(episode.summary) <= SUMMARY_TOKENS and "\x1b" not in episode.summary


def test_what_was_forgotten_is_in_no_summary_and_in_no_file(tmp_path: Path) -> None:
    shares = Shares(episodes=0.2)
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(2), shares=shares) as memory:
        secret = MessageStep("user", "The password of vault 9931 is xylophone-77.")
        added = memory.add_steps([*talk(MOST // 2), secret, *talk(3 * MOST)])
        assert "xylophone" in next(iter(memory.medium_term)).summary
        assert "xylophone" in told(memory, 1_000)[0].summary
        assert memory.forget([added[MOST // 2].id]) == 1
        assert [episode.first for episode in memory.medium_term] == [MOST + 1, 2 * MOST + 1], "it is not made anew"
        assert "xylophone" not in told(memory, 1_000)[0].summary
        assert "xylophone" not in memory.context("vault", max_tokens=4_000).messages.__repr__()
    assert texts_in(tmp_path, b"xylophone") == {b"xylophone": []}


# telling them


def told(memory: HierarchicalMemory, room: int) -> list[Episode]:
    return memory.medium_term.within(room)


@pytest.fixture(scope="module")
def long_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HierarchicalMemory]:
    """A memory of 75 episodes."""
    path = tmp_path_factory.mktemp("long")
    shares = Shares(episodes=0.05)
    with open_memory(path, prune_strategy=keep_last_n_steps(2), max_tokens=20_000, shares=shares) as opened:
        for session in range(75):
            opened.add_steps(talk(5, 5 * session, session=f"s{session}"))
        opened.add_steps(talk(3))
        yield opened


@MODERATE
@given(st.integers(1, 12_000))
def test_the_newest_episodes_are_told_in_order_as_many_as_fit(long_memory: HierarchicalMemory, room: int) -> None:
    every = list(long_memory.medium_term)
    shown, costs = told(long_memory, room), [default_counter().count(f"{episode}\n") for episode in every]
    place = len(every) - len(shown)
    assert len(every) == 75 and shown == every[place:]
    assert sum(costs[place:]) <= room and (place == 0 or sum(costs[place - 1 :]) > room)


def test_a_context_tells_the_episodes_in_their_share(long_memory: HierarchicalMemory) -> None:
    for budget in (4_000, 8_000, 16_000):
        context = long_memory.context("Which pump runs at 7003 rpm?", max_tokens=budget)
        items = [item for item in context.items if item.tier == "episodes"]
        assert items and all(isinstance(item.step, SummaryStep) and item.step.covers for item in items)
        [block] = [m for m in context.messages if str(m["content"]).startswith("<episodes-")]
        assert default_counter().count(block["content"]) <= 0.05 * budget and block["role"] == "user"
        assert context.tokens <= budget
        assert long_memory.add_messages([block]) == [], "it is never taken for something new"
