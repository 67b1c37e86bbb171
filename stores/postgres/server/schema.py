"""The tables, as plain SQL. The first memory that is opened makes them, if its user may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors

from tinymem.errors import FormatError, NotAMemoryError, StorageError
from tinymem.stores.postgres.server.errors import guarded

__all__ = ["FORMAT", "prepare", "script"]

FORMAT = 13
TABLES = Path(__file__).parent / "schema" / "tables.sql"
LOCK = 7_210_963_377_402  # of the database, while tables are made
HAS_FORMAT = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'tinymem' AND tablename = 'format'"
BEGIN = f"""
CREATE SCHEMA IF NOT EXISTS tinymem;
SET LOCAL search_path = tinymem;
CREATE TABLE format (version integer PRIMARY KEY, since timestamptz NOT NULL DEFAULT now());
INSERT INTO format (version) VALUES ({FORMAT});

"""


def script() -> str:
    """Return the SQL that makes the tables, for psql, where there are none yet."""
    return f"\\set ON_ERROR_STOP on\nBEGIN;{_tables()}COMMIT;\n"


def _tables() -> str:
    return BEGIN + TABLES.read_text("utf-8")


def prepare(connection: psycopg.Connection[tuple[Any, ...]], place: str, create: bool) -> None:
    """Check that the tables are of this version's format; where there are none, make them if `create`.

    Raises:
        FormatError: They are of another format.
        NotAMemoryError: There are none.
        StorageError: They cannot be made.
    """
    with guarded(place):
        if _is_made(connection, place):
            return
        if not create:
            raise NotAMemoryError(f"there is no memory at {place}")
        try:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                if not _is_made(connection, place):  # or somebody else was faster
                    connection.execute(_tables().encode())
        except errors.InsufficientPrivilege as error:
            raise StorageError(
                f"{place}: this user may not make tinymem's tables ({error.diag.message_primary}): run `tinymem schema "
                "| psql URL` as a user who may, or grant CREATE on the database"
            ) from error


def _is_made(connection: psycopg.Connection[tuple[Any, ...]], place: str) -> bool:
    """Return whether there are tables; FormatError for those of another format."""
    # Not to_regclass: right after the wait for a lock, it does not know yet what the other one has made.
    if connection.execute(HAS_FORMAT).fetchone() is None:
        return False
    row = connection.execute("SELECT coalesce(max(version), 0) FROM tinymem.format").fetchone()
    if (version := int(row[0]) if row else 0) != FORMAT:
        raise FormatError(
            f"{place} has tables of format {version}, this version reads {FORMAT}: export its memories with the "
            "version of tinymem that wrote them and import them into another database, or drop the schema tinymem"
        )
    return True
