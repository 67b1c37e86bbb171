"""The background thread that fills the index: killed, forked, left alone at the end, and with others at its side."""

from __future__ import annotations

import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memories import python

import tinymem.archive.indexing.indexing
from tinymem import ActionStep, FinalAnswerStep, HierarchicalMemory, Memories, MessageStep
from tinymem.archive.indexing.notes import hold_folder
from tinymem.archive.indexing.process import process
from tinymem.errors import StorageError
from tinymem.upkeep import doctor

open_memory = partial(HierarchicalMemory, embedder="hashing:64", max_tokens=400)


def lots(count: int, first: int = 0, **more: Any) -> list[MessageStep]:
    return [MessageStep("user", f"lot {at} holds {at * 7} crates", **more) for at in range(first, first + count)]


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
    held = collection_in(tmp_path / "default" / "index")
    assert held.count() == len(kept) == stats.passages >= 232
    ann = held.get(where={"$and": [{"session": "s1"}, {"speaker": "Ann"}]})
    assert len(ann["ids"]) == 200
    assert {entry["type"] for entry in ann["metadatas"]} == {"message"}
    assert {entry["step"] for entry in held.get(where={"tool": "look"})["metadatas"]} == {seen.step_number}
    assert {entry["step"] for entry in held.get(where={"milestone": True})["metadatas"]} == {done.step_number}
    late = held.get(where={"time": {"$gt": done.timestamp.timestamp()}})
    assert len(late["ids"]) == 30
    assert held.get()["documents"] in (None, [None] * len(kept)), "texts stand in the journal alone"
    vector = held.get(["7"], include=["embeddings"])["embeddings"]
    assert held.query(vector, n_results=1)["ids"] == [["7"]]


# the thread


def test_the_background_indexes_what_nobody_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "IDLE", 0.01)
    is_done = threading.Event()
    with open_memory(tmp_path) as memory:
        archive = memory.long_term
        work = archive.indexing.work

        def watched() -> float | None:
            delay = work()
            if archive.journal.counts()["waiting_steps"] == 0 and not archive.index.lacks:
                is_done.set()
            return delay

        monkeypatch.setattr(archive.indexing, "work", watched)
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
REMOVE = "import shutil\nfor _ in range(100): shutil.rmtree(sys.argv[1], ignore_errors=True)"  # files come meanwhile
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


@pytest.mark.slow
def test_a_program_whose_folder_is_removed_ends_without_a_word(tmp_path: Path) -> None:
    process = started(tmp_path / "m", f"{ERRORS_TOO}\n{FILLING}\n{REMOVE}")
    assert process.communicate(timeout=600)[0] == "" and process.returncode == 0


def test_one_process_has_the_indexes_of_many_namespaces_and_goes_on_after_they_are_closed(tmp_path: Path) -> None:
    with Memories(tmp_path, embedder="hashing:64", max_tokens=400, max_open=40) as memories:
        for at in range(12):
            with memories.open(f"user{at}") as memory:
                memory.add_steps(lots(30))
        assert process.is_running
    for folder in tmp_path.glob("user*"):
        with open_memory(tmp_path, namespace=folder.name) as memory:
            memory.flush()
        assert collection_in(folder / "index").count() == 30


# doctor


@pytest.mark.slow
@pytest.mark.parametrize(("waiting", "is_sound"), [(100, True), (1_001, False)])
def test_an_index_that_lags_by_more_than_a_batch_is_a_finding(tmp_path: Path, waiting: int, is_sound: bool) -> None:
    with open_memory(tmp_path) as memory:
        memory.add_steps(lots(100))
        memory.flush()
        memory.long_term.indexing.in_background = False  # as in a process that is killed
        memory.long_term.index.leave()
        memory.add_steps(lots(waiting, 100))
    found = doctor(tmp_path)
    assert found.sound == is_sound
    if not is_sound:
        assert str(found.findings[0]).startswith(f"{waiting} passages are not in the index yet")
        assert "tinymem rebuild" in found.findings[0].advice and "flush" in found.findings[0].advice
