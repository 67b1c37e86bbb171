"""What is special to the journal in SQLite: what its file holds, what it refuses, and who else has it open."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from memories import Entry, add, entry, said, texts_in

from tinymem.errors import FormatError, StorageError
from tinymem.stores.sqlite.journal import SqliteJournal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(tmp_path / "journal.db")
    yield opened
    opened.close()


def entries_of(journal: SqliteJournal, *texts: str) -> list[Entry]:
    first = journal.next_number()
    return [entry(said(text, number), 7 * (number - 1)) for number, text in enumerate(texts, first)]


def filled(journal: SqliteJournal, *texts: str) -> list[Entry]:
    """Add steps, and make their passages."""
    entries = entries_of(journal, *texts)
    add(journal, entries)
    return entries


def removal(entries: list[Entry]) -> dict[int, list[str]]:
    return {row.number: [passage.text for passage in passages] for row, passages in entries}


def test_a_step_is_on_disk_once_it_is_added(journal: SqliteJournal) -> None:
    assert journal.read("PRAGMA journal_mode") == [("wal",)]
    assert journal.read("PRAGMA synchronous") == [(2,)]  # FULL
    filled(journal, "passages", "are not waited for")
    assert journal.read("PRAGMA synchronous") == [(2,)]  # but that is over with their transaction


def test_any_number_of_steps_is_read_at_once(journal: SqliteJournal) -> None:
    journal.add([row for row, _ in entries_of(journal, *(f"text {n}" for n in range(1_201)))])
    assert len(journal.steps(range(1, 2_000))) == 1_201
    assert [len(journal.rows(after, 500)) for after in (0, 500, 1_000, 1_201)] == [500, 500, 201, 0]


# forgotten


def test_a_scrub_while_somebody_reads_says_that_the_file_is_not_clean_yet(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", timeout=0.2)
    entries = filled(journal, "zyxqvortex", "stays")
    reader = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM steps").fetchone()
    journal.delete(removal(entries[:1]))
    with pytest.raises(StorageError, match="reads"):
        journal.maintenance.scrub()
    reader.close()
    journal.maintenance.scrub()
    assert texts_in(tmp_path, b"zyxqvortex") == {b"zyxqvortex": []}
    assert [row.number for row in journal.rows()] == [2]
    journal.close()


# files that are no journal


@pytest.mark.permissions
def test_a_read_only_folder_is_a_storage_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    tmp_path.chmod(0o555)
    with pytest.raises(StorageError, match="check that the folder exists and is writable"):
        SqliteJournal(path)
    tmp_path.chmod(0o755)
    journal = SqliteJournal(path)
    filled(journal, "text")
    journal.close()
    tmp_path.chmod(0o555)
    path.chmod(0o444)
    with closing(SqliteJournal(path)) as journal, pytest.raises(StorageError, match="writable"):
        filled(journal, "more")
    tmp_path.chmod(0o755)
    journal = SqliteJournal(path)
    assert len(journal.rows()) == 1
    journal.close()


def test_a_journal_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="unable to open"):
        SqliteJournal(tmp_path / "journal.db", create=False)
    with pytest.raises(StorageError, match="unable to open"):
        SqliteJournal(tmp_path / "no" / "journal.db")
    assert list(tmp_path.iterdir()) == []


def test_a_name_with_signs_that_mean_something_in_an_address_is_only_a_name(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode("50% a?b#c&mode=ro é".encode())
    folder.mkdir()
    SqliteJournal(folder / "journal.db").close()
    assert os.listdir(folder) == ["journal.db"]


@pytest.mark.parametrize("content", [b"not a database at all", b"PK\x03\x04" + bytes(5_000)])
def test_another_kind_of_file_is_a_format_error_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="damaged or not a journal"):
        SqliteJournal(path)
    assert path.read_bytes() == content


# together


def test_a_writer_that_holds_the_file_too_long_is_a_storage_error(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", timeout=0.2)
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="another process is writing; try again"):
        filled(journal, "text")
    other.close()
    filled(journal, "text")
    journal.close()
