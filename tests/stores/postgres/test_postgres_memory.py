"""A memory at the address of a database: the same as in a folder, shared by hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres_server import ESCAPED, PASSWORD, PostgresServer
from wire import Wire

from tinymem import ActionStep, HierarchicalMemory, Memories, MessageStep, TaskStep
from tinymem.errors import EmbedderMismatchError, InputError, NotAMemoryError, StorageError
from tinymem.stores.chroma.store import ChromaStore
from tinymem.upkeep import doctor, export_memory, import_memory, rebuild, reindex
from tinymem.upkeep.forgetting import forget_namespace

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")
Open = Callable[..., HierarchicalMemory]

# A host: it keeps what is derived in a home of its own, and does what it reads, a line each.


@pytest.fixture
def open_memory(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens a memory in the database; closed at the end of the test."""
    monkeypatch.setenv("TINYMEM_CACHE", str(tmp_path / "cache"))
    opened: list[HierarchicalMemory] = []

    def opener(url: str = "", **more: Any) -> HierarchicalMemory:
        opened.append(HierarchicalMemory(url or postgres.url(), namespace=more.pop("namespace", tmp_path.name), **more))
        return opened[-1]

    yield opener
    for memory in opened:
        memory.close()


def alone(memory: HierarchicalMemory) -> HierarchicalMemory:
    """Return a memory that nothing but its caller's thread works for: what the background asks is counted as well."""
    memory.long_term.indexing.in_background = False
    memory.long_term.indexing._background.end()
    return memory


def filled(memory: HierarchicalMemory) -> HierarchicalMemory:
    memory.add(TaskStep(task="Ship version 2.4", id="task"))
    for at in range(60):
        text = f"Attempt {at}: the build of module number {at} failed on Windows because of a lock. " * 3
        memory.add(ActionStep(thought=text, tool_name="bash", tool_args={"cmd": f"build {at}"}, observation="exit 1",
                              id=f"step-{at}", timestamp=1_700_000_000 + at))  # fmt: skip
    memory.add(MessageStep("user", "The staging server is at 10.0.0.7.", id="staging", session="s1"))
    memory.flush()
    return memory


def test_the_same_comes_back_as_from_a_folder(open_memory: Open, tmp_path: Path) -> None:
    shared = filled(open_memory(window_tokens=500))
    with filled(HierarchicalMemory(tmp_path / "folder", window_tokens=500, store="exact")) as local:
        assert [step.id for step in shared.history()] == [step.id for step in local.history()]
        assert [step.id for step in shared.steps] == [step.id for step in local.steps]
        for query in ("Where is staging?", "Which module failed?", "build 17", "lock on Windows"):
            found, expected = (memory.recall(query, max_tokens=600) for memory in (shared, local))
            assert [item.step.id for item in found.items] == [item.step.id for item in expected.items], query
            scores = [[item.score for item in each.items] for each in (found, expected)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-5)
        left, right = (memory.stats() for memory in (shared, local))
        assert (left.steps, left.passages, left.archived_steps) == (right.steps, right.passages, right.archived_steps)
        assert left.bytes_on_disk > 10_000
        for memory in (shared, local):
            memory.export(tmp_path / f"{memory is shared}.jsonl")


def test_what_is_forgotten_does_not_come_back(open_memory: Open) -> None:
    memory, other = filled(open_memory(window_tokens=500)), open_memory()
    assert "10.0.0.7" in other.recall("Where is staging?", max_tokens=300).text
    assert memory.forget(session="s1") == 1
    assert "10.0.0.7" not in other.recall("Where is staging?", max_tokens=300).text
    assert "staging" not in [step.id for step in other.history()]


def test_an_add_takes_three_round_trips(open_memory: Open, wire: Wire, wired: str) -> None:
    memory = alone(open_memory(wired))
    memory.add(MessageStep("user", "first"))
    before = wire.round_trips
    memory.add(MessageStep("user", "another"))
    assert wire.round_trips - before == 3
    memory.close()  # before the wire


def test_a_recall_takes_few_round_trips(open_memory: Open, wire: Wire, wired: str) -> None:
    memory, other = filled(alone(open_memory(wired, window_tokens=500))), alone(open_memory())

    def taken(**more: Any) -> int:
        before = wire.round_trips
        assert memory.recall("Which module failed on Windows?", max_tokens=600, **more).items
        return wire.round_trips - before

    memory.recall("what", max_tokens=100)
    assert taken() <= 7  # of which one reads what may be a request in the same words,
    assert taken(type="action") <= 7
    assert taken(since=1_700_000_000) <= 8
    other.add(MessageStep("user", "Module 77 failed on Windows, too."))
    other.flush()
    assert taken() <= 9
    memory.context("Which module failed?", max_tokens=2_000)  # reads what the other has added to the window
    before = wire.round_trips
    memory.context("Which module failed?", max_tokens=2_000)
    assert wire.round_trips - before <= 12
    memory.close()  # before the wire


def test_two_hosts_share_a_memory(open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = open_memory()
    monkeypatch.setenv("TINYMEM_CACHE", str(tmp_path / "of another host"))
    other = open_memory()
    texts = ["The staging server is at 10.0.0.7.", "The deploy key is in the vault.", "The budget is 40 days."]
    for number, (memory, text) in enumerate(zip((one, other, one), texts, strict=True), 1):
        assert memory.add(MessageStep("user", text)).step_number == number
    assert "40 days" in other.recall("How large is the budget?", max_tokens=200).text
    assert [step.text for step in other.steps] == [step.text for step in one.steps] == texts
    assert not [*tmp_path.rglob("journal.db")]


def test_a_memory_in_a_database_remembers_its_embedder(open_memory: Open) -> None:
    open_memory(embedder="hashing:64").add(MessageStep("user", "hello"))
    assert open_memory().stats().embedder == "hashing:64"
    with pytest.raises(EmbedderMismatchError):
        open_memory(embedder="hashing:32")


def test_a_store_with_files_is_refused(open_memory: Open, tmp_path: Path) -> None:
    for store in ("chroma:http://localhost:1", ChromaStore(tmp_path / "chroma")):
        with pytest.raises(InputError, match="leave store= out"):
            open_memory(store=store)
    open_memory(store="exact")


def test_no_password_is_shown(open_memory: Open, postgres: PostgresServer, tmp_path: Path) -> None:
    shown = repr(open_memory())
    assert f"postgresql://tinymem@127.0.0.1:{postgres.port}/postgres" in shown
    with pytest.raises(StorageError) as wrong:
        open_memory(postgres.url("nothing"))
    shown_too = [shown, str(wrong.value), repr(Memories(postgres.url()))]
    assert not [text for text in shown_too if PASSWORD in text or ESCAPED in text]


def test_upkeep_works_on_a_database(open_memory: Open, postgres: PostgresServer, tmp_path: Path) -> None:
    url, name = postgres.url(), tmp_path.name
    with filled(HierarchicalMemory(url, namespace=name, window_tokens=500)) as memory:
        steps = memory.stats().steps
    exported = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    assert export_memory(url, exported[0], namespace=name).steps == steps
    assert import_memory(url, exported[0], namespace=f"{name} copy").steps == steps
    export_memory(url, exported[1], namespace=f"{name} copy")
    assert exported[0].read_bytes() == exported[1].read_bytes()
    with pytest.raises(InputError, match="is in use"):
        import_memory(url, exported[0], namespace=name)
    found = doctor(url, name)
    assert (found.findings, found.counts["steps"], found.counts["dimensions"]) == ((), steps, 256)
    done = reindex(url, "hashing:64", namespace=name)
    assert done.embedded == done.passages
    assert open_memory(embedder="hashing:64").recall("Where is staging?", max_tokens=300).items
    with psycopg.connect(url) as db:
        db.execute(
            "DELETE FROM tinymem.terms USING tinymem.namespaces n WHERE namespace = n.id AND n.name = %s", (name,)
        )
    assert not doctor(url, name).sound
    assert rebuild(url, name) == 0
    assert doctor(url, name).sound
    forget_namespace(url, f"{name} copy")
    with pytest.raises(NotAMemoryError):
        export_memory(url, exported[1], namespace=f"{name} copy")
