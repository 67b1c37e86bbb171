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


def made(folder: Path, seed: int = 0, dimensions: int = 64) -> Path:
    """A memory of PASSAGES passages, all of them in its index."""
    with open_memory(folder, embedder=f"hashing:{dimensions}") as memory:
        memory.archive([MessageStep("user", text) for text in sentences(PASSAGES, seed=seed)])
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "memory")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another memory, with as many passages."""
    return made(tmp_path_factory.mktemp("other") / "memory", seed=1)


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


def problems_of(diagnosis: Diagnosis) -> str:
    return "\n".join(finding.problem for finding in diagnosis.findings)


# sound


def test_a_sound_memory_is_sound_and_what_was_looked_at_is_counted(memory: Path) -> None:
    before = {file: file.read_bytes() for file in (journal_of(memory), graph_of(memory, "data_level0.bin"))}
    found = doctor(memory)
    assert found == Diagnosis((), {"steps": 1_200, "passages": 1_200, "terms": 1_200, "dimensions": 64,
                                   "in_index": 1_200})  # fmt: skip
    assert before.keys() == {file for file, content in before.items() if file.read_bytes() == content}
    assert found.sound and recalls(memory)


def test_a_small_memory_needs_no_index(tmp_path: Path) -> None:
    with open_memory(tmp_path) as opened:
        assert doctor(tmp_path) == Diagnosis((), {"steps": 0, "passages": 0, "terms": 0, "dimensions": 0})
        opened.add_messages([{"role": "user", "content": "\ud800 The ladder \x00 is behind the shed. 🪜"}])
        assert doctor(tmp_path).sound, "while it is open, and a step waits to be embedded"
    assert doctor(tmp_path).sound and rebuild(tmp_path) == 0
    assert not index_of(tmp_path).exists()


@pytest.mark.slow
def test_passages_and_vectors_of_nothing_are_sound(tmp_path: Path) -> None:
    with open_memory(tmp_path) as opened:
        opened.archive([MessageStep("user", text) for text in ("", " ", "...", "x", "the the the", "x", "x")])
        opened.long_term.queue.embed_pending()
        opened.long_term.index.follow()
    assert doctor(tmp_path).sound


def test_where_there_is_no_memory_or_no_such_store_that_is_said(tmp_path: Path, memory: Path) -> None:
    for look in (doctor, rebuild):
        with pytest.raises(NotAMemoryError, match="no memory at"):
            look(tmp_path / "nowhere")
        with pytest.raises(NotAMemoryError, match="namespace 'bob'"):
            look(memory, "bob")
        with pytest.raises(InputError, match="no store 'chrma'"):
            look(memory, store="chrma")
    assert doctor(memory, store="exact").sound
    assert rebuild(memory, store="exact") == 0 and doctor(memory).sound


# damaged indexes


def cut(name: str) -> Callable[[Path], None]:
    def damage(memory: Path) -> None:
        file = graph_of(memory, name)
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    return damage


def overwritten(name: str) -> Callable[[Path], None]:
    def damage(memory: Path) -> None:
        file = graph_of(memory, name)
        file.write_bytes(random.Random(1).randbytes(file.stat().st_size))

    return damage


def with_store(act: Callable[[ChromaStore], None]) -> Callable[[Path], None]:
    def damage(memory: Path) -> None:
        store = ChromaStore(index_of(memory))
        act(store)
        store.close()

    return damage


def some_vectors(count: int) -> Vectors:
    return np.random.default_rng(1).normal(size=(count, 64)).astype(np.float32)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "all files deleted": lambda memory: shutil.rmtree(index_of(memory)),
    "the database deleted": lambda memory: (index_of(memory) / "chroma.sqlite3").unlink(),
    "the graph deleted": lambda memory: shutil.rmtree(graph_of(memory, "header.bin").parent),
    "the vectors cut": cut("data_level0.bin"),
    "the vectors overwritten": overwritten("data_level0.bin"),
    "the header overwritten": overwritten("header.bin"),
    "ids removed": with_store(lambda store: store.delete(range(100, 110))),
    "ids added": with_store(lambda store: store.upsert([10**6, 10**6 + 1], some_vectors(2))),
    "vectors exchanged": with_store(lambda store: store.upsert(range(1, 101), some_vectors(100))),
    "emptied": with_store(lambda store: store.clear()),
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


def test_faults_of_an_index_are_counted(memory: Path) -> None:
    DAMAGES["ids removed"](memory)
    DAMAGES["ids added"](memory)
    assert problems_of(doctor(memory)) == "the index has 1192 vectors, and should have 1200"


@pytest.mark.slow
def test_the_index_of_another_memory_is_found_out(memory: Path, other: Path, tmp_path: Path) -> None:
    shutil.rmtree(index_of(memory))
    shutil.copytree(index_of(other), index_of(memory))
    assert "the index has not the vectors of the journal" in problems_of(doctor(memory))
    shutil.rmtree(index_of(memory))
    shutil.copytree(index_of(made(tmp_path / "smaller", dimensions=32)), index_of(memory))
    assert "the index cannot be read: Chroma could not search" in problems_of(doctor(memory))
    assert rebuild(memory) == PASSAGES and doctor(memory).sound


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


@pytest.mark.slow
def test_an_interrupted_rebuild_goes_on(memory: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(memory, progress=interrupt)
    found = doctor(memory)
    assert found.counts["in_index"] >= 1_000 and found.sound, "the rest is searched exactly"
    assert rebuild(memory) == PASSAGES


# damaged journals


def changed(memory: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(journal_of(memory))) as db, db:
        db.execute(sql, values)


@pytest.mark.parametrize(
    ("sql", "said", "advice"),
    [
        ("DELETE FROM passages WHERE step = 7", "do not fit the steps", REBUILD),
        ("UPDATE passages SET end = 9999 WHERE step < 6", "do not fit the steps", REBUILD),
        ("UPDATE passages SET step = 9999 WHERE step = 7", "do not fit the steps", REBUILD),
        ("UPDATE vectors SET vector = x'0000' WHERE passage < 4", "do not fit the steps", REBUILD),
        ("UPDATE vectors SET vector = CAST(replace(hex(zeroblob(64)), '00', char(0, 124)) AS BLOB) WHERE passage = 4",
         "do not fit the steps", REBUILD),
        ("DELETE FROM vectors WHERE passage = 4", "do not fit the steps", REBUILD),
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
        pytest.param("DELETE FROM fulltext_docsize WHERE id < 8", marks=pytest.mark.slow),
        pytest.param("DELETE FROM fulltext_data WHERE id > 100", marks=pytest.mark.slow),
        pytest.param("UPDATE fulltext_data SET block = x'00ff00ff' WHERE id > 1", marks=pytest.mark.slow),
        pytest.param("DROP TABLE fulltext", marks=pytest.mark.slow),
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


@pytest.mark.slow
def test_garbage_for_notes_makes_the_index_begin_anew(memory: Path) -> None:
    for garbage in ("", "x", "[]", "{}", '{"store": 5}', '{"store": "chroma", "passage": "9"}', "\x00"):
        (index_of(memory) / "mirror.json").write_text(garbage, "utf-8")
        with open_memory(memory) as opened:
            assert sentences(PASSAGES)[700] in opened.recall(sentences(PASSAGES)[700], 500).text, "found exactly"
    assert rebuild(memory) == PASSAGES
    assert doctor(memory).sound and recalls(memory)


def test_a_journal_that_is_no_database_any_more_is_a_finding(journal_only: Path) -> None:
    whole = journal_of(journal_only).read_bytes()
    for content in (b"", b"not a database", whole[: len(whole) // 2], whole[:1_000], b"\x00" * len(whole)):
        journal_of(journal_only).write_bytes(content)
        found = doctor(journal_only)
        assert not found.sound and RESTORE in {finding.advice for finding in found.findings}, content[:20]


@pytest.mark.slow
def test_whatever_bytes_of_a_journal_are_wrong_doctor_says_something_or_nothing_but_never_fails(tmp_path: Path) -> None:
    with open_memory(tmp_path) as opened:
        opened.archive([MessageStep("user", text) for text in sentences(60)])
    whole, dice, found = journal_of(tmp_path).read_bytes(), random.Random(4), 0
    for _ in range(6):
        damaged = bytearray(whole)
        for _ in range(dice.choice([1, 20, 400])):
            damaged[dice.randrange(100, len(damaged))] = dice.randrange(256)
        journal_of(tmp_path).write_bytes(damaged)
        found += not doctor(tmp_path).sound
    assert found > 2
