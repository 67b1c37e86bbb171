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

from tinymem.errors import InputError, StorageError
from tinymem.stores.sqlite.journal import SqliteJournal

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")
OpenJournal = Callable[..., Any]


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


def test_a_writer_that_waits_too_long_is_an_error(open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal()
    hasty = open_journal(url=journal._url + "?application_name=hasty", timeout=0.2)
    with journal.together():
        with pytest.raises(StorageError, match="another process has been writing"):
            add_next(hasty, "late")
        add_next(journal, "id")
    add_next(hasty, "then")
    assert [found.id for found in journal.rows()] == ["id", "then"]


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
