"""What the background embeds and summarises: killed, failing, slow, closed under it, and with others at its side."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from memories import LATER

import tinymem.archive.embedding
import tinymem.archive.indexing.indexing
from tinymem import HierarchicalMemory, MessageStep, Step
from tinymem.archive.episodes import MOST
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import EmbedderError
from tinymem.memory import Shares
from tinymem.protocols import Vectors
from tinymem.upkeep import doctor

open_memory = partial(HierarchicalMemory, store="exact", max_tokens=400, shares=Shares(episodes=0.05))


@pytest.fixture(autouse=True)
def little_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The background begins early, and makes small pieces."""
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "WAITING", 200)
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "IDLE", 0.01)
    monkeypatch.setattr(tinymem.archive.embedding, "BATCH", 8)


def lots(count: int, first: int = 0) -> list[MessageStep]:
    return [MessageStep("user", f"lot {at} holds {at * 7} crates") for at in range(first, first + count)]


class Gated(HashingEmbedder):
    """An embedder that the background comes to the gate of, and that fails while it is `away`."""

    def __init__(self) -> None:
        super().__init__(64)
        self.came, self.gate, self.away = threading.Event(), threading.Event(), False

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if threading.current_thread().name == "tinymem":
            self.came.set()
            assert self.gate.wait(600)
        if self.away:
            raise ConnectionError("no route to host")
        return super().embed_documents(texts)


class Pondering:
    """A summarizer that takes as long as somebody lets it."""

    name = "pondering"

    def __init__(self) -> None:
        self.came, self.gate = threading.Event(), threading.Event()

    def summarize(self, steps: Sequence[Step], max_tokens: int) -> str:
        self.came.set()
        assert self.gate.wait(600)
        return f"Lots from {steps[0].text} on."


def steps_embedded(memory: HierarchicalMemory) -> list[int]:
    """The number of each passage's step."""
    return [row.step for row in memory.long_term.journal.passages(limit=100_000)]


@pytest.fixture
def embedder() -> Iterator[Gated]:
    """An embedder whose gate opens at the end, whatever comes."""
    made = Gated()
    yield made
    made.gate.set()


def test_adding_does_not_wait_for_the_embedder(tmp_path: Path, embedder: Gated) -> None:
    with open_memory(tmp_path, embedder=embedder) as memory:
        memory.add_steps(lots(60))
        assert embedder.came.wait(600)
        assert memory.add_steps(lots(5, 60))[-1].step_number == 65
        embedder.gate.set()
        assert "lot 64 holds 448" in memory.recall("lot 64", 100).text, "a recall sees all that was added"
        assert steps_embedded(memory) == list(range(1, 66))


def test_who_is_far_ahead_embeds_a_batch_before_going_on(tmp_path: Path, embedder: Gated) -> None:
    with open_memory(tmp_path, embedder=embedder) as memory:
        memory.long_term.indexing.in_background = False  # as if it were busy with other memories
        memory.add_steps(lots(200))
        memory.long_term.indexing.in_background = True
        before = memory.long_term.journal.waiting_tokens()
        memory.long_term.indexing.keep_pace()
        assert 0 < len(steps_embedded(memory)) <= 8 and memory.long_term.journal.waiting_tokens() < before
        memory.flush()
        memory.long_term.indexing.keep_pace()
        assert steps_embedded(memory) == list(range(1, 201))


def test_an_embedder_that_fails_in_the_background_is_left_alone_and_steps_wait(
    tmp_path: Path, embedder: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    embedder.away = True
    with open_memory(tmp_path, embedder=embedder) as memory:
        memory.add_steps(lots(60))
        assert embedder.came.wait(600)
        embedder.gate.set()
        with pytest.raises(EmbedderError, match="no route to host"):
            memory.flush()
        assert "the memory goes on without vectors" in caplog.text
        assert "lot 3 holds 21" in memory.recall("lot 3", 100).text
        assert (steps_embedded(memory), memory.stats().waiting_steps) == ([], 60)
        embedder.away = False
        memory.flush()
        assert steps_embedded(memory) == list(range(1, 61))


@pytest.mark.slow
def test_closing_waits_for_the_batch_at_hand(tmp_path: Path, embedder: Gated) -> None:
    memory = open_memory(tmp_path, embedder=embedder)
    memory.add_steps(lots(60))
    assert embedder.came.wait(600)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(memory.close)
        embedder.gate.set()
        closing.result(600)
    with open_memory(tmp_path, embedder=HashingEmbedder(64)) as memory:
        assert steps_embedded(memory) == list(range(1, 61))
    assert doctor(tmp_path).sound


def test_neither_an_add_nor_a_context_waits_for_a_slow_summarizer(tmp_path: Path) -> None:
    summarizer = Pondering()
    with open_memory(tmp_path, embedder="hashing:64", summarizer=summarizer, max_tokens=2_000) as memory:
        memory.add_steps(lots(200))
        assert summarizer.came.wait(600)
        memory.add_steps(lots(5, 200))
        assert "episodes" not in {item.tier for item in memory.context("lot 3").items}
        assert memory.medium_term.known() == []
        summarizer.gate.set()
        memory.flush()
        assert memory.medium_term.known()[0].summary == "Lots from lot 0 holds 0 crates on."
        assert "episodes" in {item.tier for item in memory.context("lot 3", max_tokens=4_000).items}


def test_a_context_does_not_depend_on_how_far_the_background_has_come(tmp_path: Path) -> None:
    shown = []
    for is_there in (True, False):
        with open_memory(tmp_path / str(is_there), embedder="hashing:64", max_tokens=4_000) as memory:
            memory.long_term.indexing.in_background = is_there
            for at, step in enumerate(lots(6 * MOST)):
                memory.add(step.evolve(id=f"s{at}", timestamp=LATER, session=f"day {at // 5}"))
                if is_there and at % 7 == 0:
                    memory.flush()
            context = memory.context("lot 3", now=LATER)
            shown.append([(item.tier, item.step.text) for item in context.items])
            assert "episodes" in {tier for tier, _ in shown[-1]}
    assert shown[0] == shown[1]


def test_what_is_forgotten_while_it_is_summarised_comes_into_no_summary(tmp_path: Path) -> None:
    summarizer = Pondering()
    with open_memory(tmp_path, embedder="hashing:64", summarizer=summarizer) as memory:
        first = memory.add_steps(lots(200))[0]
        assert summarizer.came.wait(600)
        memory.forget([first.id])
        summarizer.gate.set()
        memory.flush()
        episodes = memory.medium_term.known()
        assert episodes and not any("lot 0 holds" in episode.summary for episode in episodes)


def test_two_memories_of_a_namespace_in_one_process_embed_each_step_once(tmp_path: Path) -> None:
    with open_memory(tmp_path, embedder="hashing:64") as one, open_memory(tmp_path, embedder="hashing:64") as other:
        for at in range(0, 200, 5):
            for memory in (one, other):
                memory.add_steps(lots(5, at))
        for memory in (one, other):
            memory.flush()
        assert steps_embedded(one) == steps_embedded(other) == list(range(1, 401))
        spans = [(episode.first, episode.last) for episode in one.medium_term]
        assert spans == [(episode.first, episode.last) for episode in other.medium_term]
        assert len(set(spans)) == len(spans) > 1
    assert doctor(tmp_path).sound
