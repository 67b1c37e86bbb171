"""The tables: numbered files of plain SQL, applied once and in order.

The first memory that is opened makes them, if its user may. Tables of an older version are changed by `migrate` alone,
since other hosts may still use them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors

from tinymem.errors import FormatError, NotAMemoryError, StorageError
from tinymem.stores.postgres.server.errors import guarded

__all__ = ["FILES", "FORMAT", "SCHEMAS", "migrate", "prepare", "script"]

FILES = sorted((Path(__file__).parent / "schema").glob("[0-9]*.sql"))
FORMAT = len(FILES)
LOCK = 7_210_963_377_402  # of the database, while tables are made
HAS_FORMAT = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'tinymem' AND tablename = 'format'"
NUMBERED = "INSERT INTO tinymem.format (version) VALUES ({})"
SCHEMAS = "tinymem, public, extensions"  # an extension may be in one of three
PATH = f"SET LOCAL search_path = {SCHEMAS};"
BEGIN = """
CREATE SCHEMA IF NOT EXISTS tinymem;
CREATE TABLE IF NOT EXISTS tinymem.format (version integer PRIMARY KEY, since timestamptz NOT NULL DEFAULT now());
"""


def script() -> str:
    """Return all of it as one script for psql; each part is left out where it was applied before."""
    parts = [f"CREATE EXTENSION IF NOT EXISTS vector;{BEGIN}{PATH}\n"]
    for number, file in enumerate(FILES, 1):
        parts.append(
            f"SELECT NOT EXISTS (SELECT 1 FROM tinymem.format WHERE version = {number}) AS is_needed \\gset\n"
            f"\\if :is_needed\n-- {file.name}\n\n{file.read_text('utf-8')}\n{NUMBERED.format(number)};\n\\endif\n"
        )
    return "\n".join(["\\set ON_ERROR_STOP on\nBEGIN;", *parts, "COMMIT;\n"])


def prepare(connection: psycopg.Connection[tuple[Any, ...]], place: str, create: bool) -> None:
    """Check that the tables are of this version's format; where there are none, make them if `create`.

    Raises:
        FormatError: They are of another format.
        NotAMemoryError: There are none.
        StorageError: They cannot be made, as without pgvector or the rights.
    """
    with guarded(place):
        version = _version(connection)
    if version == FORMAT:
        return
    if version > FORMAT:
        raise _newer(place, version)
    if version:
        raise FormatError(
            f"{place} has tables of format {version}, this version needs {FORMAT}: stop what uses them, and run "
            "`tinymem migrate URL` as the user who owns them"
        )
    if not create:
        raise NotAMemoryError(f"there is no memory at {place}")
    migrate(connection, place)


def migrate(connection: psycopg.Connection[tuple[Any, ...]], place: str) -> tuple[int, int]:
    """Bring the tables to this version's format, under a lock; return the format before and after.

    Raises:
        FormatError: They are of a newer format.
        StorageError: They cannot be made, as without pgvector or the rights.
    """
    with guarded(place):
        try:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                connection.execute(PATH.encode())
                return _upgrade(connection, place), FORMAT
        except errors.InsufficientPrivilege as error:
            raise StorageError(
                f"{place}: this user may not make tinymem's tables ({error.diag.message_primary}): run `tinymem "
                "migrate URL` as a user who may, or grant CREATE on the database"
            ) from error


def _newer(place: str, version: int) -> FormatError:
    return FormatError(f"{place} has format {version}, this version reads {FORMAT}: upgrade tinymem")


def _version(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    # Not to_regclass: right after the wait for a lock, it does not know yet what the other one has made.
    if connection.execute(HAS_FORMAT).fetchone() is None:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM tinymem.format").fetchone()
    return int(row[0]) if row else 0


def _upgrade(connection: psycopg.Connection[tuple[Any, ...]], place: str) -> int:
    """Apply the files that were not yet, and return the format before."""
    if (version := _version(connection)) > FORMAT:
        raise _newer(place, version)
    if version == FORMAT:  # somebody else was faster
        return version
    _extend(connection, place)
    connection.execute(BEGIN.encode())
    for number, file in enumerate(FILES, 1):
        if number > version:
            connection.execute(file.read_bytes())
            connection.execute(NUMBERED.format(number).encode())
    return version


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
            f"{place}: the server has no pgvector: install it there (Debian: postgresql-NN-pgvector), version 0.8 or "
            "later, and open the memory again"
        ) from error
    if connection.execute("SELECT to_regtype('halfvec')").fetchone() == (None,):
        raise StorageError(
            f"{place}: pgvector there is older than 0.8: update it, and run ALTER EXTENSION vector UPDATE"
        )
