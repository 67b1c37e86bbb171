"""The unused bytes of SQLite files: overwritten, without a change of what is used, and without harm to who reads."""

from __future__ import annotations

import os
import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from memories import fill, open_archive, python, said, sentences

from tinymem.errors import StorageError
from tinymem.stores.sqlite.scrubbing import handles
from tinymem.stores.unused import overwrite_unused

DELETED = re.compile(rb"secret0[01]\d\d\d")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    """A database with pages that were split and freed, without secure_delete."""
    path, dice = tmp_path / "some.db", random.Random(1)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA secure_delete=OFF")
        db.execute("CREATE TABLE some (id TEXT PRIMARY KEY, name TEXT, data BLOB)")
        db.execute("CREATE INDEX names ON some (name)")
        for at in dice.sample(range(4_000), 4_000):
            data = dice.randbytes(dice.choice((10, 300, 9_000)))
            db.execute("INSERT INTO some VALUES (?, ?, ?)", (f"secret{at:05}", f"name{at % 97}", data))
            if at % 500 == 0:
                db.commit()
        db.commit()
        db.execute("DELETE FROM some WHERE id < 'secret02000'")
        db.commit()
    opened = os.open(path, os.O_RDWR)
    yield opened
    os.close(opened)


def content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def test_nothing_of_deleted_rows_is_left_and_nothing_else_is_changed(file: int, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "some.db")) as db:
        before = db.execute("SELECT * FROM some ORDER BY id").fetchall()
    assert DELETED.search(content(file))
    assert overwrite_unused(file)
    assert not DELETED.search(content(file))
    assert not overwrite_unused(file), "a second time there is nothing"
    with closing(sqlite3.connect(tmp_path / "some.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT * FROM some ORDER BY id").fetchall() == before


@pytest.mark.parametrize("size", [512, 1_024, 65_536])
def test_pages_may_have_any_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size={size}")
        db.execute("PRAGMA secure_delete=OFF")
        db.execute("CREATE TABLE some (name TEXT)")
        db.executemany("INSERT INTO some VALUES (?)", ((f"secret{at}-" * 20,) for at in range(300)))
        db.execute("DELETE FROM some WHERE rowid % 2")
    opened = os.open(path, os.O_RDWR)
    overwrite_unused(opened)
    found = content(opened)
    os.close(opened)
    assert [f"secret{at}-".encode() in found for at in range(300)] == [bool(at % 2) for at in range(300)]


@pytest.mark.parametrize("trash", [b"", b"no database" * 100, b"SQLite format 3\0" + bytes(200)])
def test_other_files_are_refused(tmp_path: Path, trash: bytes) -> None:
    (tmp_path / "some").write_bytes(trash)
    opened = os.open(tmp_path / "some", os.O_RDWR)
    with pytest.raises(StorageError, match="SQLite"):
        overwrite_unused(opened)
    os.close(opened)
    assert (tmp_path / "some").read_bytes() == trash


# in a journal


OTHER = """
import sys
from pathlib import Path
from tinymem.stores.sqlite.journal import SqliteJournal
journal = SqliteJournal(Path(sys.argv[1]) / "journal.db")
journal.rows(0, 10)  # pages that it keeps in memory
print("open", flush=True)
sys.stdin.readline()
journal.keep({"other": "x" * 2_000})
journal.close()
"""


def test_another_process_that_has_pages_in_memory_does_not_bring_back_what_is_forgotten(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    fill(archive, [said(text) for text in sentences(200)])
    steps = fill(archive, [said("zyxqvortex wobbles", session=f"cellar-{at}") for at in range(50)])
    archive.queue.embed_pending()
    other = python(OTHER, tmp_path)
    assert other.stdout is not None and other.stdout.readline() == "open\n"
    archive.forget([step.step_number or 0 for step in steps])
    other.communicate("go\n")
    assert other.returncode == 0
    archive.journal.keep({"mine": "y" * 2_000})
    for name in ("journal.db", "journal.db-wal"):
        found = (tmp_path / name).read_bytes()
        assert not [word for word in (b"zyxqvortex", b"cellar-", b"wobbl") if word in found], name
    archive.close()


@pytest.mark.skipif(os.name != "posix", reason="no such locks on this system")
def test_forgetting_keeps_the_locks_of_the_journal(tmp_path: Path) -> None:
    """Closing a descriptor of the file would release them; then another process could take the log away."""
    archive, second = open_archive(tmp_path), open_archive(tmp_path)
    steps = fill(archive, [said(text) for text in sentences(20)])
    archive.forget([steps[3].step_number or 0])
    second.close()
    other = python(OTHER, tmp_path)
    assert other.stdout is not None and other.stdout.readline() == "open\n"
    other.communicate("go\n")
    assert (tmp_path / "journal.db-wal").exists(), "the other one was not the last"
    assert len(archive.journal.rows()) == 19
    archive.close()
    assert not (tmp_path / "journal.db-wal").exists()


def test_a_descriptor_is_closed_with_the_last_journal(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"some")
    keys = [handles.add(tmp_path / "file") for _ in range(2)]
    opened = handles.descriptor(tmp_path / "file", keys[0])
    assert handles.descriptor(tmp_path / "file", keys[1]) == opened
    handles.release(keys[0])
    assert os.fstat(opened).st_size == 4
    handles.release(keys[1])
    with pytest.raises(OSError):
        os.fstat(opened)
