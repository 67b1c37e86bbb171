"""What is special to the journal in SQLite: what its file holds, what it refuses, and who else has it open."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import Entry, add, entry, put, said, texts_in
from strategies import MODERATE

from tinymem.archive.rows import uncut
from tinymem.errors import FormatError, StorageError, TinymemError
from tinymem.steps.serialization import load_step
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


def waiting(journal: SqliteJournal, *texts: str) -> list[Entry]:
    """Add steps whose passages are not made yet."""
    entries = entries_of(journal, *texts)
    journal.add([row for row, _ in entries])
    return entries


def found(journal: SqliteJournal, query: str) -> list[int]:
    return [int(id) for id in journal.search_text(query).ids]


def removal(entries: list[Entry]) -> dict[int, list[str]]:
    return {row.number: [passage.text for passage in passages] for row, passages in entries}


def test_add_is_synchronous_and_logged_ahead(journal: SqliteJournal) -> None:
    assert journal.read("PRAGMA journal_mode") == [("wal",)]
    assert journal.read("PRAGMA synchronous") == [(2,)]  # FULL
    filled(journal, "passages", "are not waited for")
    assert journal.put_vectors([], np.zeros((0, 8), np.float32), "", "")
    with pytest.raises(ValueError):
        journal.put_vectors([], np.zeros((1, 8), np.float32), "", "")
    assert journal.read("PRAGMA synchronous") == [(2,)]  # but that is over with their transaction


def test_where_a_step_is_put_into_the_window_and_out_of_it_the_view_wins(journal: SqliteJournal) -> None:
    filled(journal, "one", "two")
    journal.set_window([2], {2: "{}"})
    assert [row.view for row in journal.rows(window=True)] == [None, "{}"]
    assert load_step(journal.rows()[1].record).text == "two", "the record stays whole behind its view"
    journal.set_window([2], {})
    assert [row.view for row in journal.rows()] == [None, None]


def test_any_number_of_steps_is_read_at_once(journal: SqliteJournal) -> None:
    journal.add([row for row, _ in entries_of(journal, *(f"text {n}" for n in range(1_201)))])
    assert len(journal.steps(range(1, 2_000))) == 1_201
    assert [len(journal.rows(after, 500)) for after in (0, 500, 1_000, 1_201)] == [500, 500, 201, 0]


def test_settings_are_kept_all_or_none(journal: SqliteJournal) -> None:
    assert journal.setting("a") is None
    journal.keep({"a": "1", "b": "2"})
    with pytest.raises(TinymemError):
        journal.keep({"a": "9", "c": None})  # type: ignore[dict-item]
    assert [journal.setting(key) for key in "abc"] == ["1", "2", None]


@settings(MODERATE, max_examples=20)
@given(
    st.lists(st.tuples(st.sampled_from("aaappdwv"), st.integers(1, 4), st.randoms(use_true_random=False)), max_size=12)
)
def test_the_journal_holds_what_a_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, random.Random]]
) -> None:
    with closing(
        SqliteJournal(tmp_path_factory.mktemp("journal") / "journal.db")
    ) as journal:  # a draw may end the test
        held: dict[int, Entry] = {}
        outside: set[int] = set()
        used = made = 0  # the last numbers that were given, and whose passages were made
        for kind, count, dice in operations:
            some = dice.sample(sorted(held), min(count, len(held)))
            if kind == "a":
                new = {
                    n: entry(said(f"shared word{n} and text {'long ' * 99 * n}", n))
                    for n in range(used + 1, used + 1 + count)
                }
                used += count
                journal.add([row for row, _ in new.values()])
                held.update(new)
            elif kind == "p" and (new := {n: held[n] for n in sorted(held) if n > made}):
                made = [*new][:count][-1]
                assert put(journal, [held for n, held in new.items() if n <= made])
            elif kind == "d":
                gone = removal([held.pop(n) for n in some])
                assert journal.delete({n: texts if n <= made else [] for n, texts in gone.items()})
                outside -= set(some)
            elif kind == "w":
                journal.set_window(some, {})
                outside |= set(some)
            else:
                journal.set_window([], dict.fromkeys(some))
                outside -= set(some)
            assert [row.number for row in journal.rows()] == sorted(held)
            assert [row.number for row in journal.rows(window=True)] == sorted(set(held) - outside)
            assert journal.next_number() == used + 1
            embedded = {n for n in held if n <= made}
            assert journal.counts()["passages"] == sum(len(held[n][1]) for n in embedded)
            assert journal.counts()["waiting_steps"] == len(held) - len(embedded)
            assert (journal.waiting_tokens() > 0) == (len(embedded) < len(held))
            owner = dict(journal.read("SELECT id, step FROM passages"))
            assert {owner[id] for id in found(journal, "shared")} == embedded
            assert all({owner[id] for id in found(journal, f"word{n}")} == {n} & embedded for n in range(1, used + 1))


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


@pytest.mark.parametrize("kept", ["one", "1 2"])
def test_a_damaged_number_of_what_is_cut_is_a_format_error(journal: SqliteJournal, kept: str) -> None:
    waiting(journal, "one")
    journal.keep({"made": kept})
    for use in (lambda: uncut(journal, 9), journal.waiting_tokens, journal.counts, lambda: filled(journal, "two")):
        with pytest.raises(FormatError, match=r"journal\.db is damaged"):
            use()
    assert len(journal.rows()) == 1


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
