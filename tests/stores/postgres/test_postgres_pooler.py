"""A pooler between a memory and its database, which gives every transaction whatever connection is free."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from journal_rows import add_next, put
from memories import sentences
from pooler import Pooler, pgbouncer
from postgres_server import PostgresServer

from tinymem import HierarchicalMemory, MessageStep
from tinymem.errors import StorageError
from tinymem.stores.journals import scrub_shared
from tinymem.upkeep import doctor

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")
if pgbouncer() is None:
    pytest.skip("pgbouncer is not installed", allow_module_level=True)

from tinymem.stores.postgres.journal import PostgresJournal  # noqa: E402


@pytest.fixture
def narrow(postgres: PostgresServer) -> Iterator[Pooler]:
    """A pooler with one connection, which it leaves as a transaction left it."""
    made = Pooler(postgres, 1, resets=False)
    yield made
    made.stop()


def test_a_memory_behind_a_pooler_gives_the_same(
    pooler: Pooler, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYMEM_CACHE", str(tmp_path / "cache"))
    name, found = str(uuid4()), []
    for url in (pooler.url(), postgres.url()):
        with HierarchicalMemory(url, namespace=name, window_tokens=500) as memory:
            if not memory.steps:
                memory.add_steps([MessageStep("user", text, session="a") for text in sentences(300)])
                memory.flush()
            asked = [memory.recall(text, 300, session="a") for text in sentences(300)[::60]]
            found.append([[(item.step.id, round(item.score, 3)) for item in one.items] for one in asked])
            assert memory.context("windows", max_tokens=900).messages
    assert found[0] == found[1] and all(found[0])
    assert doctor(pooler.url(), name).sound


def test_tables_are_made_through_a_pooler(pooler: Pooler, fresh: str) -> None:
    with closing(PostgresJournal(pooler.url(fresh.rpartition("/")[2]), "first")) as journal:
        put(journal, ["said once"])
        assert [step.number for step in journal.rows()] == [1]


def test_writers_take_turns_on_few_connections(narrow: Pooler) -> None:
    name = str(uuid4())

    def write(at: int) -> None:
        with closing(PostgresJournal(narrow.url(), name)) as journal:
            for count in range(25):
                add_next(journal, f"{at}-{count}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    with closing(PostgresJournal(narrow.url(), name)) as journal:
        assert [row.number for row in journal.rows()] == [*range(1, 101)]


def test_no_setting_is_left_on_a_connection_of_others(narrow: Pooler) -> None:
    settings = ("search_path", "lock_timeout", "plan_cache_mode", "jit")

    def shown() -> list[str]:
        with psycopg.connect(narrow.url(), autocommit=True) as db:
            return [db.execute(f"SHOW {name}").fetchone()[0] for name in settings]

    before = shown()
    with closing(PostgresJournal(narrow.url(), str(uuid4()))) as journal:
        put(journal, sentences(5))
        journal.search_text("windows")
        assert journal.read("SELECT current_setting('jit')") == [("off",)]
    assert shown() == before


def test_what_needs_a_connection_of_its_own_says_so(pooler: Pooler, fresh: str) -> None:
    url = pooler.url(fresh.rpartition("/")[2])
    with (
        closing(PostgresJournal(url, "first")),
        pytest.raises(StorageError, match="the server itself, not of a pooler"),
    ):
        scrub_shared(url)
