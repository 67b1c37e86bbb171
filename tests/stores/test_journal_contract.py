"""The journals: each passes the public contract; what is special to an engine is tested beside this."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from pooler import Pooler
from postgres_server import PostgresServer

from tinymem.protocols import Journal
from tinymem.stores.journals import open_journal
from tinymem.stores.sqlite.journal import SqliteJournal
from tinymem.testing import JOURNAL_CHECKS

OpenJournal = Callable[[str], Journal]


contract = pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)


@contract
def test_the_journal_in_sqlite_keeps_the_contract(tmp_path: Path, check: Callable[[OpenJournal], None]) -> None:
    check(lambda name: SqliteJournal(tmp_path / f"{name}.db"))


@contract
def test_the_journal_in_postgresql_keeps_the_contract(
    postgres: PostgresServer, check: Callable[[OpenJournal], None]
) -> None:
    from tinymem.stores.postgres.journal import PostgresJournal

    test = uuid4()
    check(lambda name: PostgresJournal(postgres.url(), f"{test} {name}"))


@contract
def test_the_journal_behind_a_pooler_keeps_the_contract(pooler: Pooler, check: Callable[[OpenJournal], None]) -> None:
    from tinymem.stores.postgres.journal import PostgresJournal

    test = uuid4()
    check(lambda name: PostgresJournal(pooler.url(), f"{test} {name}"))


def test_a_folder_has_one_journal(tmp_path: Path) -> None:
    with closing(open_journal(tmp_path)) as one, closing(open_journal(tmp_path, create=False)) as other:
        one.keep({"key": "value"})
        assert other.setting("key") == "value"
