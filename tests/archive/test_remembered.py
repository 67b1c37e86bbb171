"""A memory opens with the embedder that it remembers: whoever opens it, and after a reindex too."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import openai
import pytest
from memories import texts_in
from servers import KEY, OpenAIServer, openai_server

from tinymem import ConversationMemory, HierarchicalMemory, Memories, MessageStep
from tinymem.embedders import HashingEmbedder, OpenAIEmbedder
from tinymem.errors import EmbedderError, EmbedderMismatchError, InputError
from tinymem.protocols.settings import EMBEDDER_NAME
from tinymem.upkeep import export_memory, import_memory

TEXT = "The staging server is at 10.0.0.7."


class Mine(HashingEmbedder):
    """An embedder that no name makes."""

    @property
    def name(self) -> str:
        return "mine:7"

    @property
    def fingerprint(self) -> str:
        return "mine/7"


def written(path: Path, embedder: object, **options: object) -> Path:
    with HierarchicalMemory(path, embedder=embedder, store="exact", **options) as memory:  # type: ignore[arg-type]
        memory.add(MessageStep("user", TEXT))
    return path


def opened_with(path: Path, **options: object) -> str:
    """The embedder that it opens with when none is given; recall works with it."""
    with HierarchicalMemory(path, store="exact", create=False, **options) as memory:  # type: ignore[arg-type]
        found = memory.recall("staging", 100)
        assert "10.0.0.7" in found.text and found.note == ""
        return memory.stats().embedder


def test_a_new_memory_has_the_static_embedder_and_another_the_one_it_was_written_with(tmp_path: Path) -> None:
    assert opened_with(written(tmp_path / "new", None)) == "static"
    assert opened_with(written(tmp_path / "old", "hashing:64")) == "hashing:64"
    with pytest.raises(EmbedderMismatchError, match=r"and static/.* was given.*tinymem reindex --embedder static"):
        written(tmp_path / "old", "static")


def test_each_namespace_remembers_its_own(tmp_path: Path) -> None:
    for namespace, embedder in {"ann": "hashing:64", "bob": "hashing:32", "cid": "hashing:64"}.items():
        written(tmp_path, embedder, namespace=namespace)
    with Memories(tmp_path, store="exact") as memories:
        embedders = []
        for namespace in ("ann", "bob", "cid", "new"):
            with memories.open(namespace) as memory:
                embedders.append(memory.long_term.queue.embedder)
    assert [one.name for one in embedders] == ["hashing:64", "hashing:32", "hashing:64", "static"]
    assert embedders[0] is embedders[2]


def test_a_conversation_and_an_import_open_with_it_too(tmp_path: Path) -> None:
    with ConversationMemory(tmp_path, embedder="hashing:64", store="exact") as conversation:
        conversation.add_message("user", TEXT)
    with ConversationMemory(tmp_path, store="exact") as conversation:
        assert conversation.memory.stats().embedder == "hashing:64" and len(conversation) == 1
    export_memory(tmp_path, tmp_path / "all.jsonl", namespace="conversation")
    import_memory(tmp_path, tmp_path / "all.jsonl", namespace="new")
    assert opened_with(tmp_path, namespace="new") == "static", "a file does not decide where texts are sent"


def test_what_no_name_makes_must_be_passed(tmp_path: Path) -> None:
    written(tmp_path, Mine(64))
    with pytest.raises(InputError, match=r"remembers its embedder as 'mine:7'.*no embedder 'mine'.*pass embedder="):
        HierarchicalMemory(tmp_path)
    written(tmp_path / "other", HashingEmbedder(64))
    with sqlite3.connect(tmp_path / "other" / "default" / "journal.db") as db:
        db.execute("UPDATE meta SET value = 'hashing:32' WHERE key = 'embedder_name'")
    db.close()
    with pytest.raises(EmbedderMismatchError, match=r"remembers by the name hashing:32.*hashing/crc32/32/1 is what"):
        HierarchicalMemory(tmp_path / "other")


# -- OpenAI: where texts and the key are sent, no file decides --------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with openai_server() as server:
        yield server


def test_an_address_of_the_environment_is_used_again(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert opened_with(written(tmp_path, "openai:local-model")) == "openai:local-model"
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EmbedderError, match=r"as 'openai:local-model': .*set OPENAI_API_KEY.*pass embedder="):
        HierarchicalMemory(tmp_path)


def test_an_address_that_was_given_in_code_must_be_given_again(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = OpenAIEmbedder("local-model", base_url=server.url)
    with openai.OpenAI(base_url=f"{server.url}/") as client:
        assert OpenAIEmbedder("local-model", client=client).name == given.name == f"openai:local-model@{server.url}"
    written(tmp_path, given)
    asked = len(server.requests)
    with pytest.raises(InputError, match=rf"went to {server.url}, and would now go to https://api.openai.com/v1: set"):
        HierarchicalMemory(tmp_path)
    assert len(server.requests) == asked
    with HierarchicalMemory(tmp_path, embedder=given, store="exact") as memory:
        assert "10.0.0.7" in memory.recall("staging").text
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert opened_with(tmp_path) == "openai:local-model"
    assert OpenAIEmbedder.from_name("@cf/a-model-of-its-own").name == "openai:@cf/a-model-of-its-own"


def test_a_password_in_an_address_is_not_kept(server: OpenAIServer, tmp_path: Path) -> None:
    url = server.url.replace("//", "//user:hush@")
    written(tmp_path, OpenAIEmbedder(base_url=url, api_key=KEY, max_retries=0))
    assert not any(texts_in(tmp_path, b"hush", KEY.encode()).values())
    with HierarchicalMemory(tmp_path, embedder=OpenAIEmbedder(base_url=server.url)) as memory:
        kept = memory.long_term.journal.setting(EMBEDDER_NAME)
        assert kept == f"openai:text-embedding-3-small@{server.url}"
