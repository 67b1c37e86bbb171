"""The background thread that embeds, summarises and fills the index: slow, failing, left alone, and with others."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memories import LATER, python

import tinymem.archive.embedding
import tinymem.archive.indexing.indexing
from tinymem import ActionStep, FinalAnswerStep, HierarchicalMemory, MessageStep, Step
from tinymem.archive.episodes import MOST
from tinymem.archive.indexing.indexing import Indexing
from tinymem.archive.indexing.mirror import hold_folder
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import EmbedderError, StorageError
from tinymem.memory import Shares
from tinymem.protocols import Vectors
from tinymem.upkeep import doctor

open_memory = partial(HierarchicalMemory, embedder="hashing:64", max_tokens=400)
open_exact = partial(HierarchicalMemory, store="exact", max_tokens=400, shares=Shares(episodes=0.05))


def lots(count: int, first: int = 0, **more: Any) -> list[MessageStep]:
    return [MessageStep("user", f"lot {at} holds {at * 7} crates", **more) for at in range(first, first + count)]


@pytest.fixture
def little_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The background begins early, and makes small pieces."""
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "WAITING", 200)
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "IDLE", 0.01)
    monkeypatch.setattr(tinymem.archive.embedding, "BATCH", 8)


def collection_in(folder: Path) -> Any:
    """The collection of a memory that is closed, as chromadb alone sees it."""
    import chromadb
    from chromadb.config import Settings

    with hold_folder(folder, 600):  # once the process of the index has let go of it
        pass
    client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
    return client.get_collection("tinymem", embedding_function=None)


# what Chroma holds


def test_what_was_archived_is_in_chroma_with_metadata_to_filter_by(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.add_steps(lots(200, session="s1", speaker="Ann"))
        steps = [ActionStep("Look.", tool_name="look", observation="Nothing."), FinalAnswerStep("Done.")]
        seen, done = memory.add_steps(steps)
        memory.add_steps(lots(30, 300))
        memory.flush()
        stats = memory.stats()
        assert (stats.indexed_passages, stats.unindexed_passages, stats.store_state) == (stats.passages, 0, "ready")
        kept = {row.id: row for row in memory.long_term.journal.passages()}
    kept_there = collection_in(tmp_path / "default" / "index")
    assert kept_there.count() == len(kept) == stats.passages >= 232
    ann = kept_there.get(where={"$and": [{"session": "s1"}, {"speaker": "Ann"}]})
    assert len(ann["ids"]) == 200
    assert {entry["type"] for entry in ann["metadatas"]} == {"message"}
    assert {entry["step"] for entry in kept_there.get(where={"tool": "look"})["metadatas"]} == {seen.step_number}
    final = kept_there.get(where={"type": "final_answer"})["metadatas"]
    assert {entry["step"] for entry in final} == {done.step_number}
    late = kept_there.get(where={"time": {"$gt": done.timestamp.timestamp()}})
    assert len(late["ids"]) == 30
    assert kept_there.get()["documents"] in (None, [None] * len(kept)), "texts stand in the journal alone"
    vector = kept_there.get(["7"], include=["embeddings"])["embeddings"]
    assert kept_there.query(vector, n_results=1)["ids"] == [["7"]]


# the thread


def test_the_background_indexes_what_nobody_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "IDLE", 0.01)
    work, is_done = Indexing.work, threading.Event()

    def watched(indexing: Indexing) -> float | None:
        delay = work(indexing)
        if memory.long_term.journal.counts()["waiting_steps"] == 0 and not memory.long_term.index.lacks:
            is_done.set()
        return delay

    monkeypatch.setattr(Indexing, "work", watched)
    with open_memory(tmp_path) as memory:
        memory.add_steps(lots(120))
        assert is_done.wait(600)
        stats = memory.stats()
        assert (stats.waiting_steps, stats.indexed_passages) == (0, stats.passages)


@pytest.mark.slow
def test_why_the_store_cannot_be_written_is_in_stats_and_doctor_and_forgotten_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "default" / "index" / "chroma.sqlite3"
    with open_memory(tmp_path) as memory:
        database.mkdir(parents=True)
        memory.add_steps(lots(1_200))
        with pytest.raises(StorageError, match="Chroma could not open"):
            memory.flush()
        assert "Chroma could not open" in memory.stats().store_state
        assert memory.stats().unindexed_passages == memory.stats().passages
        assert memory.recall("lot 7 holds", 100).items
        assert "Chroma could not open" in str(doctor(tmp_path).findings)
        database.rmdir()
        memory.flush()
        assert memory.stats().store_state == "ready"
    assert doctor(tmp_path).sound


# processes

WORKING = """
import sys, tinymem.archive.indexing.indexing
from tinymem import HierarchicalMemory, MessageStep
tinymem.archive.indexing.indexing.IDLE = 0.01
memory = HierarchicalMemory(sys.argv[1], embedder="hashing:64", max_tokens=400)
memory.add_steps([MessageStep("user", f"lot {at} holds {at * 7} crates") for at in range(1_200)])
memory.long_term.queue.embed_pending()
print(memory.long_term.journal.last_passage(), flush=True)
"""


def started(folder: Path, then: str) -> subprocess.Popen[str]:
    """A process whose background is at work."""
    process = python(WORKING + then, folder)
    assert process.stdout is not None and process.stdout.readline()
    return process


ERRORS_TOO = "import os; os.dup2(1, 2)"  # on standard output
FILLING = "while not memory.long_term.index.notes.passage > 100: pass"


@pytest.mark.slow
@pytest.mark.parametrize("then", ["", f"{FILLING}\nimport chromadb", "memory.close()"])
def test_an_interpreter_ends_well_while_the_background_works(tmp_path: Path, then: str) -> None:
    process = started(tmp_path / "m", f"{ERRORS_TOO}\n{then}")
    assert process.communicate(timeout=600)[0] == ""
    assert process.returncode == 0
    with open_memory(tmp_path / "m") as memory:
        memory.flush()
        assert memory.stats().indexed_passages == 1_200


# doctor


# what it embeds and summarises


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
def embedder(little_waits: None) -> Iterator[Gated]:
    """An embedder whose gate opens at the end, whatever comes."""
    made = Gated()
    yield made
    made.gate.set()


def test_adding_does_not_wait_for_the_embedder(tmp_path: Path, embedder: Gated) -> None:
    with open_exact(tmp_path, embedder=embedder) as memory:
        memory.add_steps(lots(60))
        assert embedder.came.wait(600)
        assert memory.add_steps(lots(5, 60))[-1].step_number == 65
        embedder.gate.set()
        assert "lot 64 holds 448" in memory.recall("lot 64", 100).text, "a recall sees all that was added"
        assert steps_embedded(memory) == list(range(1, 66))


def test_an_embedder_that_fails_in_the_background_is_left_alone_and_steps_wait(
    tmp_path: Path, embedder: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    embedder.away = True
    with open_exact(tmp_path, embedder=embedder) as memory:
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


def test_neither_an_add_nor_a_context_waits_for_a_slow_summarizer(tmp_path: Path, little_waits: None) -> None:
    summarizer = Pondering()
    with open_exact(tmp_path, embedder="hashing:64", summarizer=summarizer, max_tokens=2_000) as memory:
        memory.add_steps(lots(200))
        assert summarizer.came.wait(600)
        memory.add_steps(lots(5, 200))
        assert "episodes" not in {item.tier for item in memory.context("lot 3").items}
        assert memory.medium_term.known() == []
        summarizer.gate.set()
        memory.flush()
        assert memory.medium_term.known()[0].summary == "Lots from lot 0 holds 0 crates on."
        assert "episodes" in {item.tier for item in memory.context("lot 3", max_tokens=4_000).items}


def test_a_context_does_not_depend_on_how_far_the_background_has_come(tmp_path: Path, little_waits: None) -> None:
    shown = []
    for is_there in (True, False):
        with open_exact(tmp_path / str(is_there), embedder="hashing:64", max_tokens=4_000) as memory:
            memory.long_term.indexing.in_background = is_there
            for at, step in enumerate(lots(6 * MOST)):
                memory.add(step.evolve(id=f"s{at}", timestamp=LATER, session=f"day {at // 5}"))
                if is_there and at % 7 == 0:
                    memory.flush()
            context = memory.context("lot 3", now=LATER)
            shown.append([(item.tier, item.step.text) for item in context.items])
            assert "episodes" in {tier for tier, _ in shown[-1]}
    assert shown[0] == shown[1]


def test_what_is_forgotten_while_it_is_summarised_comes_into_no_summary(tmp_path: Path, little_waits: None) -> None:
    summarizer = Pondering()
    with open_exact(tmp_path, embedder="hashing:64", summarizer=summarizer) as memory:
        first = memory.add_steps(lots(200))[0]
        assert summarizer.came.wait(600)
        memory.forget([first.id])
        summarizer.gate.set()
        memory.flush()
        episodes = memory.medium_term.known()
        assert episodes and not any("lot 0 holds" in episode.summary for episode in episodes)
