"""The index: filled from the first step on that left, lost without harm, cleared for good."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dict_store import DictStore
from memories import (
    LATER,
    fill,
    forget,
    index_of,
    numbered_texts,
    open_archive,
    python,
    said,
    sentences,
    texts_in,
    write,
)
from test_archive import TEXTS, numbers

import tinymem.archive.indexing.index
import tinymem.archive.indexing.mirror
from tinymem.archive.archive import Archive
from tinymem.archive.indexing.child import Child
from tinymem.archive.indexing.index import Index
from tinymem.archive.indexing.mirror import NOTES, hold_folder, read_notes
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.embedders.static import StaticEmbedder
from tinymem.errors import ClosedError, StorageError
from tinymem.protocols import Vectors
from tinymem.stores.chroma.store import ChromaStore

PASSAGES = 240  # of the archives here


class Watched(DictStore):
    """A store that remembers what it was asked for, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.upserts: list[list[int]] = []
        self.fault: Callable[[], Exception] | None = None

    def upsert(self, ids: Any, vectors: Vectors) -> None:
        self._fail()
        super().upsert(ids, vectors)
        self.upserts.append(list(ids))

    def clear(self) -> None:
        self._fail()
        super().clear()

    def _fail(self) -> None:
        if self.fault:
            raise self.fault()

    def close(self) -> None:
        """Nothing: another archive may be given it again, as if it had files."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinymem.archive.indexing.mirror, "BATCH", 40)


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
def archive(tmp_path: Path, store: Watched) -> Iterator[Archive]:
    """PASSAGES passages, all embedded and archived, none in the store."""
    archive = open_archive(tmp_path, HashingEmbedder(64), store)
    fill(archive, numbered_texts(sentences(PASSAGES)))
    archive.journal.set_window([1, 2, 3, 4], {})
    archive.queue.embed_pending()
    yield archive
    archive.close()


@pytest.fixture
def in_chroma(tmp_path: Path) -> Iterator[Archive]:
    """An archive whose passages are in Chroma."""
    archive = open_in_chroma(tmp_path)
    fill(archive, numbered_texts(TEXTS))
    archive.journal.set_window([1, 2, 3, 4], {})
    archive.queue.embed_pending()
    archive.index.follow()
    yield archive
    with suppress(ClosedError):
        archive.close()


def open_in_chroma(folder: Path) -> Archive:
    return open_archive(folder, StaticEmbedder(), "chroma")


# filled


def test_a_memory_from_which_no_step_left_has_nothing_of_chroma_on_disk_nor_in_the_process(tmp_path: Path) -> None:
    program = """
import sys
from tinymem import HierarchicalMemory
from tinymem.archive.indexing.child import Child
for _ in range(2):
    with HierarchicalMemory(sys.argv[1], max_tokens=20_000) as memory:
        messages = [{"role": "user", "content": f"Lot {at} holds plums."} for at in range(60)]
        steps = memory.add_messages(messages, session="s")
        assert memory.context("plums").messages and memory.recall("lot 7")
        memory.forget([steps[0].id, steps[-1].id])
        assert memory.recall("lot 7")
        memory.flush()
        assert memory.stats().unindexed_passages == 0
assert "chromadb" not in sys.modules and Child.newest is None
"""
    running = python(program, tmp_path / "memory")
    running.communicate(timeout=600)
    assert running.returncode == 0
    folders = [path.name for path in (tmp_path / "memory").rglob("*") if path.is_dir()]
    assert folders == ["default"]


def test_after_something_was_replaced_the_index_begins_anew_and_a_mark_is_nothing_to_it(
    archive: Archive, store: Watched
) -> None:
    archive.index.follow()
    archive.set_milestones([5], True)
    assert not archive.index.lacks
    store.upserts.clear()
    archive.delete([7])
    write(archive, [said("in its place", PASSAGES + 1)])
    archive.queue.embed_pending()
    assert archive.index.lacks
    archive.index.follow()
    assert sum(map(len, store.upserts)) == store.count() == PASSAGES
    assert sorted(store.held) == [id for id in range(1, PASSAGES + 2) if id != 7]
    assert not archive.index.lacks


def test_what_is_forgotten_while_a_batch_is_written_is_not_taken_for_followed(
    archive: Archive, store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(ids: Any, vectors: Vectors) -> None:
        Watched.upsert(store, ids, vectors)
        monkeypatch.undo()
        archive.delete([9])

    monkeypatch.setattr(store, "upsert", forget)
    archive.index.advance()
    assert 9 in store.held and archive.index.lacks
    archive.index.follow()
    assert 9 not in store.held and store.count() == PASSAGES - 1


# lost, taken, failing


@pytest.mark.slow
def test_files_that_end_the_process_are_made_again(in_chroma: Archive) -> None:
    folder = in_chroma.folder / "index"
    in_chroma.index.close()
    index = in_chroma.index = Index(in_chroma.journal, folder, "chroma")  # as in a new process, which looks at them
    index._before, index._child = index.notes, Child(end_at_once, in_chroma.folder, "chroma")
    held = (folder / "chroma.sqlite3").stat().st_ino
    index.follow()
    assert (folder / "chroma.sqlite3").stat().st_ino != held
    with index_of(in_chroma) as store:
        assert store.count() == len(in_chroma.current())


def end_at_once(folder: str, name: str) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_another_store_is_filled_from_the_journal_and_the_one_before_it_is_cleared(in_chroma: Archive) -> None:
    folder, store = in_chroma.folder, Watched()
    in_chroma.close()
    archive = open_archive(folder, StaticEmbedder(), store)
    assert 121 in numbers(archive)
    archive.index.follow()
    assert store.count() == len(archive.current())
    assert not (folder / "index" / "chroma.sqlite3").exists()
    archive.close()


# cleared


def vectors_of(archive: Archive, step: int) -> list[bytes]:
    """The vectors of a step's passages, as the journal and as Chroma write them; their beginnings."""
    halves = [row[7] for row in archive.journal.passages() if row[1] == step]
    singles = [np.frombuffer(half, "<f2").astype("<f4").tobytes() for half in halves]
    return [blob[:64] for blob in (*halves, *singles)]


def test_a_memory_that_needs_no_index_now_forgets_in_the_files_of_the_one_it_had(in_chroma: Archive) -> None:
    blobs, folder = vectors_of(in_chroma, 121), in_chroma.folder
    in_chroma.close()
    archive = open_archive(folder, StaticEmbedder())
    assert all(texts_in(folder, *blobs).values())
    forget(archive, [121])
    assert not any(texts_in(folder, *blobs, b"kumquat").values())
    assert numbers(archive)
    archive.close()


def test_a_store_that_could_not_be_cleared_is_cleared_before_it_is_next_filled(
    archive: Archive, store: Watched
) -> None:
    archive.index.follow()
    store.fault = lambda: StorageError("the disk is gone")
    with pytest.raises(StorageError, match="the disk is gone"):
        forget(archive, [1])
    assert len(archive.journal.rows()) == len(archive.current()) == PASSAGES - 1
    assert archive.index.lacks
    store.fault = None
    archive.index.follow()
    assert store.count() == PASSAGES - 1
    forget(archive, [2])
    assert store.count() == 0
    archive.index.follow()
    assert len(archive.journal.rows()) == store.count() == PASSAGES - 2


@pytest.mark.slow
@pytest.mark.parametrize("what", ["all", "notes", "half of the notes", "vectors"])
def test_an_index_that_lost_something_is_filled_again(in_chroma: Archive, what: str) -> None:
    folder = in_chroma.folder / "index"
    in_chroma.index.close()
    if what == "all":
        shutil.rmtree(folder)
    elif what == "vectors":
        with closing(ChromaStore(folder)) as store:
            store.delete(range(3, 60))
        write(in_chroma, [said("one more", in_chroma.journal.next_number())])  # or nobody looks
        in_chroma.queue.embed_pending()
    else:
        notes = (folder / NOTES).read_text("utf-8")
        (folder / NOTES).write_text("" if what == "notes" else notes[: len(notes) // 2], "utf-8")
    assert 121 in numbers(in_chroma)
    in_chroma.index.follow()
    with index_of(in_chroma) as held:
        assert sorted(map(int, held._get_collection().get()["ids"])) == in_chroma.current().id.tolist()


@pytest.mark.slow
def test_an_index_that_is_ahead_of_a_journal_from_a_backup_begins_anew(in_chroma: Archive) -> None:
    folder, embedder = in_chroma.folder, in_chroma.queue.embedder
    in_chroma.index.close()
    in_chroma.close()
    shutil.copy(folder / "journal.db", folder / "backup.db")
    archive = open_archive(folder, embedder, "chroma")
    write(archive, [said("the plums are in the cellar", archive.journal.next_number(), timestamp=LATER)])
    archive.queue.embed_pending()
    archive.index.follow()
    archive.index.close()
    archive.close()
    os.replace(folder / "backup.db", folder / "journal.db")
    archive = open_archive(folder, embedder, "chroma")
    write(archive, [said(text, archive.journal.next_number() + at) for at, text in enumerate(("figs", "pears"))])
    archive.queue.embed_pending()
    archive.index.follow()
    catalog = archive.current()
    with index_of(archive) as held:
        nearest = [held.query(vector, 1)[0][0] for vector in catalog.vectors[-2:]]
    assert nearest == catalog.id[-2:].tolist()
    archive.close()


@pytest.mark.parametrize("moved", [0, 80, 200])
def test_a_crash_between_the_store_and_its_notes_loses_and_doubles_nothing(
    archive: Archive, store: Watched, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    for _ in range(moved // 40):
        archive.index.advance()
    with monkeypatch.context() as patch:

        def crash(ids: Any, vectors: Vectors) -> None:
            Watched.upsert(store, ids, vectors)
            raise ZeroDivisionError

        patch.setattr(store, "upsert", crash)
        with pytest.raises(ZeroDivisionError):
            archive.index.follow()
    assert (store.count(), archive.index.notes.passage) == (moved + 40, moved)
    assert "ZeroDivisionError" in archive.index.fault
    archive.index.follow()
    assert sorted(store.held) == archive.current().id.tolist()
    assert archive.index.fault == ""


@pytest.mark.slow
def test_of_two_programs_one_has_the_index_and_follows_what_the_other_adds(tmp_path: Path) -> None:
    """The other one's process finds it taken, until the first lets go of it."""
    program = """
import sys
from tinymem import HierarchicalMemory, MessageStep
with HierarchicalMemory(sys.argv[1], embedder="hashing:64", max_tokens=200) as memory:
    for turn in range(4):
        memory.add_steps([MessageStep("user", f"{sys.argv[2]} {turn} {at}") for at in range(100)])
        memory.flush()
"""
    running = [python(program, tmp_path, name) for name in ("plums", "pears", "figs")]
    for one in running:
        one.communicate(timeout=600)
        assert one.returncode == 0
    notes = read_notes(tmp_path / "default" / "index")
    assert notes.passage >= 1_100
    archive = open_archive(tmp_path / "default", HashingEmbedder(64), "chroma")
    archive.index.follow()
    with index_of(archive) as held:
        assert held.count() == 1_200
    archive.close()


def test_an_index_that_another_one_has_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinymem.archive.indexing.index, "FOLLOWED", 0.2)
    archive = open_in_chroma(tmp_path)
    fill(archive, numbered_texts(TEXTS))
    archive.journal.set_window([1, 2, 3, 4], {})
    with hold_folder(tmp_path / "index"):
        assert 121 in numbers(archive)
        with pytest.raises(StorageError, match="another process"):
            archive.index.follow()
        forget(archive, [1])  # which the index has never seen
    monkeypatch.undo()
    archive.index.follow()
    with index_of(archive) as held:
        assert held.count() == len(archive.current())
    archive.close()
