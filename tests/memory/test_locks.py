"""The lock of a memory: nobody holds it while something is embedded or searched, so an add waits for no recall."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from work import PATIENCE

from tinymem import HierarchicalMemory, MessageStep
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.protocols import Vectors
from tinymem.recall.selection.packing import pack

Call = Callable[[HierarchicalMemory], Any]

FACT = "The staging server is at 10.0.0.7."
QUESTION = "Where is the staging server?"
HISTORY = [{"role": "user", "content": "Good morning."}, {"role": "assistant", "content": "Good morning."}]

READING: dict[str, Call] = {
    "recall": lambda memory: memory.recall(QUESTION).text,
    "context": lambda memory: str(memory.context(QUESTION).messages),
    "tool": lambda memory: memory.tools()[0].call(query=QUESTION),
    "fit": lambda memory: str(memory.fit(HISTORY, session="s2", query=QUESTION).messages),
}


class Gated(HashingEmbedder):
    """An embedder that waits, once it is closed."""

    def __init__(self) -> None:
        super().__init__(64)
        self.waits = ""
        self._begun, self._opened = threading.Event(), threading.Event()

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self._wait("queries")
        return super().embed_queries(texts)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self._wait("documents")
        return super().embed_documents(texts)

    def _wait(self, kind: str) -> None:
        if self.waits == kind:
            self.waits = ""
            self._begun.set()
            assert self._opened.wait(PATIENCE)

    @contextmanager
    def waiting(self, kind: str, call: Callable[[], Any]) -> Iterator[list[Any]]:
        """Make a call in a thread, and run the block while it embeds; the list then has its result."""
        self.waits = kind
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(call()))
        thread.start()
        assert self._begun.wait(PATIENCE), "it embeds"
        try:
            yield results
            assert not results, "it still waits"
        finally:
            self._opened.set()
            thread.join(PATIENCE)


@pytest.fixture
def gated() -> Gated:
    return Gated()


@pytest.fixture
def memory(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> Iterator[HierarchicalMemory]:
    def pack_gated(*given: Any, **more: Any) -> Any:
        gated._wait("packing")
        return pack(*given, **more)

    monkeypatch.setattr("tinymem.recall.search.pack", pack_gated)
    with HierarchicalMemory(embedder=gated, store="exact", max_tokens=2_000) as memory:
        memory.archive([MessageStep("user", FACT, id="fact")])
        yield memory


def in_a_thread(call: Callable[[], Any]) -> Any:
    """Make a call that must not wait for the thread that embeds."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert results, "it waits for a lock"
    return results[0]


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("kind", ["queries", "documents", "packing"])
def test_an_add_does_not_wait_while_another_thread_embeds_or_searches(
    name: str, kind: str, memory: HierarchicalMemory, gated: Gated
) -> None:
    with gated.waiting(kind, lambda: READING[name](memory)) as found:
        added = in_a_thread(lambda: memory.add(MessageStep("user", "Something else.")))
        assert in_a_thread(lambda: memory.get(added.id)) == added
        assert in_a_thread(lambda: memory.stats().steps) >= 2
        assert kind != "packing" or "10.0.0.7" in in_a_thread(lambda: memory.recall(QUESTION).text)
    assert "10.0.0.7" in found[0]
    assert "Something else." in memory.recall("Something else").text


def test_an_add_does_not_wait_for_a_flush(memory: HierarchicalMemory, gated: Gated) -> None:
    with gated.waiting("documents", lambda: memory.flush() or "done") as done:  # type: ignore[func-returns-value]
        in_a_thread(lambda: memory.add(MessageStep("user", "Something else.")))
    assert done == ["done"]


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("kind", ["documents", "queries", "packing"])
def test_what_is_forgotten_while_a_question_is_embedded_or_searched_for_does_not_come_back(
    name: str, kind: str, memory: HierarchicalMemory, gated: Gated
) -> None:
    if kind != "documents":
        memory.recall("Is all embedded?")
    with gated.waiting(kind, lambda: READING[name](memory)) as found:
        assert in_a_thread(lambda: memory.forget("fact")) == 1
    assert found and "10.0.0.7" not in found[0]


def test_two_threads_that_fit_one_session_archive_its_history_once(memory: HierarchicalMemory, gated: Gated) -> None:
    with gated.waiting("queries", lambda: READING["fit"](memory)) as found:
        longer = [*HISTORY, {"role": "user", "content": QUESTION}]
        assert in_a_thread(lambda: memory.fit(longer, session="s2").messages[-1]) == longer[-1]
    assert "Good morning." in found[0] and memory.stats().steps == 1 + 3
    memory.fit(HISTORY, session="s2")
    assert memory.stats().steps == 1 + 3


def test_a_memory_may_be_closed_while_a_question_is_embedded(memory: HierarchicalMemory, gated: Gated) -> None:
    def asked() -> str:
        with pytest.raises(Exception, match="closed") as raised:
            memory.recall(QUESTION)
        return type(raised.value).__name__

    with gated.waiting("queries", asked) as found:
        in_a_thread(lambda: memory.close() or True)  # type: ignore[func-returns-value]
    assert found == ["ClosedError"]
