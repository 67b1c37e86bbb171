"""A memory whose index is in a Chroma server: a real one, which is stopped, frozen and started again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.config import Settings
from contract import unit_vectors
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


def client_of(server: ChromaServer) -> Any:
    return chromadb.HttpClient("127.0.0.1", server.port, settings=plain())


@pytest.mark.slow
def test_a_memory_lives_through_restarts_of_its_server(server: ChromaServer, tmp_path: Path) -> None:
    with opened(tmp_path, f"chroma:{server.url}") as memory:
        fill(memory)
        first = answer_of(memory)
        assert count(memory) == memory.stats().passages == 121
        client = client_of(server)
        assert [held.count() for held in client.list_collections()] == [121]
        chroma_server.disconnect(client)

        server.stop()
        assert answer_of(memory) == first  # from the journal

        server.start()
        assert answer_of(memory) == first
        memory.add_messages([{"role": "user", "content": "One more."}])
        last = answer_of(memory)
        catch_up(memory)
        assert count(memory) == 122
        assert answer_of(memory) == last
        server.stop()  # and closed without a server
    server.start()
    with opened(tmp_path, f"chroma:{server.url}") as memory:
        assert answer_of(memory) == last
        assert count(memory) == 122


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
def test_a_server_that_lost_its_data_is_filled_again(server: ChromaServer, tmp_path: Path) -> None:
    with opened(tmp_path, f"chroma:{server.url}") as memory:
        fill(memory)
        first = answer_of(memory)
        server.stop()
        shutil.rmtree(server.folder)
        server.start()
        assert answer_of(memory) == first
    with opened(tmp_path, f"chroma:{server.url}") as memory:
        assert answer_of(memory) == first
        memory.flush()
        assert count(memory) == 121
        assert answer_of(memory) == first


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


@pytest.mark.slow
def test_a_collection_of_somebody_else_is_refused_and_stays_as_it_was(server: ChromaServer, tmp_path: Path) -> None:
    client = client_of(server)
    title = f"tinymem-{'0' * 32}"
    theirs = client.create_collection(
        title, configuration={"hnsw": {"space": "cosine"}}, metadata={"owner": "them"}, embedding_function=None
    )
    theirs.add(ids=["1", "2"], embeddings=unit_vectors(2, 256))
    before = theirs.get(include=["embeddings"])["embeddings"].tolist()
    (tmp_path / "collection.txt").write_text(title, "utf-8")
    with pytest.raises(StorageError, match=f"'{title}' was not made by tinymem"):
        ChromaStore(tmp_path, server.url)
    with opened(tmp_path, f"chroma:{server.url}") as memory:  # on the same server, under a name of its own
        fill(memory)
        memory.forget(ids=[memory.get(1).id])
        memory.flush()
        assert count(memory) == 120
    assert theirs.get(include=["embeddings"])["embeddings"].tolist() == before
    assert client.get_collection(title, embedding_function=None).metadata == {"owner": "them"}
    chroma_server.disconnect(client)


def test_a_foreign_collection_in_the_memorys_folder_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path, "chroma") as memory:
        folder = memory.long_term.folder / "index"
    client: Any = chromadb.PersistentClient(str(folder), settings=plain())
    theirs = client.create_collection("tinymem", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None)
    theirs.add(ids=["1"], embeddings=unit_vectors(1))
    client.close()
    with opened(tmp_path, "chroma") as memory:
        fill(memory)
        answer_of(memory)  # from the journal
        with pytest.raises(StorageError, match="not made by tinymem"):
            memory.flush()
        memory.forget(ids=[memory.get(1).id])
    client = chromadb.PersistentClient(str(folder), settings=plain())
    assert client.get_collection("tinymem", embedding_function=None).get()["ids"] == ["1"]
    client.close()
