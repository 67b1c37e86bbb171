"""Work on a whole database: its tables, the names of its namespaces, and what forgetting leaves in its files."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg import errors

from tinymem.errors import NotAMemoryError, StorageError
from tinymem.stores.postgres import nearest
from tinymem.stores.postgres.journal import TABLES
from tinymem.stores.postgres.nearest import index_name, index_sql
from tinymem.stores.postgres.server.errors import guarded
from tinymem.stores.postgres.server.pool import Connection, Pool
from tinymem.stores.postgres.server.schema import migrate, prepare

__all__ = ["names", "scrub", "upgrade"]

logger = logging.getLogger(__name__)

DIRECT = "a pooler is in between: give the address of the server itself, not of a pooler"
TIMEOUT = 30.0  # seconds for another one's lock
INDEXING = 7_210_963_377_403  # a lock of the database, while indexes of vectors are made
PAUSE = 0.5  # seconds between two looks if it is free
_INDEXING = "SELECT pg_try_advisory_lock(%s)"
_KEPT = re.compile("([0-9]+) dead row versions cannot be removed")
_OWNER = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'tinymem.namespaces'::regclass"
_USELESS = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE i.indrelid = 'tinymem.vectors'::regclass AND c.relname LIKE 'vectors_nearest_%%' "
    "AND NOT (i.indisvalid AND c.relname = ANY(%s))"
)
_USABLE = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE i.indrelid = 'tinymem.vectors'::regclass AND i.indisvalid AND c.relname = ANY(%s)"
)
_DIMENSIONS = "SELECT vector_dims(vector) FROM vectors WHERE namespace = %s AND embedder = %s LIMIT 1"
_LARGE = (
    "SELECT id, coalesce(value, '') FROM tinymem.namespaces LEFT JOIN tinymem.settings "
    "ON namespace = id AND key = 'embedder' WHERE passages >= %s ORDER BY id"
)
_SIZE = (
    "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class "
    "WHERE relnamespace = 'tinymem'::regnamespace AND relkind = 'r'"
)


@contextmanager
def _connected(url: str, check: bool = True, alone: bool = False) -> Iterator[tuple[Connection, str]]:
    """Lend a connection, and the address without a password; unless `check` is False, the tables are there.

    If it is needed `alone`, raise StorageError where a pooler would lend it to others between two statements.
    """
    pool = Pool(url, TIMEOUT)
    connection = pool.take()
    try:
        if alone and pool.opening:
            raise StorageError(f"{pool.address}: {DIRECT}")
        if check:
            prepare(connection, pool.address, create=False)
        with guarded(pool.address):
            yield connection, pool.address
    finally:
        pool.give(connection)
        pool.drop_idle()


def upgrade(url: str) -> tuple[int, int]:
    """Make the tables, or bring them to this version's format; return the format before and after.

    Large namespaces without an index of their vectors get one, while others read and write.
    """
    with _connected(url, check=False) as (connection, place):
        formats = migrate(connection, place)
        with guarded(place):
            if connection.execute(_OWNER).fetchone() != (True,) or not (_useless(connection) or _missing(connection)):
                return formats
    with _connected(url, alone=True) as (connection, place):
        _wait_for_others(connection, place)
        _make_indexes(connection)
    return formats


def _wait_for_others(connection: Connection, place: str) -> None:
    """Be the only one who makes indexes, as long as the connection lasts.

    A statement that waited for the lock would see a state of the tables, for whose end the other one's index waits.
    """
    has_said = False
    while connection.execute(_INDEXING, (INDEXING,)).fetchone() != (True,):
        if not has_said:
            logger.warning("%s: another process makes indexes of vectors there: waiting until it is done", place)
        has_said = True
        time.sleep(PAUSE)


def _make_indexes(connection: Connection) -> None:
    """Drop and make indexes of vectors, while others read and write."""
    connection.execute("SET statement_timeout = 0")
    for name in _useless(connection):
        connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())
    for id, embedder in _missing(connection):
        row = connection.execute(_DIMENSIONS, (id, embedder)).fetchone()
        if row is not None:
            connection.execute(index_sql(id, embedder, int(row[0])).encode())
            connection.execute("ANALYZE tinymem.vectors")


def _useless(connection: Connection) -> list[str]:
    """Return the indexes of vectors that were interrupted, or are of no namespace, or of an embedder before."""
    used = [index_name(*namespace) for namespace in _namespaces(connection, 1)]
    return [str(name) for (name,) in connection.execute(_USELESS, (used,)).fetchall()]


def _missing(connection: Connection) -> list[tuple[int, str]]:
    """Return the large namespaces, and their embedders, without an index of their vectors that can be used."""
    names = {namespace: index_name(*namespace) for namespace in _namespaces(connection, nearest.INDEXED_FROM)}
    rows = connection.execute(_USABLE, (list(names.values()),)).fetchall()
    columns = {name for (name,) in rows}
    return [namespace for namespace, name in names.items() if name not in columns]


def _namespaces(connection: Connection, passages: int) -> list[tuple[int, str]]:
    """Return the namespaces with so many passages or more, each with its embedder."""
    return [(int(id), embedder) for id, embedder in connection.execute(_LARGE, (passages,)).fetchall()]


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
