"""The tables: numbered files of plain SQL, applied once and in order, by the first process that finds them missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors

from tinymem.errors import FormatError, NotAMemoryError, StorageError
from tinymem.stores.postgres.errors import guarded

__all__ = ["FILES", "FORMAT", "prepare"]

FILES = sorted((Path(__file__).parent / "schema").glob("[0-9]*.sql"))
FORMAT = len(FILES)
LOCK = 7_210_963_377_402  # of the database, while tables are made
HAS_FORMAT = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'tinymem' AND tablename = 'format'"
BEGIN = """
CREATE SCHEMA IF NOT EXISTS tinymem;
CREATE TABLE IF NOT EXISTS tinymem.format (version integer PRIMARY KEY, since timestamptz NOT NULL DEFAULT now());
"""


def prepare(connection: psycopg.Connection[tuple[Any, ...]], place: str, create: bool) -> None:
    """Bring the tables to this version's format, made if `create`.

    Raises:
        FormatError: They are of a newer format.
        NotAMemoryError: There are none.
        StorageError: They cannot be made, as without pgvector or the rights.
    """
    with guarded(place):
        if (version := _version(connection)) == FORMAT:
            return
        if not version and not create:
            raise NotAMemoryError(f"there is no memory at {place}")
        try:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                _upgrade(connection, place)
        except errors.InsufficientPrivilege as error:
            raise StorageError(
                f"{place}: this user may not make tinymem's tables ({error.diag.message_primary}): open the memory "
                f"once as a user who may, or grant CREATE on the database"
            ) from error


def _version(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    # Not to_regclass: right after the wait for a lock, it does not know yet what the other one has made.
    if connection.execute(HAS_FORMAT).fetchone() is None:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM tinymem.format").fetchone()
    return int(row[0]) if row else 0


def _upgrade(connection: psycopg.Connection[tuple[Any, ...]], place: str) -> None:
    if (version := _version(connection)) > FORMAT:
        raise FormatError(f"{place} has format {version}, this version reads {FORMAT}: upgrade tinymem")
    if version == FORMAT:  # somebody else was faster
        return
    _extend(connection, place)
    connection.execute(BEGIN)
    for number, file in enumerate(FILES, 1):
        if number > version:
            connection.execute(file.read_bytes())
            connection.execute("INSERT INTO tinymem.format (version) VALUES (%s)", (number,))


def _extend(connection: psycopg.Connection[tuple[Any, ...]], place: str) -> None:
    """Make sure that pgvector is there, with half precision."""
    try:
        if connection.execute("SELECT to_regtype('vector')").fetchone() == (None,):
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except errors.InsufficientPrivilege as error:
        raise StorageError(
            f"{place}: the database lacks pgvector, and this user may not add it: have an administrator run "
            "CREATE EXTENSION vector in it"
        ) from error
    except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
        raise StorageError(
            f"{place}: the server has no pgvector: install it there (Debian: postgresql-NN-pgvector), version 0.7 or "
            "later, and open the memory again"
        ) from error
    if connection.execute("SELECT to_regtype('halfvec')").fetchone() == (None,):
        raise StorageError(
            f"{place}: pgvector there is older than 0.7: update it, and run ALTER EXTENSION vector UPDATE"
        )
