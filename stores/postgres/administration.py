"""Work on a whole database: the names of its namespaces, and what forgetting leaves in its files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg import errors

from tinymem.errors import NotAMemoryError, StorageError
from tinymem.stores.postgres.journal import TABLES
from tinymem.stores.postgres.server.errors import guarded
from tinymem.stores.postgres.server.pool import Connection, Pool
from tinymem.stores.postgres.server.schema import prepare

__all__ = ["names", "scrub"]

DIRECT = "a pooler is in between: give the address of the server itself, not of a pooler"
TIMEOUT = 30.0  # seconds for another one's lock
_KEPT = re.compile("([0-9]+) dead row versions cannot be removed")
_OWNER = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'tinymem.namespaces'::regclass"
_SIZE = (
    "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class "
    "WHERE relnamespace = 'tinymem'::regnamespace AND relkind = 'r'"
)


@contextmanager
def _connected(url: str, alone: bool = False) -> Iterator[tuple[Connection, str]]:
    """Lend a connection to the tables, and the address without a password.

    If it is needed `alone`, raise StorageError where a pooler would lend it to others between two statements.
    """
    pool = Pool(url, TIMEOUT)
    connection = pool.take()
    try:
        if alone and pool.opening:
            raise StorageError(f"{pool.address}: {DIRECT}")
        prepare(connection, pool.address, create=False)
        with guarded(pool.address):
            yield connection, pool.address
    finally:
        pool.give(connection)
        pool.drop_idle()


def names(url: str) -> list[str]:
    """Return the namespaces that this user may use, sorted; none if there are no tables yet."""
    with suppress(NotAMemoryError), _connected(url) as (connection, _):
        return sorted(str(name) for (name,) in connection.execute("SELECT name FROM tinymem.namespaces").fetchall())
    return []


def scrub(url: str) -> tuple[int, int]:
    """Write all tables and indexes again, without what was removed; return their bytes before and after.

    Nobody can use them meanwhile. The server's log of writes and its backups keep what they have.

    Raises:
        StorageError: This user does not own the tables, or they are in use for too long.
    """
    with _connected(url, alone=True) as (connection, place):
        if connection.execute(_OWNER).fetchone() != (True,):
            raise StorageError(f"{place}: only the owner of the tables can write them again: scrub as that user")
        said: list[str] = []
        connection.add_notice_handler(lambda notice: said.append(f"{notice.message_primary} {notice.message_detail}"))
        with suppress(errors.InsufficientPrivilege):
            connection.execute("SET lc_messages = 'C'")
        connection.execute("SET statement_timeout = 0")
        before = _size(connection)
        tables = ("namespaces", *TABLES)
        with connection.transaction():  # once this waited, no reader has a state from before the last removal
            connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE".encode())
        for table in tables:
            connection.execute(f"VACUUM (FULL, ANALYZE, VERBOSE) {table}".encode())
        if kept := sum(map(int, _KEPT.findall("\n".join(said)))):
            raise StorageError(
                f"{place}: {kept} removed rows are in the files still, since a transaction of another program may read "
                "them: end it, and scrub again"
            )
        return before, _size(connection)


def _size(connection: Connection) -> int:
    row = connection.execute(_SIZE).fetchone()
    return int(row[0]) if row else 0
