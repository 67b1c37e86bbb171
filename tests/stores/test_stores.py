"""The vector stores: each passes the public contract; what is special to one is below."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from commands import child_environment
from contract import STORE_CHECKS, check_persistence, unit_vectors
from servers import ChromaServer

from tinymem.errors import ClosedError, InputError, StorageError
from tinymem.protocols import VectorStore
from tinymem.registry import store_from
from tinymem.stores import ChromaStore

OpenStore = Callable[[], VectorStore]
PLAIN = Settings(anonymized_telemetry=False)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Chroma server on the loopback interface."""
    with ChromaServer(tmp_path_factory.mktemp("server")) as started:
        yield started.url


KINDS = ["chroma", "chroma on disk", pytest.param("chroma server", marks=pytest.mark.slow)]


@pytest.fixture(params=KINDS)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    if request.param == "chroma":
        return lambda: store_from("chroma", tmp_path / "chroma")
    if request.param == "chroma server":
        url = request.getfixturevalue("server")
        return lambda: ChromaStore.from_name(url, tmp_path)
    return lambda: ChromaStore(tmp_path / "chroma")


@pytest.fixture
def store(open_store: OpenStore) -> Iterator[VectorStore]:
    opened = open_store()
    yield opened
    opened.close()


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
def test_store_keeps_the_contract(open_store: OpenStore, check: Callable[[OpenStore], None]) -> None:
    check(open_store)


def test_vectors_outlive_the_store(open_store: OpenStore) -> None:
    check_persistence(open_store)


def test_wrong_shapes_and_numbers_are_input_errors_that_change_nothing(store: VectorStore) -> None:
    vectors = unit_vectors(2)
    store.upsert([1, 2], vectors)
    for ids, wrong in [
        ([3], vectors),
        ([3], vectors[0]),
        ([3, 4], vectors[:, :5]),
        ([3, 4], np.full_like(vectors, np.nan)),
    ]:
        with pytest.raises(InputError):
            store.upsert(ids, wrong)
    for query in (vectors, vectors[0, :5], np.full_like(vectors[0], np.inf)):
        with pytest.raises(InputError):
            store.query(query, 1)
    assert store.count() == 2


def test_a_closed_store_says_that_it_is_closed(open_store: OpenStore) -> None:
    store = open_store()
    store.close()
    for call in (store.count, store.clear, lambda: store.query(unit_vectors(1)[0], 1), lambda: store.delete([1])):
        with pytest.raises(ClosedError):
            call()


# chroma


def test_chroma_makes_a_cosine_index_that_misses_little(tmp_path: Path) -> None:
    store = ChromaStore(tmp_path)
    vectors = unit_vectors(1_500, 32)
    store.upsert(range(1_500), vectors)
    assert all(store.query(vectors[key], 1)[0].tolist() == [key] for key in range(0, 1_500, 50))
    store.close()


@pytest.mark.slow
def test_chroma_takes_more_vectors_than_fit_in_one_of_its_batches(tmp_path: Path) -> None:
    store = ChromaStore(tmp_path)
    assert store._get_client().get_max_batch_size() < 6_000
    store.upsert(range(6_000), unit_vectors(6_000, 4))
    assert store.count() == 6_000
    store.delete(range(5_999))
    assert store.count() == 1
    store.close()


def test_chroma_folder_that_is_open_in_this_process_is_refused(tmp_path: Path) -> None:
    store = ChromaStore(tmp_path)
    with pytest.raises(StorageError, match="chroma run"):
        ChromaStore(tmp_path)
    store.upsert([1], unit_vectors(1))
    store.close()
    again = ChromaStore(tmp_path)
    assert again.count() == 1
    again.close()


@pytest.mark.slow
def test_chroma_folder_that_is_open_in_another_process_is_refused_at_once(tmp_path: Path) -> None:
    program = "import sys, tinymem.stores as t; store = t.ChromaStore(sys.argv[1]); print(1, flush=True); input()"
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin and other.stdout and other.stdout.readline() == b"1\n"
        with pytest.raises(StorageError, match="another process"):  # while that lives
            ChromaStore(tmp_path)
        other.kill()  # the lock goes with the process
    ChromaStore(tmp_path).close()


@pytest.mark.parametrize("metadata", [None, {"tinymem": 2}])
def test_chroma_refuses_a_collection_that_is_not_its_own(tmp_path: Path, metadata: dict[str, Any] | None) -> None:
    foreign("tinymem", tmp_path, {"hnsw": {"space": "cosine"}}, metadata)
    with pytest.raises(StorageError, match="not made by tinymem"):
        ChromaStore(tmp_path)


def test_clearing_spares_other_collections_in_the_folder(tmp_path: Path) -> None:
    foreign("theirs", tmp_path, {"hnsw": {"space": "l2"}})
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    store = ChromaStore(tmp_path)
    store.upsert([1], unit_vectors(1))
    store.clear()
    assert store.count() == 0
    assert store._get_client().get_collection("theirs", embedding_function=None).count() == 1
    assert (tmp_path / "notes.txt").read_text("utf-8") == "mine"
    store.close()


def test_damaged_chroma_files_are_a_storage_error_and_release_the_folder(tmp_path: Path) -> None:
    (tmp_path / "chroma.sqlite3").write_bytes(b"not a database" * 500)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"could not open .*rebuilt from the journal"):
            ChromaStore(tmp_path)


def test_chroma_files_are_removed_unread_and_nothing_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinymem.stores.chroma.store.ENDING", 0.1)
    ChromaStore.erase("", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    store = ChromaStore(tmp_path)
    store.upsert(range(1_500), np.random.default_rng(1).normal(size=(1_500, 8)).astype(np.float32))
    with pytest.raises(StorageError, match="another store"):
        ChromaStore.erase("", tmp_path)
    assert store.count() == 1_500
    store.close()
    (tmp_path / "chroma.sqlite3").write_bytes(b"garbage")
    (tmp_path / "mine.txt").write_text("mine", "utf-8")
    ChromaStore.erase("", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock") == ["mine.txt"]
    store = ChromaStore(tmp_path)
    assert store.count() == 0
    store.close()


@pytest.mark.slow
def test_a_server_gets_the_token_of_the_environment(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMA_CLIENT_AUTH_PROVIDER", "chromadb.auth.token_authn.TokenAuthClientProvider")
    monkeypatch.setenv("CHROMA_CLIENT_AUTH_CREDENTIALS", "sk-loopback")
    store = ChromaStore.from_name(server, tmp_path)
    sent: Any = store._get_client()
    assert sent._server._session.headers["Authorization"] == "Bearer sk-loopback"
    store.close()


@pytest.mark.parametrize("argument", ["localhost:8000", "http://host/path"])
def test_what_is_no_server_is_an_input_error(argument: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="http://localhost:8000"):
        ChromaStore.from_name(argument, tmp_path)


def foreign(title: str, folder: Path, configuration: Any, metadata: dict[str, Any] | None = None) -> None:
    """A collection made by somebody else, with one vector under the id 1."""
    client: Any = chromadb.PersistentClient(str(folder), settings=PLAIN)
    made = client.create_collection(title, configuration=configuration, metadata=metadata, embedding_function=None)
    made.add(ids=["1"], embeddings=unit_vectors(1))
    client.close()
