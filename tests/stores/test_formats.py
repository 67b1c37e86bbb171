"""Journals of older formats: they are upgraded when they are opened, and a memory goes on with them."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tinymem import HierarchicalMemory
from tinymem.stores.sqlite import schema
from tinymem.stores.sqlite.journal import SqliteJournal
from tinymem.upkeep import reindex

# 5 steps in two sessions, one archived, two with metadata; of format 2 with passages, two of them half reindexed
FILES = [Path(__file__).parent / f"format_{version}.db.gz" for version in range(1, schema.FORMAT)]
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
        (5, "age", "7"),
        (5, "café", '"crème \\"x\\""'),
        (5, "user", '"ann"'),
        (5, "vip", "true"),
        (6, "score", "0.5"),
        (6, "user", '"ben"'),
    }
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


def test_vectors_stay_where_token_ids_go(tmp_path: Path) -> None:
    path = old_journal(tmp_path, FILES[1])
    with closing(sqlite3.connect(path)) as db:
        held = [row for (row,) in db.execute("SELECT vector FROM passages ORDER BY id")]
    with closing(SqliteJournal(path)) as journal:
        assert [row.vector for row in journal.passages()] == held and len(held) == 6
        assert journal.reindexed() == (2, 6) and journal.check_vectors().cut_short == 0
        assert journal.check_files() == [] and journal.check_terms() == (6, None)
    reindexed = reindex(tmp_path, "hashing:32", store="exact")
    assert (reindexed.passages, reindexed.embedded) == (6, 4)
