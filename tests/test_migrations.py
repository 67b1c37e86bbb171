"""Journals of older formats, from files that these formats wrote: each is brought up whole, or stays as it is."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from make_journals import ARCHIVED, DATA, EMBEDDER, history
from memories import LATER, texts_in

from tinymem import FormatError, HierarchicalMemory, MessageStep, StorageError, problems
from tinymem.stores import schema
from tinymem.stores.schema import FORMAT, MIGRATIONS, Migration
from tinymem.stores.sqlite import SqliteJournal

OLDER = range(1, FORMAT)


@pytest.fixture(params=OLDER, ids="format {}".format)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the file of an older format, in the namespace of a memory."""
    return a_memory(tmp_path / "memory", DATA / f"journal-{request.param}.db")


def a_memory(folder: Path, journal: Path) -> Path:
    (folder / "default").mkdir(parents=True)
    (folder / "tinymem.json").write_text('{"format": 1}')
    return Path(shutil.copy(journal, folder / "default" / "journal.db"))


def opened(journal: Path) -> HierarchicalMemory:
    return HierarchicalMemory(journal.parents[1], embedder=EMBEDDER, store="exact", create=False)


def structure(path: Path) -> dict[str, Any]:
    """The format, and the columns and indexes of each table."""
    found: dict[str, Any] = {}
    with sqlite3.connect(path) as db:
        found["format"] = db.execute("PRAGMA user_version").fetchone()
        for kind, name in db.execute("SELECT type, name FROM sqlite_master").fetchall():
            found[name] = db.execute(f"PRAGMA {'table' if kind == 'table' else 'index'}_info({name})").fetchall()
    db.close()
    return found


def content(path: Path) -> list[str]:
    with sqlite3.connect(path) as db:
        dump = [f"PRAGMA user_version={db.execute('PRAGMA user_version').fetchone()[0]}", *db.iterdump()]
    db.close()
    return dump


def test_the_migrations_are_numbered_and_a_file_of_every_older_format_is_kept() -> None:
    assert [migration.to for migration in MIGRATIONS] == list(range(2, FORMAT + 1))
    assert sorted(path.name for path in DATA.glob("journal-*.db")) == [f"journal-{version}.db" for version in OLDER]
    for version in OLDER:
        assert structure(DATA / f"journal-{version}.db")["format"] == (version,)


def test_an_older_file_gets_the_tables_of_a_new_one(journal: Path, tmp_path: Path) -> None:
    SqliteJournal(tmp_path / "new.db").close()
    SqliteJournal(journal).close()
    assert structure(journal) == structure(tmp_path / "new.db")
    SqliteJournal(journal).close()
    assert structure(journal)["format"] == (FORMAT,)


def test_an_older_memory_goes_on_with_all_that_it_has(journal: Path) -> None:
    steps = history()
    with opened(journal) as memory:
        rows = memory.long_term.journal.rows()
        assert list(memory.long_term.fetch([row.number for row in rows]).values()) == steps
        assert [step.id for step in memory.short_term.steps] == [step.id for step in steps[ARCHIVED:]]
        assert [row.id for row in rows if row.milestone] == ["answer-0", "answer-1", "answer-2"]
        assert "gauge 7 of pump 1 shows 50 bar" in memory.recall("gauge 7 of pump 1", 300, now=LATER).text
        assert len(memory.long_term.catalog) > len(steps)
        context = memory.context("gauge 7 of pump 1", max_tokens=1_000)
        assert problems(context.messages) == [] and "pump 1 shows 50" in str(context.messages)
        assert memory.add(MessageStep("user", "Next.")).number == len(steps) + 1
        assert sum(1 for _ in memory.medium_term) == 3  # of 3 sessions
        assert memory.forget(["look-1"]) == 1
        memory.long_term.journal._read("INSERT INTO fulltext(fulltext) VALUES ('integrity-check')")
        assert texts_in(journal.parent, b"of pump 1 shows", b"look-1") == {b"of pump 1 shows": [], b"look-1": []}


@pytest.mark.parametrize(("version", "failing"), [(v, to) for v in OLDER for to in range(v + 1, FORMAT + 1)])
def test_an_upgrade_that_fails_half_way_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, failing: int
) -> None:
    journal = a_memory(tmp_path, DATA / f"journal-{version}.db")
    before = content(journal)
    broken = [Migration(m.to, m.why, f"{m.sql} nonsense;" if m.to == failing else m.sql) for m in MIGRATIONS]
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", broken)
        with pytest.raises(StorageError):
            SqliteJournal(journal)
    assert content(journal) == before
    with opened(journal) as memory:
        assert memory.stats().steps == len(history())


def test_a_newer_format_is_refused_and_no_byte_of_it_changed(tmp_path: Path) -> None:
    journal = a_memory(tmp_path, DATA / f"journal-{FORMAT - 1}.db")
    with sqlite3.connect(journal) as db:
        db.execute(f"PRAGMA user_version={FORMAT + 1}")
        db.execute("PRAGMA journal_mode=DELETE")  # who knows what a newer one uses
    db.close()
    before = journal.read_bytes()
    for _ in range(2):
        with pytest.raises(FormatError, match=rf"has format {FORMAT + 1}, this version reads {FORMAT}: upgrade"):
            opened(journal)
        assert journal.read_bytes() == before
        assert [path.name for path in journal.parent.iterdir()] == ["journal.db"]
