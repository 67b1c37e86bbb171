"""Journals of older formats: they are upgraded when they are opened, and a memory goes on with them."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from memories import texts_in

from tinymem import HierarchicalMemory, MessageStep
from tinymem.archive.rows import texts_of
from tinymem.errors import StorageError
from tinymem.recall.passages import passages_of
from tinymem.stores.sqlite import fulltext, schema
from tinymem.stores.sqlite.journal import SqliteJournal
from tinymem.stores.words import to_index_text
from tinymem.upkeep import doctor, rebuild, reindex

# 5 steps in two sessions, one archived, two with metadata; of format 2 with passages, two of them half reindexed
FILES = [Path(__file__).parent / f"format_{version}.db.gz" for version in range(1, schema.FORMAT)]
HALF_EMBEDDED = Path(__file__).parent / "half_embedded_4.db.gz"  # 4 steps: one embedded, one in half, two not cut
HISTORY = [
    {"role": "user", "content": "The staging server is at 10.0.0.7."},
    {"role": "assistant", "content": "Noted."},
]


def old_journal(folder: Path, file: Path) -> Path:
    """Make a memory whose journal has an older format."""
    with HierarchicalMemory(folder, embedder="hashing:16", store="exact"):
        pass
    path = folder / "default" / "journal.db"
    for made in path.parent.glob("journal.db*"):
        made.unlink()
    path.write_bytes(gzip.decompress(file.read_bytes()))
    return path


def layout(path: Path) -> list[tuple[str, str]]:
    """The tables and indexes of a journal, as they were made."""
    db = sqlite3.connect(path)
    rows = db.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name").fetchall()
    columns = {name: db.execute(f"PRAGMA table_info({name})").fetchall() for name, _ in rows}
    db.close()
    return [(name, str(columns[name] or " ".join(sql.split()).replace("IF NOT EXISTS ", ""))) for name, sql in rows]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_upgraded_journal_is_laid_out_as_a_new_one(tmp_path: Path, file: Path) -> None:
    path = old_journal(tmp_path / "old", file)
    SqliteJournal(path).close()
    SqliteJournal(tmp_path / "new.db").close()
    assert layout(path) == layout(tmp_path / "new.db")
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (schema.FORMAT,)
    kept = {
        (5, "age", "7"), (5, "café", '"crème \\"x\\""'), (5, "user", '"ann"'), (5, "vip", "true"),
        (6, "score", "0.5"), (6, "user", '"ben"'),
    }  # fmt: skip
    found = {(step, name, value) for name, value, step in db.execute("SELECT * FROM labels")}
    first = min(step for step, *_ in found) - 5
    assert {(step - first, *rest) for step, *rest in found} == kept
    db.close()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_memory_goes_on_with_an_old_journal(tmp_path: Path, file: Path) -> None:
    old_journal(tmp_path, file)
    with HierarchicalMemory(tmp_path, embedder="hashing:16", store="exact") as memory:
        assert memory.stats().steps == 5 and len(memory.steps) == 4
        memory.fit([*HISTORY, {"role": "user", "content": "And production?"}], session="team/s1")
        assert "10.0.0.7" in memory.recall("Where is the staging server?").text
    with HierarchicalMemory(tmp_path, embedder="hashing:16", store="exact") as memory:
        assert [row.archived is None for row in memory.long_term.journal.rows()][:4] == [True] * 4


def test_a_history_that_an_older_version_was_given_is_known(tmp_path: Path) -> None:
    old_journal(tmp_path, FILES[3])
    with HierarchicalMemory(tmp_path, embedder="hashing:16", store="exact") as memory:
        memory.fit([*HISTORY, {"role": "user", "content": "And production?"}], session="team/s1")
        assert memory.stats().steps == 6 and memory.long_term.journal.setting("prompts") is None


@pytest.mark.parametrize("file", FILES[1:5], ids=lambda file: file.name)
def test_vectors_stay_those_in_use_and_those_that_were_being_made(tmp_path: Path, file: Path) -> None:
    path = old_journal(tmp_path, file)
    with closing(sqlite3.connect(path)) as db:
        held = [row for (row,) in db.execute("SELECT vector FROM passages ORDER BY id")]
    with closing(SqliteJournal(path)) as journal:
        assert [row.vector for row in journal.passages()] == held and len(held) == 6
        assert len(journal.without_vector(9, embedder="hashing/crc32/32/1")) == 4
        assert journal.maintenance.check_vectors() == ({32: 6}, 0, 0)
        assert journal.maintenance.check_files() == [] and journal.maintenance.check_terms() == (6, None)
    reindexed = reindex(tmp_path, "hashing:32", store="exact")
    assert (reindexed.passages, reindexed.embedded) == (6, 4)


def test_what_an_older_version_had_embedded_in_half_is_embedded_whole(tmp_path: Path) -> None:
    path = old_journal(tmp_path, HALF_EMBEDDED)
    with closing(SqliteJournal(path)) as journal:
        assert journal.counts()["passages"] == 5 and [row.number for row in journal.uncut(9)] == [2, 3, 4]
        assert [place.step for number in (1, 2, 3) for place in journal.places(number)] == [1, 2, 2, 2, 2]
    with HierarchicalMemory(tmp_path, embedder="hashing:16", store="exact") as memory:
        assert "quince" in memory.recall("gate key", max_tokens=200).text
        steps = memory.long_term.fetch(range(9)).values()
        expected = [passage.text for step in steps for passage in passages_of(step)]
        rows = memory.long_term.journal.passages()
        assert [*texts_of(memory.long_term.journal, rows).values()] == expected
        assert memory.stats().waiting_steps == 0
    assert doctor(tmp_path, store="exact").sound


def test_a_killed_upgrade_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old_journal(tmp_path, FILES[-1])
    before = layout(path)
    failing = schema.Migration(schema.FORMAT, "fails", "INSERT INTO nowhere VALUES (1)")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, failing))
        with pytest.raises(StorageError):
            SqliteJournal(path)
    assert layout(path) == before
    with closing(SqliteJournal(path)) as journal:
        assert len(journal.passages()) == 6


def open_memory(folder: Path) -> HierarchicalMemory:
    return HierarchicalMemory(folder, embedder="hashing:16", store="exact")


def found(memory: HierarchicalMemory, question: str) -> list[int]:
    return [int(id) for id in memory.long_term.journal.search_text(question).ids]


@pytest.fixture
def unsplit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory of a version that took every run of Chinese for one word, with an English step and two Chinese ones."""
    with monkeypatch.context() as patch, open_memory(tmp_path) as memory:
        patch.setattr(fulltext, "to_index_text", partial(to_index_text, unsplit=True))
        for text in ("The ladder is behind the shed.", "测试服务器监听端口", "牙医改到了星期四"):
            memory.archive([MessageStep("user", text, session="dentist" if "牙医" in text else None)])
        memory.flush()
        with closing(sqlite3.connect(memory.long_term.journal.location)) as db:
            db.executescript("DELETE FROM meta WHERE key = 'unsplit'")
    return tmp_path


def test_what_was_indexed_without_bigrams_is_named_by_the_doctor_and_found_after_a_rebuild(unsplit: Path) -> None:
    with open_memory(unsplit) as memory:
        assert found(memory, "牙医什么时候？") == []
        memory.archive([MessageStep("user", "牙医又改了时间", session="dentist")])
        memory.flush()
        assert found(memory, "牙医什么时候？") == [4], "what is new is found at once"
    (finding,) = doctor(unsplit, store="exact").findings
    assert finding.problem.startswith("2 passages in Chinese") and "tinymem rebuild" in finding.advice
    rebuild(unsplit, store="exact")
    assert doctor(unsplit, store="exact").sound
    with open_memory(unsplit) as memory:
        assert sorted(found(memory, "牙医什么时候？")) == [3, 4]
        assert found(memory, "ladder") == [1]


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_no_term_of_what_is_forgotten_is_left_however_it_was_indexed(unsplit: Path, is_rebuilt: bool) -> None:
    if is_rebuilt:
        rebuild(unsplit, store="exact")
    with open_memory(unsplit) as memory:
        memory.archive([MessageStep("user", "牙医又改了时间", session="dentist")])
        memory.flush()
        assert memory.forget(session="dentist") == 2
        assert found(memory, "牙医") == [] and found(memory, "ladder") == [1]
    needles = [text.encode() for text in ("牙医", "星期", "时间")]
    assert not any(texts_in(unsplit, *needles).values())
    with closing(sqlite3.connect(unsplit / "default" / "journal.db")) as db:
        left = [term for (term,) in db.execute("SELECT term FROM vocabulary")]
    assert not any(letter in term for term in left for letter in "牙医改星时"), left
    assert doctor(unsplit, store="exact").counts["terms"] == 2
