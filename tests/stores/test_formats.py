"""Journals of older formats: they are upgraded when they are opened, and a memory goes on with them."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

from tinymem import HierarchicalMemory
from tinymem.stores.sqlite import schema
from tinymem.stores.sqlite.journal import SqliteJournal

FILE = Path(__file__).parent / "format_1.db.gz"  # 5 steps in two sessions, one archived, two with metadata
HISTORY = [
    {"role": "user", "content": "The staging server is at 10.0.0.7."},
    {"role": "assistant", "content": "Noted."},
]


def old_journal(folder: Path) -> Path:
    """Make a memory whose journal has format 1."""
    with HierarchicalMemory(folder, embedder="hashing:16", store="exact"):
        pass
    path = folder / "default" / "journal.db"
    for file in path.parent.glob("journal.db*"):
        file.unlink()
    path.write_bytes(gzip.decompress(FILE.read_bytes()))
    return path


def layout(path: Path) -> list[tuple[str, str]]:
    """The tables and indexes of a journal, as they were made."""
    db = sqlite3.connect(path)
    rows = db.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name").fetchall()
    columns = {name: db.execute(f"PRAGMA table_info({name})").fetchall() for name, _ in rows}
    db.close()
    return [(name, str(columns[name] or " ".join(sql.split()).replace("IF NOT EXISTS ", ""))) for name, sql in rows]


def test_an_upgraded_journal_is_laid_out_as_a_new_one(tmp_path: Path) -> None:
    path = old_journal(tmp_path / "old")
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


def test_a_memory_goes_on_with_an_old_journal(tmp_path: Path) -> None:
    old_journal(tmp_path)
    with HierarchicalMemory(tmp_path, embedder="hashing:16", store="exact") as memory:
        assert memory.stats().steps == 5 and len(memory.steps) == 4
        memory.fit([*HISTORY, {"role": "user", "content": "And production?"}], session="team/s1")
        assert "10.0.0.7" in memory.recall("Where is the staging server?").text
    with HierarchicalMemory(tmp_path, embedder="hashing:16", store="exact") as memory:
        assert [row.archived is None for row in memory.long_term.journal.rows()][:4] == [True] * 4
