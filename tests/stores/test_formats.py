"""Journals of older formats: they are upgraded when they are opened, and a memory goes on with them."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tinymem import HierarchicalMemory
from tinymem.archive.rows import texts_of
from tinymem.errors import StorageError
from tinymem.recall.passages import passages_of
from tinymem.stores.sqlite import schema
from tinymem.stores.sqlite.journal import SqliteJournal
from tinymem.upkeep import doctor, reindex

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
