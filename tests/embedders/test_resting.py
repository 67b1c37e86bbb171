"""An agent whose embedder fails goes on: with the window, with words, and with what is embedded; and it catches up."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from memories import sentences, texts_in
from servers import KEY, OpenAIServer, free_port, openai_server

import tinymem.archive.indexing.indexing
import tinymem.embedders.resting
from tinymem import HierarchicalMemory, MessageStep, TaskStep, semantic_pruning
from tinymem.embedders import HashingEmbedder, OpenAIEmbedder
from tinymem.embedders.resting import LONGEST, LONGEST_SHARE, SHARE, Backoff
from tinymem.errors import EmbedderError, EmbedderMismatchError
from tinymem.protocols import Vectors
from tinymem.recall.search import NOTHING
from tinymem.upkeep import doctor

open_memory = partial(HierarchicalMemory, store="exact", max_tokens=600)

QUERY = "Where is the key of the kumquat locker?"
KEY_TEXT = "The key of the kumquat locker is 4711."


class Unreliable(HashingEmbedder):
    """Fails as long as it is away: with passages, with questions, or with both."""

    away: tuple[str, ...] = ()
    asked = 0

    def _reach(self, what: str) -> None:
        self.asked += 1
        if what in self.away:
            raise ConnectionError("no route to host")

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self._reach("passages")
        return super().embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self._reach("questions")
        return super().embed_documents(texts)


BOTH = ("passages", "questions")


class Port:
    """A port that a server listens on, or nobody does."""

    def __init__(self) -> None:
        self.number = free_port()
        self._running = ExitStack()

    def start(self) -> OpenAIServer:
        return self._running.enter_context(openai_server(self.number))

    def stop(self) -> None:
        self._running.close()


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[Port]:
    port = Port()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port.number}/v1")
    yield port
    port.stop()


def remarks(count: int, seed: int = 0) -> list[MessageStep]:
    return [MessageStep("user", text) for text in sentences(count, seed=seed)]


def best_of(recalled: Any) -> str:
    return str(max(recalled.items, key=lambda item: item.score).text)


# -- a server that is stopped and started -----------------------------------------------------------------------------


@pytest.mark.usefixtures("without_rest")
def test_a_run_goes_on_while_the_server_is_down_and_all_is_embedded_once_it_is_back(
    port: Port, tmp_path: Path, our_log: pytest.LogCaptureFixture
) -> None:
    port.start()
    embedder = OpenAIEmbedder("local-model", max_retries=0, timeout=5)
    with open_memory(tmp_path, embedder=embedder) as memory:
        memory.add_steps([TaskStep("Find the key."), *remarks(80)])
        assert memory.recall(QUERY, 200).note == "" and memory.stats().embedder_state == "ready"
        port.stop()
        memory.add(MessageStep("user", KEY_TEXT))
        for remark in remarks(60, seed=1):
            memory.add(remark)
        context = memory.context(QUERY)
        assert KEY_TEXT in str(context.messages) and 0 < context.tokens <= 600
        assert best_of(memory.recall(QUERY, 200)) == KEY_TEXT
        told = "the embedder fails, so words alone must do; 61 steps wait to be embedded: openai:local-model at "
        told += f"http://127.0.0.1:{port.number}/v1 failed (APIConnectionError"
        for said_so in (context.explain(), memory.recall(QUERY, 200).note, memory.stats().embedder_state):
            assert told in said_so
        assert told in str(memory.explain(QUERY))
        assert memory.stats().waiting_steps == 61
        warnings = [record.getMessage() for record in our_log.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1 and "goes on without vectors" in warnings[0]

        server = port.start()
        found = memory.recall(QUERY, 200)
        assert best_of(found) == KEY_TEXT and found.note == "" == memory.long_term.queue.trouble
        stats = memory.stats()
        assert (stats.waiting_steps, stats.passages, stats.embedder_state) == (0, stats.steps, "ready")
        assert len(server.inputs()) == 61 + 1
        texts = [step.text for step in memory.long_term.fetch(range(stats.steps + 1)).values()]
        assert np.allclose(memory.long_term.current().vectors, HashingEmbedder(64).embed_documents(texts), atol=1e-3)


@pytest.mark.usefixtures("without_rest")
def test_another_model_is_found_out_once_it_can_be_reached(port: Port, tmp_path: Path) -> None:
    port.start()
    with open_memory(tmp_path, embedder=OpenAIEmbedder("text-embedding-3-small")) as memory:
        memory.add(MessageStep("user", KEY_TEXT))
    port.stop()
    with open_memory(tmp_path, embedder=OpenAIEmbedder("local-model", max_retries=0)) as memory:
        assert best_of(memory.recall(QUERY, 100)) == KEY_TEXT
        port.start()
        with pytest.raises(EmbedderMismatchError, match=r"text-embedding-3-small/1536.*local-model/64.*reindex"):
            memory.recall(QUERY, 100)


@pytest.mark.usefixtures("without_rest")
def test_a_new_memory_opens_while_the_server_is_down_and_learns_of_it_later(port: Port, tmp_path: Path) -> None:
    for turn in (1, 2):  # and is opened again before anybody could reach it
        with open_memory(tmp_path, embedder=OpenAIEmbedder("local-model", max_retries=0)) as memory:
            memory.add_steps([MessageStep("user", KEY_TEXT), *remarks(5)])
            found = memory.recall(QUERY, 100)
            assert best_of(found) == KEY_TEXT and "APIConnectionError" in found.note
            assert memory.stats().waiting_steps == 6 * turn
    assert doctor(tmp_path).sound
    port.start()
    with open_memory(tmp_path, embedder=OpenAIEmbedder("local-model", max_retries=0)) as memory:
        assert best_of(memory.recall(QUERY, 100)) == KEY_TEXT
        assert memory.long_term.current().vectors.shape == (12, 64)
    with pytest.raises(EmbedderMismatchError, match=r"local-model/64.*hashing"):
        open_memory(tmp_path, embedder="hashing:64")
    port.stop()
    with open_memory(embedder=OpenAIEmbedder("local-model", max_retries=0)) as memory:
        memory.add(MessageStep("user", KEY_TEXT))
        assert best_of(memory.recall(QUERY, 100)) == KEY_TEXT


def test_a_new_memory_does_not_open_with_an_embedder_that_is_no_good(port: Port, tmp_path: Path) -> None:
    port.start()
    with pytest.raises(EmbedderError, match="HTTP 404"):
        open_memory(tmp_path / "new", embedder=OpenAIEmbedder("tpyo", max_retries=0))
    assert not [*(tmp_path / "new").rglob("journal.db*")]


# -- what is found while it is away -----------------------------------------------------------------------------------


# -- rest -------------------------------------------------------------------------------------------------------------


def test_questions_do_not_pay_for_an_embedder_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(tinymem.embedders.resting, "time", SimpleNamespace(monotonic=lambda: clock.now))
    embedder = Unreliable(64)
    with open_memory(tmp_path, embedder=embedder) as memory:
        embedder.away = BOTH
        for remark in remarks(40):
            memory.add(remark)
            memory.context(QUERY)
            memory.recall(QUERY, 100)
        assert embedder.asked == 2, "once with passages, once with a question"
        clock.now += 1.1
        memory.context(QUERY)
        assert embedder.asked == 4
        memory.context(QUERY)
        embedder.away = ()
        clock.now += 1.1
        assert memory.recall(QUERY, 100).note, "the second pause is longer"
        assert embedder.asked == 4
        clock.now += 1.1
        assert memory.recall(QUERY, 100).note == NOTHING and memory.stats().waiting_steps == 0


# -- adding -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_rest")
def test_adding_never_raises_for_an_embedder_be_it_that_of_the_strategy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, our_log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "WAITING", 100)
    mine, of_strategy = Unreliable(64), Unreliable(64)
    strategy = semantic_pruning(of_strategy, max_tokens=300)
    with open_memory(tmp_path, embedder=mine, prune_strategy=strategy, window_tokens=300) as memory:
        memory.add_steps(remarks(40))
        mine.away = of_strategy.away = BOTH
        for remark in remarks(80, seed=2):
            memory.add(remark)
        assert 0 < len(memory.short_term.steps) < 40, "the window is kept within its tokens"
        assert our_log.text.count("the window is pruned by tokens alone") == 1
        mine.away = of_strategy.away = ()
        memory.add_steps(remarks(10, seed=3))
        assert memory.recall("x", 100).note == NOTHING
        assert memory.stats().steps == 130 == memory.stats().passages


def test_what_fails_is_left_alone_for_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(tinymem.embedders.resting, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def pause(rest: Backoff, took: float) -> float:
        def failing() -> None:
            with rest.trying():
                clock.now += took
                raise EmbedderError("no route")

        with pytest.raises(EmbedderError):
            failing()
        begun = clock.now
        while rest.is_on:
            clock.now += 0.25
        return float(clock.now - begun)

    rest = Backoff()
    assert [pause(rest, 0.0) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60] and rest.problem == "no route"
    assert pause(rest, 5.0) == SHARE * 5.0 and pause(rest, 120.0) == LONGEST_SHARE > LONGEST
    with rest.trying():
        pass
    assert rest.problem == "" and not rest.is_on and pause(rest, 0.0) == 1, "from the beginning"


@pytest.mark.usefixtures("without_rest")
def test_what_waits_can_be_forgotten(tmp_path: Path) -> None:
    embedder = Unreliable(64)
    with open_memory(tmp_path, embedder=embedder) as memory:
        memory.add_steps(remarks(20))
        memory.recall("x", 50)
        embedder.away = BOTH
        memory.add(MessageStep("user", "zyxqvortex is the word", session="secret"))
        memory.add(MessageStep("user", KEY_TEXT))
        assert "zyxqvortex" in memory.recall("zyxqvortex", 100).text
        assert memory.forget(session="secret") == 1
        assert "zyxqvortex" not in memory.recall("zyxqvortex", 100).text
        assert best_of(memory.recall(QUERY, 100)) == KEY_TEXT
        assert not texts_in(tmp_path, b"zyxqvortex")[b"zyxqvortex"]
        embedder.away = ()
        assert best_of(memory.recall(QUERY, 100)) == KEY_TEXT
        assert memory.stats().passages == 21
