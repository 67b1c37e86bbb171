"""What is special to the journal in PostgreSQL; the contract is tested beside SQLite's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from journal_rows import add_next, put, row
from memories import sentences
from postgres_server import ESCAPED, PASSWORD, PostgresServer
from wire import Wire

from tinymem.errors import InputError, StorageError
from tinymem.stores.sqlite.journal import SqliteJournal

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")
OpenJournal = Callable[..., Any]


def test_a_writer_among_others_reads_what_they_have_written(open_journal: OpenJournal, trips: list[int]) -> None:
    journal, other = open_journal(), open_journal()
    seen = list[list[str]]()

    def add(again: bool = False) -> None:
        own = max((one.number for one in journal.rows() if one.id.startswith("own")), default=0)
        add_next(other, f"other-{own}")
        trips.clear()
        with journal.together():
            number = journal.next_number()
            seen.append([one.id for one in journal.rows(window=True) if one.number > own])
            journal.add([row(number, f"own-{number}", position=journal.end())])
            if again:
                seen.append([one.id for one in journal.rows(window=True) if one.number > own])
        taken.append(len(trips))

    taken = list[int]()
    add()
    add()
    assert (taken, seen) == ([3, 3], [["other-0"], ["other-2"]])
    add(again=True)
    assert seen[2:] == [["other-4"], ["other-4", "own-6"]]


def test_a_snapshot_asks_for_its_settings_once(open_journal: OpenJournal, wire: Wire, wired: str) -> None:
    journal = open_journal(url=wired)
    journal.keep({"a": "1", "b": "2"})
    before = wire.round_trips
    with journal.snapshot():
        assert [journal.setting(key) for key in ("a", "b", "c")] == ["1", "2", None]
        assert (journal.next_number(), journal.end()) == (1, 0)
        journal.version()
    assert wire.round_trips - before == 2  # the head, and the end


def test_scores_are_those_of_sqlite(open_journal: OpenJournal, tmp_path: Path) -> None:
    texts = [*sentences(300), "loadConfig loads config", "", "naïve café", "windows " * 40]
    journal = open_journal()
    with closing(SqliteJournal(tmp_path / "journal.db")) as other:
        for each in (journal, other):
            put(each, texts)
            each.delete({5: [texts[4]]})
        for query in (*texts[::23], "which config is loaded", "NAIVE cafes", "window", "nobody", ""):
            some = np.arange(1, 400, 3)
            for among in (None, some):
                found, expected = (each.search_text(query, among) for each in (journal, other))
                assert found.ids.tolist() == expected.ids.tolist(), query
                np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
                np.testing.assert_allclose(np.sort(found.rarity), np.sort(expected.rarity), rtol=1e-6)
                covered = [
                    (one.terms[:, None] >> np.arange(len(one.rarity)) & 1) @ one.rarity for one in (found, expected)
                ]
                np.testing.assert_allclose(covered[0], covered[1], rtol=1e-5)
                assert found.unseen == pytest.approx(expected.unseen)


def test_texts_with_nul_come_back(open_journal: OpenJournal) -> None:
    journal = open_journal()
    for number, text in enumerate(("a\0b", "\x1a", "\x1a0", "\x1a1\0", "\0" * 3), 1):
        journal.add([row(number, session=text, record=text)])
        assert (journal.rows()[-1].record, journal.rows()[-1].session) == (text, text)


def test_namespaces_do_not_meet(open_journal: OpenJournal) -> None:
    one, other = open_journal("one"), open_journal("other")
    put(one, ["The grandmother bakes."])
    assert (other.rows(), other.passages(), other.setting("made")) == ([], [], None)
    assert len(other.search_text("grandmother").ids) == 0
    put(other, ["A grandmother sleeps.", "The cat too."])
    assert [len(each.search_text("grandmother").ids) for each in (one, other)] == [1, 1]
    other.delete({1: ["A grandmother sleeps."]})
    assert len(one.rows()) == 1 and not any(each.maintenance.check_terms().fault for each in (one, other))


def test_what_is_forgotten_is_in_no_row(open_journal: OpenJournal, postgres: PostgresServer) -> None:
    journal = open_journal()
    put(journal, ["kumquat marmalade", "pears"])
    journal.messages.put([])
    (stem,) = {journal.fulltext.hash_stem("kumquat")}
    journal.delete({1: ["kumquat marmalade"]})
    with psycopg.connect(postgres.url()) as db:
        for table, column in (("stems", "stem"), ("terms", "passage"), ("passages", "step"), ("steps", "number")):
            sql = f"SELECT count(*) FROM tinymem.{table} WHERE namespace = %s AND {column} = %s"
            assert db.execute(sql, (journal.id, stem if column == "stem" else 1)).fetchone() == (0,)
    assert journal.maintenance.check_terms() == (1, None)


def test_a_damaged_index_is_found_and_made_again(open_journal: OpenJournal, postgres: PostgresServer) -> None:
    journal, texts = open_journal(), ["kumquat marmalade", "pears"]
    for damage in (
        "DELETE FROM tinymem.terms WHERE namespace = %s AND passage = 2",
        "UPDATE tinymem.stems SET passages = passages + 1 WHERE namespace = %s",
        "UPDATE tinymem.terms SET length = length + 1 WHERE namespace = %s",
    ):
        put(journal, texts)
        with psycopg.connect(postgres.url()) as db:
            db.execute(damage, (journal.id,))
        assert journal.maintenance.check_terms().fault
        journal.maintenance.clear_passages()
        assert journal.maintenance.check_terms() == (0, None)


# -- the server ---------------------------------------------------------------------------------------------------


def test_a_wrong_password_is_an_error_without_it(postgres: PostgresServer, open_journal: OpenJournal) -> None:
    with pytest.raises(StorageError, match=r"cannot be reached: .*password authentication failed.*check the user") as e:
        open_journal(url=postgres.url(password="not-" + ESCAPED))
    assert PASSWORD not in str(e.value) and ESCAPED not in str(e.value)


@pytest.mark.parametrize("url", ["postgresql://me:pa:ss@word@host:port/db", "postgresql://me:%zz@h/db", "host"])
def test_what_is_no_address_is_not_repeated(url: str, open_journal: OpenJournal) -> None:
    with pytest.raises((InputError, StorageError)) as e:
        open_journal(url=url)
    assert "pa:ss" not in str(e.value) and "%zz" not in str(e.value)


def test_a_server_that_is_not_there_is_said_at_once(open_journal: OpenJournal, postgres: PostgresServer) -> None:
    with pytest.raises(StorageError, match=r"127.0.0.1:1/.* cannot be reached: .*refused.*; start the server"):
        open_journal(url=postgres.url().replace(str(postgres.port), "1"))
    with pytest.raises(StorageError, match="make the database, or check its name"):
        open_journal(url=postgres.url("nothing"))


def test_a_user_without_rights_hears_what_to_do(open_journal: OpenJournal, postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS bare")
        db.execute("DROP ROLE IF EXISTS guest")
        db.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        db.execute("CREATE DATABASE bare")
    url = postgres.url("bare", "guest", "guest")
    with pytest.raises(StorageError, match=r"may not make tinymem's tables .* run `tinymem schema \| psql URL`"):
        open_journal(url=url)
    open_journal(url=postgres.url("bare"))
    with pytest.raises(StorageError, match=r"run CALL tinymem\.allow"):
        open_journal(url=url)


def test_many_make_the_tables_once(open_journal: OpenJournal, postgres: PostgresServer) -> None:
    from tinymem.stores.postgres.server.pool import Pool

    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS fresh")
        db.execute("CREATE DATABASE fresh")
    failed: list[BaseException] = []

    def prepare() -> None:
        pool = Pool(postgres.url("fresh"), 30)
        try:
            pool.prepare(True)
        except BaseException as error:
            failed.append(error)
        pool.drop_idle()

    threads = [threading.Thread(target=prepare) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_time_limit_is_an_error_that_says_so(open_journal: OpenJournal, postgres: PostgresServer) -> None:
    journal = open_journal()
    put(journal, ["a text"])
    hurried = open_journal(url=postgres.url() + "?options=-c%20statement_timeout%3D200")
    with pytest.raises(StorageError, match="time limit for a statement is over"):
        hurried.read("SELECT pg_sleep(5)")
    assert len(hurried.rows()) == 1


def test_a_writer_that_waits_too_long_is_an_error(open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal()
    hasty = open_journal(url=journal._url + "?application_name=hasty", timeout=0.2)
    with journal.together():
        with pytest.raises(StorageError, match="another process has been writing"):
            add_next(hasty, "late")
        add_next(journal, "id")
    add_next(hasty, "then")
    assert [found.id for found in journal.rows()] == ["id", "then"]


def test_a_full_pool_is_an_error(open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinymem.stores.postgres.server.pool.SIZE", 1)
    url = open_journal()._url + "?application_name=small"
    one, other = (open_journal(url=url, timeout=0.2) for _ in range(2))
    with one.together(), pytest.raises(StorageError, match="all 1 connections of this process are in use"):
        other.rows()
    assert other.rows() == []


def test_a_server_that_compiles_or_plans_otherwise_does_not_here(open_journal: OpenJournal) -> None:
    others = "?options=-c%20jit%3Don%20-c%20plan_cache_mode%3Dforce_generic_plan"
    journal = open_journal(url=open_journal()._url + others)
    shown = journal.read("SELECT current_setting('jit'), current_setting('plan_cache_mode')")
    assert shown == [("off", "auto")]


def test_only_statements_by_keys_are_planned_once(open_journal: OpenJournal) -> None:
    journal = open_journal(url=open_journal()._url + "?application_name=planned")  # a connection of its own
    for at in range(12):
        journal.version()
        add_next(journal, f"id-{at}")
        journal.search_text("windows")
        journal.rows(session="a")
    prepared = dict(journal.read("SELECT statement, generic_plans > 0 FROM pg_prepared_statements"))
    planned_once = {" ".join(statement.split()[:3]) for statement, is_general in prepared.items() if is_general}
    assert {"SELECT version, next_number,", "INSERT INTO steps", "WITH wrote AS"} <= planned_once
    assert not any("session = $" in statement for statement in prepared)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_leaves_the_connections_alone(open_journal: OpenJournal) -> None:
    journal = open_journal()
    add_next(journal, "before")
    if (child := os.fork()) == 0:
        try:
            journal.rows()
        except StorageError as error:
            os._exit(0 if "before a fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    add_next(journal, "after")
    assert [found.id for found in journal.rows()] == ["before", "after"]
