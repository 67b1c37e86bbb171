"""Another embedder for a memory: killed, raced and watched while it is put in the place of the old one."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memories import LATER, index_of, python, said, sentences, sqlite, texts_in
from work import PATIENCE

from tinymem import HierarchicalMemory
from tinymem.archive.embedding import BATCH
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import EmbedderMismatchError, StorageError
from tinymem.protocols import Vectors
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
