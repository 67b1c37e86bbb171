"""Another embedder for a memory: killed, raced and watched while it is put in the place of the old one."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memories import LATER, index_of, python, said, sentences, sqlite, texts_in
from work import PATIENCE

from tinymem import HierarchicalMemory
from tinymem.archive.embedding import BATCH
from tinymem.archive.indexing.index import Index
from tinymem.archive.indexing.notes import hold_folder
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import EmbedderError, EmbedderMismatchError, NotAMemoryError, StorageError
from tinymem.protocols import Vectors
from tinymem.stores.sqlite.journal import SqliteJournal
from tinymem.upkeep.reindexing import reindex

OLD, NEW = "hashing:64", "hashing:32"
TEXTS = sentences(2 * BATCH + 100)
LADDER = "The ladder is behind the shed."


class Watched(HashingEmbedder):
    """Of 32 dimensions; counts what it embeds, and calls `before` with the number of each batch."""

    def __init__(self, before: Callable[[int], object] = lambda batch: None) -> None:
        super().__init__(32)
        self.texts: list[str] = []
        self.batches, self.before = 0, before

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.batches += 1
        self.before(self.batches)
        self.texts += texts
        return super().embed_documents(texts)


def opened(folder: Path, embedder: str = OLD, **options: Any) -> HierarchicalMemory:
    return HierarchicalMemory(folder, embedder=embedder, **{"store": "exact", **options})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A memory of 612 steps of one passage each; the first says where the ladder is."""
    with opened(tmp_path) as memory:
        memory.archive([said(text, at) for at, text in enumerate([LADDER, *TEXTS[1:]])])
    return tmp_path


def journal_of(folder: Path) -> SqliteJournal:
    return SqliteJournal(folder / "default" / "journal.db", create=False)


def finds(memory: HierarchicalMemory) -> bool:
    return LADDER in memory.recall("Where is the ladder?", 200, now=LATER).text


def tables(folder: Path) -> dict[str, Any]:
    """What reindexing must not change: all but the vectors and the settings."""
    with sqlite3.connect(folder / "default" / "journal.db") as db:
        columns = "id, step, part, start, end, kind, asks, identifiers, tools"
        found = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in ("steps", "summaries", "vocabulary")}
        found["passages"] = db.execute(f"SELECT {columns} FROM passages").fetchall()
    db.close()
    return found


def test_all_passages_get_the_vectors_of_the_other_embedder_and_nothing_else_changes(folder: Path) -> None:
    before, told = tables(folder), []
    done = reindex(folder, NEW, store="exact", progress=lambda *how: told.append(how))
    assert (done.before, done.after) == ("hashing/crc32/64/1", "hashing/crc32/32/1")
    assert (done.passages, done.embedded) == (len(TEXTS), len(TEXTS))
    assert told == [(n, len(TEXTS)) for n in (BATCH, 2 * BATCH, len(TEXTS))]
    assert tables(folder) == before
    with opened(folder, NEW) as memory:
        embedder = HashingEmbedder(32)
        assert finds(memory)
        vectors = embedder.embed_documents([LADDER, *TEXTS[1:]])
        assert np.allclose(memory.long_term.current().vectors, vectors, atol=1e-3)
        assert memory.long_term.journal.setting("embedder_name") == NEW


def test_another_embedder_is_an_error_that_names_the_command(folder: Path) -> None:
    with pytest.raises(EmbedderMismatchError, match=f"tinymem reindex --embedder {NEW}") as caught:
        opened(folder, NEW)
    assert (caught.value.stored, caught.value.given) == ("hashing/crc32/64/1", "hashing/crc32/32/1")


def test_where_there_is_no_memory_there_is_nothing_to_reindex(tmp_path: Path) -> None:
    with pytest.raises(NotAMemoryError):
        reindex(tmp_path / "nowhere", NEW)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("texts", [[], [""], [LADDER]])
def test_little_is_reindexed_too(tmp_path: Path, texts: list[str]) -> None:
    with opened(tmp_path) as memory:
        memory.add_steps([said(text) for text in texts])
    assert reindex(tmp_path, NEW, store="exact").embedded == len([text for text in texts if text])
    with opened(tmp_path, NEW) as memory:
        assert finds(memory) == (LADDER in texts)


# while it is being made


ELSEWHERE = """
import sys
from tinymem import HierarchicalMemory, MessageStep
with HierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact") as memory:
    assert sys.argv[2] in memory.recall(sys.argv[2], 200).text
    memory.add(MessageStep("user", sys.argv[3]))
"""


def test_until_the_end_the_memory_goes_on_with_the_old_embedder(folder: Path) -> None:
    late, secret = "The rake is in the cellar.", "zyxqvortex"
    with opened(folder) as memory:
        gone = memory.archive([said(f"The code is {secret}.")])[0]

    def meddle(batch: int) -> None:
        if batch == 3:
            with opened(folder) as memory:
                assert finds(memory)
                assert memory.forget([memory.get(1).id, gone.id]) == 2
            with python(ELSEWHERE, folder, TEXTS[1], late) as process:
                process.communicate()
            assert process.returncode == 0

    reindex(folder, Watched(meddle), store="exact")
    assert texts_in(folder, secret.encode(), b"ladder") == {secret.encode(): [], b"ladder": []}
    with opened(folder, NEW) as memory:
        assert memory.stats().waiting_steps == 0
        assert late in memory.recall("Where is the rake?", 200, now=LATER).text
        assert not finds(memory)
        assert sqlite(memory.long_term.journal).read("SELECT DISTINCT embedder FROM vectors") == [
            ("hashing/crc32/32/1",)
        ]


def test_a_vector_of_what_is_forgotten_while_it_is_made_is_in_no_file(folder: Path) -> None:
    """Forgotten between the look at its text and the writing of its vector, and after that."""
    needles = [Watched().embed_documents([text]).astype("<f2").tobytes() for text in (LADDER, TEXTS[1])]

    def meddle(batch: int) -> None:
        with opened(folder) as memory:
            memory.forget([memory.get(batch).id])
        if batch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reindex(folder, Watched(meddle), store="exact")
    kept = Watched().embed_documents([TEXTS[2]]).astype("<f2").tobytes()
    assert texts_in(folder, *needles, kept) == {needles[0]: [], needles[1]: [], kept: ["default/journal.db"]}


KILLED = """
import sys, time
sys.path.append(sys.argv[2])
from test_reindexing import Watched
from tinymem.upkeep.reindexing import reindex

def before(batch):
    if batch == 3:
        print("two batches are kept", flush=True)
        time.sleep(3_000)

reindex(sys.argv[1], Watched(before), store="exact")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_run_is_gone_on_with_and_until_then_the_old_embedder_serves(folder: Path) -> None:
    process = python(KILLED, folder, Path(__file__).parent)
    assert process.stdout and process.stdout.readline() == "two batches are kept\n"
    process.kill()
    assert process.wait(PATIENCE) == -signal.SIGKILL
    process.communicate()
    with opened(folder) as memory:
        assert finds(memory)
        memory.add(said("One more."))
    embedder = Watched()
    done = reindex(folder, embedder, store="exact")
    assert embedder.texts == [*TEXTS[2 * BATCH :], "One more."]
    assert (done.embedded, done.passages) == (101, len(TEXTS) + 1)
    with opened(folder, NEW) as memory:
        assert finds(memory)


def test_an_embedder_that_fails_changes_nothing(folder: Path) -> None:
    def fail(batch: int) -> None:
        if batch == 2:
            raise RuntimeError("no more tokens")

    with pytest.raises(EmbedderError, match="RuntimeError"):
        reindex(folder, Watched(fail), store="exact")
    with opened(folder) as memory:
        assert finds(memory)
    assert reindex(folder, NEW, store="exact").embedded == len(TEXTS) - BATCH


def test_a_third_embedder_starts_over_and_the_one_in_use_gives_it_up(folder: Path) -> None:
    def interrupt(batch: int) -> None:
        if batch == 3:
            raise KeyboardInterrupt

    def held() -> int:
        journal = journal_of(folder)
        journal.close()
        with sqlite3.connect(journal.path) as db:
            sql = "SELECT count(*) FROM vectors WHERE embedder != (SELECT value FROM meta WHERE key = 'embedder')"
            (count,) = db.execute(sql).fetchone()
        db.close()
        return int(count)

    with pytest.raises(KeyboardInterrupt):
        reindex(folder, Watched(interrupt), store="exact")
    assert held() == 2 * BATCH
    assert reindex(folder, "hashing:16", store="exact").embedded == len(TEXTS)
    assert held() == 0
    with pytest.raises(KeyboardInterrupt):
        reindex(folder, Watched(interrupt), store="exact")
    assert reindex(folder, "hashing:16", store="exact").embedded == held() == 0


def test_of_two_that_reindex_at_once_with_different_embedders_one_is_told(folder: Path) -> None:
    def meddle(batch: int) -> None:
        if batch == 2:
            reindex(folder, "hashing:16", store="exact")

    with pytest.raises(StorageError, match="another process has reindexed it meanwhile"):
        reindex(folder, Watched(meddle), store="exact")
    with opened(folder, "hashing:16") as memory:
        assert finds(memory)


# when it is done


def test_a_memory_that_stayed_open_is_told_and_loses_nothing(folder: Path) -> None:
    with opened(folder) as memory:
        assert finds(memory)
        reindex(folder, NEW, store="exact")
        late = memory.add(said("The rake is in the cellar."))
        for use in (lambda: finds(memory), lambda: memory.context("the ladder")):
            with pytest.raises(EmbedderMismatchError, match="tinymem reindex --embedder hashing:64"):
                use()
        assert memory.get(late.id) == late
    with opened(folder, NEW) as memory:
        assert "in the cellar" in memory.recall("Where is the rake?", 200, now=LATER).text
        assert finds(memory)


@pytest.mark.parametrize("same_length", [False, True])
def test_a_catalog_that_grows_during_the_change_never_mixes_vectors(folder: Path, same_length: bool) -> None:
    class Other(HashingEmbedder):
        fingerprint = "other"

    with opened(folder) as memory, ThreadPoolExecutor(1) as pool:
        journal, read = memory.long_term.journal, memory.long_term.journal.passages
        changes: list[Future[Any]] = []

        def interrupted(after: int = 0, limit: int = 2_000) -> list[Any]:
            rows = read(after, 300)
            if after == 0:
                changes.append(pool.submit(reindex, folder, Other(64) if same_length else NEW, store="exact"))
                until(lambda: setting(folder, "embedder") != memory.long_term.queue.embedder.fingerprint)
            return rows

        journal.passages = interrupted  # type: ignore[assignment, method-assign]
        assert finds(memory), "by the vectors from before the change"
        changes[0].result(timeout=600)
        with pytest.raises(EmbedderMismatchError):
            memory.recall("the ladder")


def setting(folder: Path, key: str) -> str | None:
    with closing(sqlite3.connect(folder / "default" / "journal.db")) as db:
        return next((value for (value,) in db.execute("SELECT value FROM meta WHERE key = ?", (key,))), None)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 600  # so that a mistake ends
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("store", [pytest.param("exact", marks=pytest.mark.slow), "chroma"])
def test_old_vectors_are_in_no_file_afterwards(tmp_path: Path, store: str) -> None:
    with opened(tmp_path, "static", store="chroma") as memory:
        memory.archive([said(text, at) for at, text in enumerate(TEXTS[:40], 1)])
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
        halves = [row[7] for row in memory.long_term.journal.passages()]
    singles = [np.frombuffer(half, "<f2").astype("<f4").tobytes() for half in halves]
    old = [blob[:64] for blob in (*halves, *singles)]
    assert all(texts_in(tmp_path, *old).values())
    reindex(tmp_path, NEW, store=store)
    assert not any(texts_in(tmp_path, *old).values()), "Chroma's files are cleared, whichever store is in use now"
    with opened(tmp_path, NEW, store="chroma") as memory:
        memory.long_term.indexing.in_background = False
        assert memory.long_term.index.notes.passage == (40 if store == "chroma" else 0)
        memory.long_term.index.follow()
        memory.long_term.index.close()
        assert not any(texts_in(tmp_path, *old).values())
        with index_of(memory.long_term) as held:  # in this process, of whose memory Chroma may write something
            ids, _ = held.query(HashingEmbedder(32).embed_queries([TEXTS[7]])[0], 1)
            assert (ids.tolist(), held.count()) == ([8], 40)


def test_an_index_that_another_memory_holds_is_cleared_when_it_is_opened_next(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Index.forget, "__defaults__", (0.1,))
    with opened(folder, store="chroma") as memory:
        memory.long_term.indexing.in_background = False
        memory.long_term.index.follow()
        memory.long_term.index.close()
        with hold_folder(folder / "default" / "index"):
            reindex(folder, NEW)
        assert "until the memory is opened again" in caplog.text
    with opened(folder, NEW, store="chroma") as memory:
        assert memory.long_term.index.notes.passage == 0
        assert finds(memory)


def test_a_reader_at_the_end_is_named_and_the_next_run_cleans_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = HashingEmbedder(64).embed_documents([LADDER]).astype("<f2").tobytes()
    reader = sqlite3.connect(folder / "default" / "journal.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM steps").fetchone()
    monkeypatch.setattr(SqliteJournal.__init__, "__defaults__", (True, 0.2))
    with pytest.raises(StorageError, match=r"old vectors stay.*another process or thread reads the file"):
        reindex(folder, NEW, store="exact")
    reader.close()
    assert reindex(folder, NEW, store="exact").embedded == 0
    assert texts_in(folder, old) == {old: []}
