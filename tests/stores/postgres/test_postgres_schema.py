"""The tables of a database: how they are made, and who may use which namespaces."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from journal_rows import add_next, put, row
from postgres_server import PostgresServer, binaries

from tinymem.errors import FormatError, NotAMemoryError, StorageError
from tinymem.protocols import StepNote
from tinymem.stores.journals import erase_shared, schema, scrub_shared, shared_names

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")
from tinymem.stores.postgres.server.schema import FORMAT  # noqa: E402
from tinymem.stores.postgres.server.values import hash_of  # noqa: E402

OpenJournal = Callable[..., Any]

OCCURRENCES = "occurrences(%s, %s::bigint[], 12000)"
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'tinymem'"


@pytest.fixture
def role(postgres: PostgresServer) -> Iterator[Callable[..., str]]:
    """Makes a role that may use some namespaces, and returns its address."""
    made: list[str] = []

    def maker(*namespaces: str, url: str = "") -> str:
        made.append(f"role_{uuid4().hex[:12]}")
        with psycopg.connect(url or postgres.url(), autocommit=True) as db:
            db.execute(f"CREATE ROLE {made[-1]} LOGIN PASSWORD 'word'")
            for namespace in namespaces:
                db.execute("CALL tinymem.allow(%s, %s)", (made[-1], namespace))
        return postgres.url(user=made[-1], password="word")

    yield maker
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        for name in made:
            db.execute("DELETE FROM tinymem.access WHERE role = to_regrole(%s)", (name,))
            db.execute(f"DROP OWNED BY {name}")
            db.execute(f"DROP ROLE {name}")


# -- the tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [FORMAT - 1, FORMAT + 1])
def test_tables_of_another_format_are_refused_and_the_error_says_what_to_do(
    version: int, fresh: str, open_journal: OpenJournal
) -> None:
    open_journal(url=fresh).close()
    with psycopg.connect(fresh, autocommit=True) as db:
        db.execute("UPDATE tinymem.format SET version = %s", (version,))
        for use in (lambda: open_journal(url=fresh), lambda: shared_names(fresh), lambda: scrub_shared(fresh)):
            with pytest.raises(FormatError, match=rf"of format {version}, .* reads {FORMAT}: export its memories with"):
                use()
        assert db.execute("SELECT version FROM tinymem.format").fetchall() == [(version,)]


def test_the_printed_schema_makes_the_same_tables(fresh: str, postgres: PostgresServer, open_journal: Any) -> None:
    folder = binaries()
    assert folder is not None
    if not os.access(folder / "psql", os.X_OK):
        pytest.skip("no psql here")
    made, again = (
        subprocess.run([str(folder / "psql"), "-q", fresh], input=schema(), text=True, capture_output=True, check=False)
        for _ in range(2)
    )
    assert (made.returncode, made.stderr) == (0, "") and 'relation "format" already exists' in again.stderr
    open_journal()
    with psycopg.connect(fresh) as one, psycopg.connect(postgres.url()) as other:
        assert sorted(one.execute(TABLES).fetchall()) == sorted(other.execute(TABLES).fetchall())
    add_next(open_journal(url=fresh, create=True), "one")


# -- namespaces -------------------------------------------------------------------------------------------------------


def test_a_namespace_is_removed_with_everything_in_it(fresh: str, open_journal: OpenJournal) -> None:
    one, other = open_journal("one", url=fresh), open_journal("other", url=fresh)
    for journal in (one, other):
        put(journal, ["kumquat marmalade", "pears"])
        journal.add([row(3)])
        assert journal.put_passages([3], [], [StepNote(3, 0, "/w/a.py", b"1234")])
    erase_shared(fresh, one.name)
    with psycopg.connect(fresh) as db:
        tables = [name for (name,) in db.execute(TABLES).fetchall() if name not in ("format", "access", "namespaces")]
        assert len(tables) == 11
        for table in tables:
            sql = f"SELECT count(*) FROM tinymem.{table} WHERE namespace = %s"
            assert db.execute(sql, (one.id,)).fetchone() == (0,), table
    assert shared_names(fresh) == [other.name]
    assert other.maintenance.check_terms() == (2, None)
    with pytest.raises(NotAMemoryError):
        erase_shared(fresh, one.name)


def test_what_is_open_elsewhere_does_not_write_to_a_namespace_that_is_gone(
    fresh: str, open_journal: OpenJournal
) -> None:
    late = open_journal(url=fresh)
    add_next(late, "one")
    erase_shared(fresh, late.name)
    for _ in range(2):  # the second time, another one has made it again
        for use in (lambda: add_next(late, "two"), late.version, lambda: late.search_text("two")):
            with pytest.raises(NotAMemoryError, match="was forgotten since it was opened"):
                use()
        again = open_journal(url=fresh)
    assert again.rows() == []


# -- who may use which ------------------------------------------------------------------------------------------------


def test_a_role_sees_and_writes_only_what_it_was_allowed(open_journal: OpenJournal, role: Callable[..., str]) -> None:
    mine, theirs = open_journal("mine"), open_journal("theirs")
    for journal in (mine, theirs):
        put(journal, ["The grandmother bakes."])
    ann = role(mine.name)
    allowed = open_journal("mine", url=ann, create=False)
    assert (len(allowed.rows()), allowed.search_text("grandmother").ids.tolist()) == (1, [1])
    put(allowed, ["A grandfather sleeps."])
    allowed.delete({1: ["The grandmother bakes."]})
    assert mine.maintenance.check_terms() == (1, None)
    assert shared_names(ann) == [mine.name]
    with pytest.raises(NotAMemoryError):
        open_journal("theirs", url=ann, create=False)
    for create in ("theirs", "new"):
        with pytest.raises(StorageError, match=r"row-level security.*CALL tinymem.allow"):
            open_journal(create, url=ann)
    with psycopg.connect(ann) as db:
        for (table,) in db.execute(TABLES).fetchall():
            if table not in ("namespaces", "format"):
                sql = f"SELECT count(*) FROM tinymem.{table} WHERE namespace <> %s"
                assert db.execute(sql, (mine.id,)).fetchone() == (0,), table
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for this namespace"):
            db.execute(f"SELECT * FROM tinymem.{OCCURRENCES}", (theirs.id, [theirs.fulltext.hash_stem("grandmoth")]))
    with psycopg.connect(ann) as db, pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        db.execute("INSERT INTO tinymem.settings VALUES (%s, 'key', 'value')", (theirs.id,))
    with psycopg.connect(ann) as db, pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute("TRUNCATE tinymem.steps")
    assert len(theirs.rows()) == 1


def test_a_role_cannot_take_the_place_of_another_name(
    open_journal: OpenJournal, role: Callable[..., str], postgres: PostgresServer
) -> None:
    mine = open_journal("mine")
    ann, boss = role(mine.name), f"{mine.name} boss"
    with psycopg.connect(ann, autocommit=True) as db:
        with suppress(psycopg.Error):  # as a name was found before
            db.execute("UPDATE tinymem.namespaces SET id = %s WHERE name = %s", (hash_of(boss), mine.name))
        for name in (boss, mine.name):
            with pytest.raises(psycopg.Error, match=r"row-level security|duplicate key"):
                db.execute("INSERT INTO tinymem.namespaces (id, name) VALUES (%s, %s)", (1, name))
    put(open_journal(boss), ["The grandmother bakes."])
    with psycopg.connect(ann) as db:
        assert db.execute("SELECT name FROM tinymem.namespaces").fetchall() == [(mine.name,)]
        assert db.execute("SELECT count(*) FROM tinymem.steps").fetchone() == (0,)


def test_a_role_that_was_allowed_nothing_sees_nothing(
    open_journal: OpenJournal, role: Callable[..., str], postgres: PostgresServer
) -> None:
    mine = open_journal("mine")
    ann = role(mine.name)
    open_journal("mine", url=ann)
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute("CALL tinymem.deny(%s, %s)", (ann.split("/")[2].split(":")[0], mine.name))
    assert shared_names(ann) == []
    with pytest.raises(StorageError):
        open_journal("mine", url=ann + "?application_name=again")
    with pytest.raises(StorageError, match=r"permission denied for schema tinymem.*CALL tinymem.allow"):
        open_journal("mine", url=role())


@pytest.mark.parametrize("away", ["DROP OWNED BY {0}; DROP ROLE {0}", "ALTER ROLE {0} RENAME TO {0}_before"])
def test_the_name_of_a_role_that_is_gone_gives_its_namespaces_to_nobody(
    away: str, open_journal: OpenJournal, role: Callable[..., str], postgres: PostgresServer
) -> None:
    mine, other = open_journal("mine"), open_journal("other")
    ann = role(mine.name)
    name = ann.split("/")[2].split(":")[0]
    assert shared_names(ann) == [mine.name]
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute(away.format(name))
        db.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'word'")
        db.execute("CALL tinymem.allow(%s, %s)", (name, other.name))
        assert shared_names(ann) == [other.name]
        if "RENAME" in away:
            assert shared_names(postgres.url(user=f"{name}_before", password="word")) == [mine.name]
            db.execute(f"DROP OWNED BY {name}_before")
            db.execute(f"DROP ROLE {name}_before")


def test_a_beginning_and_all_may_be_allowed(open_journal: OpenJournal, role: Callable[..., str]) -> None:
    base = open_journal("").name
    journals = [open_journal(name) for name in ("team/a", "team/b", "other")]
    for journal in journals:
        put(journal, ["The grandmother bakes."])
    team, everything = role(f"{base}team/*"), role("*")
    assert shared_names(team) == [f"{base}team/a", f"{base}team/b"]
    assert {journal.name for journal in journals} <= {*shared_names(everything)}
    open_journal("team/new", url=team)
    for url, name in ((team, "team/a"), (everything, "other")):
        assert len(open_journal(name, url=url).search_text("grandmother").ids) == 1


# -- what forgetting leaves -------------------------------------------------------------------------------------------


def test_a_scrubbed_database_has_nothing_of_what_was_removed_in_its_files(
    fresh: str, postgres: PostgresServer, open_journal: OpenJournal
) -> None:
    journal = open_journal(url=fresh)
    secret, kept = "kumquat marmalade of aunt Ottilie", "pears and apples"
    with journal.together():
        for text in (secret, kept):
            add_next(journal, f"id of {text}")
    journal.keep({"scratchpad": secret})
    journal.keep({"scratchpad": ""})
    journal.delete({1: []})
    with closing(psycopg.connect(fresh, autocommit=True)) as db:
        db.execute("CHECKPOINT")
        oid = db.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()[0]
    folder = Path(postgres.data) / "base" / str(oid)

    def holds(text: str) -> bool:
        return any(text.encode() in file.read_bytes() for file in folder.iterdir() if file.is_file())

    assert holds(secret) and holds(kept)
    before, after = scrub_shared(fresh)
    assert 0 < after <= before
    with closing(psycopg.connect(fresh, autocommit=True)) as db:
        db.execute("CHECKPOINT")
    assert not holds(secret) and holds(kept)
    assert [row.number for row in journal.rows()] == [2]


def test_a_scrub_that_another_program_hinders_says_so(fresh: str, open_journal: OpenJournal) -> None:
    journal = open_journal(url=fresh)
    add_next(journal, "one")
    with psycopg.connect(fresh) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM pg_class LIMIT 1")
        journal.delete({1: []})
        with pytest.raises(StorageError, match=r"removed rows are in the files still.*scrub again"):
            scrub_shared(fresh)
    scrub_shared(fresh)
