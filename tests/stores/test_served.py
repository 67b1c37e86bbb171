"""A memory whose index is in a Chroma server: a real one, which is stopped, frozen and started again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from chromadb.config import Settings
from memories import sentences
from servers import ChromaServer

from tinymem import HierarchicalMemory
from tinymem.errors import StorageError
from tinymem.stores import ChromaStore
from tinymem.stores.chroma import server as chroma_server

NEEDLE = "The staging server is at 10.0.0.7, mind the firewall."
QUESTION = "Where is the staging server?"


def plain() -> Settings:
    """Chroma's clients write into the settings they are given."""
    return Settings(anonymized_telemetry=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ChromaServer]:
    with ChromaServer(tmp_path / "server") as started:
        yield started


def opened(path: Path, store: Any) -> HierarchicalMemory:
    """A memory that asks its index, however little is in it."""
    memory = HierarchicalMemory(path / "memory", store=store, embedder="hashing", window_tokens=300)
    return memory


def fill(memory: HierarchicalMemory, seed: int = 0) -> None:
    """121 messages, of a passage each; the index gets them too, if it can be reached."""
    texts = sentences(120, seed=seed)
    memory.add_messages([{"role": "user", "content": text} for text in [*texts[:60], NEEDLE, *texts[60:]]])
    catch_up(memory)


def catch_up(memory: HierarchicalMemory) -> None:
    memory.long_term.queue.embed_pending()
    with suppress(StorageError):
        memory.long_term.index.follow()


def count(memory: HierarchicalMemory) -> int:
    """What the server holds."""
    with closing(ChromaStore(memory.long_term.folder / "index", memory.stats().store.partition(":")[2])) as store:
        return store.count()


def answer_of(memory: HierarchicalMemory) -> str:
    text = memory.recall(QUESTION, max_tokens=200).text
    assert "10.0.0.7" in text
    return text


@pytest.mark.slow
def test_a_memory_opens_grows_and_closes_without_its_server(tmp_path: Path, server: ChromaServer) -> None:
    server.stop()
    with opened(tmp_path, f"chroma:{server.url}") as memory:
        fill(memory)
        first = answer_of(memory)
        extra = memory.add_messages([{"role": "user", "content": "Never mind."}])[0]
        memory.forget(ids=[extra.id])  # of which the server knows nothing
        with pytest.raises(StorageError, match="could not reach"):
            memory.flush()
        assert memory.stats().unindexed_passages == 121
    server.start()
    with opened(tmp_path, f"chroma:{server.url}") as memory:
        memory.flush()
        assert answer_of(memory) == first
        assert count(memory) == 121  # what the server missed has reached it
        server.stop()
        with pytest.raises(StorageError, match=r"the index still has their vectors.*could not (clear|reach)"):
            memory.forget(ids=[memory.get(1).id])
        assert "10.0.0.7" in answer_of(memory)
    with opened(tmp_path, f"chroma:{server.url}") as memory:
        with pytest.raises(StorageError, match=f"could not reach {server.url}.*refused"):
            memory.forget(ids=[memory.get(2).id])
        assert "10.0.0.7" in answer_of(memory)
    server.start()
    with opened(tmp_path, f"chroma:{server.url}") as memory:
        memory.flush()
        assert count(memory) == 119


@pytest.mark.slow
def test_no_question_waits_for_a_server_that_hangs(
    server: ChromaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chroma_server, "ANSWERS_WITHIN", 0.3)
    with opened(tmp_path, f"chroma:{server.url}") as memory:
        fill(memory)
        first = answer_of(memory)
        with server.frozen():
            assert answer_of(memory) == first
            with pytest.raises(StorageError, match="could not reach"):
                ChromaStore.from_name(server.url, tmp_path / "other")
        assert answer_of(memory) == first
