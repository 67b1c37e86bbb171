"""doctor and rebuild against files that are really damaged: what is wrong is found, and the index comes back."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from memories import count_in, sentences

from tinymem import HierarchicalMemory, MessageStep
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import FormatError, InputError, NotAMemoryError, StorageError
from tinymem.protocols import Vectors
from tinymem.stores.chroma.store import ChromaStore
from tinymem.upkeep import Diagnosis, doctor, rebuild
from tinymem.upkeep.diagnosis import FLUSH, REBUILD, RESTORE

PASSAGES, FEW = 1_200, 90  # enough for Chroma to write its graph to files, and for a journal
open_memory = partial(HierarchicalMemory, embedder="hashing:64", max_tokens=400)


def made(folder: Path) -> Path:
    """A memory of PASSAGES passages, all of them in its index."""
    with open_memory(folder) as memory:
        memory.archive([MessageStep("user", text) for text in sentences(PASSAGES)])
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "memory")


@pytest.fixture
def memory(sound: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(sound, tmp_path / "memory")
    return tmp_path / "memory"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of FEW passages that never had an index."""
    folder = tmp_path_factory.mktemp("small") / "memory"
    with open_memory(folder, store="exact") as memory:
        memory.archive([MessageStep("user", text) for text in sentences(FEW)])
        memory.flush()
    return folder


@pytest.fixture
def journal_only(small: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(small, tmp_path / "small")
    return tmp_path / "small"


def index_of(memory: Path) -> Path:
    return memory / "default" / "index"


def journal_of(memory: Path) -> Path:
    return memory / "default" / "journal.db"


def graph_of(memory: Path, name: str) -> Path:
    (file,) = index_of(memory).glob(f"*/{name}")
    return file


class Raises(HashingEmbedder):
    """An embedder that may not be asked for documents."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        raise AssertionError("something was embedded")

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return HashingEmbedder.embed_documents(self, texts)


def recalls(memory: Path) -> bool:
    """Whether a passage is found through the index, without anything being embedded but the question."""
    text = sentences(PASSAGES)[700]
    with open_memory(memory, embedder=Raises(64)) as opened:
        found = text in opened.recall(text, 500).text
        return found and count_in(opened.long_term) == PASSAGES


# sound


@pytest.mark.slow
def test_a_sound_memory_is_sound_and_what_was_looked_at_is_counted(memory: Path) -> None:
    before = {file: file.read_bytes() for file in (journal_of(memory), graph_of(memory, "data_level0.bin"))}
    found = doctor(memory)
    assert found == Diagnosis((), {"steps": 1_200, "passages": 1_200, "terms": 1_200, "dimensions": 64,
                                   "in_index": 1_200})  # fmt: skip
    assert before.keys() == {file for file, content in before.items() if file.read_bytes() == content}
    assert found.sound and recalls(memory)
    assert doctor(memory, store="exact").sound
    assert rebuild(memory, store="exact") == 0 and doctor(memory).sound


def test_a_small_memory_needs_no_index(tmp_path: Path) -> None:
    with open_memory(tmp_path) as opened:
        assert doctor(tmp_path) == Diagnosis((), {"steps": 0, "passages": 0, "terms": 0, "dimensions": 0})
        opened.add_messages([{"role": "user", "content": "\ud800 The ladder \x00 is behind the shed. 🪜"}])
        assert doctor(tmp_path).sound, "while it is open, and a step waits to be embedded"
    assert doctor(tmp_path).sound and rebuild(tmp_path) == 0
    assert not index_of(tmp_path).exists()


def test_where_there_is_no_memory_or_no_such_store_that_is_said(tmp_path: Path, journal_only: Path) -> None:
    for look in (doctor, rebuild):
        with pytest.raises(NotAMemoryError, match="no memory at"):
            look(tmp_path / "nowhere")
        with pytest.raises(NotAMemoryError, match="namespace 'bob'"):
            look(journal_only, "bob")
        with pytest.raises(InputError, match="no store 'chrma'"):
            look(journal_only, store="chrma")


# damaged indexes


def overwrite(memory: Path) -> None:
    file = graph_of(memory, "data_level0.bin")
    file.write_bytes(random.Random(1).randbytes(file.stat().st_size))


def with_store(act: Callable[[ChromaStore], None]) -> Callable[[Path], None]:
    def damage(memory: Path) -> None:
        store = ChromaStore(index_of(memory))
        act(store)
        store.close()

    return damage


def some_vectors(count: int) -> Vectors:
    return np.random.default_rng(1).normal(size=(count, 64)).astype(np.float32)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "the graph deleted": lambda memory: shutil.rmtree(graph_of(memory, "header.bin").parent),
    "the vectors overwritten": overwrite,
    "ids removed": with_store(lambda store: store.delete(range(100, 110))),
    "ids added": with_store(lambda store: store.upsert([10**6, 10**6 + 1], some_vectors(2))),
    "vectors exchanged": with_store(lambda store: store.upsert(range(1, 101), some_vectors(100))),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_index_is_found_and_rebuilt_without_embedding(memory: Path, damage: Callable[[Path], None]) -> None:
    damage(memory)
    found = doctor(memory, timeout=600)
    assert not found.sound and {finding.advice for finding in found.findings} <= {REBUILD, FLUSH}
    assert found.counts["passages"] == found.counts["terms"] == PASSAGES, "the journal is sound"
    assert rebuild(memory) == PASSAGES
    assert doctor(memory).sound and recalls(memory)


@pytest.mark.slow
def test_an_index_that_somebody_holds_is_neither_examined_nor_rebuilt(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinymem.stores.chroma.store.ENDING", 0.1)
    held = ChromaStore(index_of(memory))
    (finding,) = doctor(memory).findings
    assert "another process" in finding.problem and "run tinymem doctor again" in finding.advice
    with pytest.raises(StorageError, match="another process"):
        rebuild(memory)
    held.close()
    assert doctor(memory).sound, "nothing was touched"


BAD_STORES = """
import os, signal, time
from tinymem.stores import ExactStore

class Bad(ExactStore):
    in_memory = False

    @classmethod
    def from_name(cls, argument, path):
        store = cls()
        store.argument = argument
        return store

    def count(self):
        if self.argument == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.argument == "hang":
            time.sleep(600)
        raise OSError("the bus is on fire")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("crash", r"reading the index failed: the process of the index has ended \(-11\); .*"),
        ("hang", r"the index did not answer within 2 seconds"),
        ("fail", r"reading the index failed: OSError: the bus is on fire"),
    ],
)
def test_a_reader_of_the_index_that_crashes_or_hangs_is_a_finding(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, said: str
) -> None:
    (tmp_path / "bad-1.0.dist-info").mkdir()
    (tmp_path / "bad-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n", "utf-8"
    )
    (tmp_path / "bad-1.0.dist-info" / "entry_points.txt").write_text(
        "[tinymem.stores]\nbad = bad:Bad.from_name\n", "utf-8"
    )
    (tmp_path / "bad.py").write_text(BAD_STORES, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (finding,) = doctor(memory, store=f"bad:{kind}", timeout=2 if kind == "hang" else 600).findings
    assert finding.advice == REBUILD
    assert re.fullmatch(said, finding.problem), finding.problem


# damaged journals


def changed(memory: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(journal_of(memory))) as db, db:
        db.execute(sql, values)


@pytest.mark.parametrize(
    ("sql", "said", "advice"),
    [
        ("DELETE FROM passages WHERE step = 7", "do not fit the steps", REBUILD),
        ("UPDATE passages SET end = 9999 WHERE step < 6", "do not fit the steps", REBUILD),
        ("UPDATE vectors SET vector = CAST(replace(hex(zeroblob(64)), '00', char(0, 124)) AS BLOB) WHERE passage = 4",
         "do not fit the steps", REBUILD),
        ("UPDATE passages SET identifiers = x'00' WHERE step = 4", "do not fit the steps", REBUILD),
        ("UPDATE steps SET record = '{}' WHERE number = 3", "1 steps cannot be read, among them #3", RESTORE),
        ("UPDATE steps SET record = (SELECT record FROM steps WHERE number = 4) WHERE number = 3",
         "1 steps cannot be read, among them #3", RESTORE),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_journal_is_found(journal_only: Path, sql: str, said: str, advice: str) -> None:
    changed(journal_only, sql)
    found = doctor(journal_only, store="exact")
    assert any(said in finding.problem and finding.advice == advice for finding in found.findings), found.findings
    if advice == RESTORE:
        with pytest.raises(FormatError):
            rebuild(journal_only, store="exact")
        return
    rebuild(journal_only, store="exact")
    assert doctor(journal_only, store="exact").sound, "what is derived from steps is made again"
    text = sentences(FEW)[6]
    with open_memory(journal_only, store="exact") as opened:
        assert text in opened.recall(text, 500).text and opened.stats().passages == FEW
    assert doctor(journal_only, store="exact").sound


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE fulltext_data SET block = x'00ff00ff' WHERE id > 1",
        "INSERT INTO fulltext(rowid, terms) VALUES (77777, 'somebody elses words')",
    ],
)
def test_a_damaged_full_text_index_is_rebuilt(journal_only: Path, sql: str) -> None:
    text = sentences(FEW)[70]
    with open_memory(journal_only, store="exact") as opened:
        before = opened.long_term.journal.search_text(text)
    changed(journal_only, sql)
    assert not doctor(journal_only, store="exact").sound
    assert rebuild(journal_only) == 0 and doctor(journal_only, store="exact").sound
    with open_memory(journal_only, store="exact") as opened:
        opened.flush()
        after = opened.long_term.journal.search_text(text)
        assert len(opened.long_term.journal.search_text("somebody elses")[0]) == 0
    assert np.array_equal(before[1], after[1])
    assert doctor(journal_only).sound


def test_a_journal_that_is_no_database_any_more_is_a_finding(journal_only: Path) -> None:
    whole = journal_of(journal_only).read_bytes()
    for content in (b"", b"not a database", whole[: len(whole) // 2], whole[:1_000], b"\x00" * len(whole)):
        journal_of(journal_only).write_bytes(content)
        found = doctor(journal_only)
        assert not found.sound and RESTORE in {finding.advice for finding in found.findings}, content[:20]
