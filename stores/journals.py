"""The journal of a namespace, in a folder or in a database; only this module knows the engines."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tinymem.errors import MissingExtraError, StorageError
from tinymem.protocols import Journal
from tinymem.stores.sqlite.database import RECOVERY, check_format
from tinymem.stores.sqlite.fulltext import SqliteFullText
from tinymem.stores.sqlite.journal import SqliteJournal

if TYPE_CHECKING:
    from tinymem.stores.postgres.journal import PostgresJournal

__all__ = ["RECOVERY", "check_unused", "erase_shared", "full_text_in_memory", "has_journal", "has_steps",
           "is_address", "journal_files", "open_journal", "open_shared", "schema", "scrub_shared", "shared_names",
           "shown_address"]  # fmt: skip

FILE = "journal.db"
ADDRESSES = ("postgresql://", "postgres://")
CACHE = "TINYMEM_CACHE"  # the variable that has the folder of what is derived from databases


@contextmanager
def full_text_in_memory() -> Iterator[SqliteFullText]:
    """Open an empty full-text index in memory; it ends with the block."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:  # its averages are of what is committed
        yield SqliteFullText(db)


def is_address(place: object) -> bool:
    """Return whether a memory's place is the address of a database, not a folder."""
    return isinstance(place, str) and place.startswith(ADDRESSES)


def open_shared(address: str, namespace: str, create: bool = True) -> tuple[PostgresJournal, Path]:
    """Open the journal of a namespace in the PostgreSQL database at `address`; make it if there is none and `create`.

    Returns:
        The journal, and the folder of this host for what is derived from it.

    Raises:
        InputError: This is no address.
        StorageError: The server cannot be reached, or used.
        FormatError: The tables are of another format.
        NotAMemoryError: There is no such namespace, and `create` is False.
        MissingExtraError: psycopg is not installed.
    """
    with _extra():
        from tinymem.stores.postgres.journal import PostgresJournal
    journal = PostgresJournal(address, namespace, create)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    named = sha256(f"{journal.location} {journal.identity}".encode()).hexdigest()[:32]
    return journal, Path(os.environ.get(CACHE) or Path(home, "tinymem"), named)


@contextmanager
def _extra() -> Iterator[None]:
    """Raise MissingExtraError where an import fails because psycopg is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise MissingExtraError("a memory in PostgreSQL", "postgres") from error


def shown_address(address: str) -> str:
    """Return an address without its password and options; InputError if it is none."""
    with _extra():
        from tinymem.stores.postgres.server.errors import address as without_password
    return without_password(address)


def erase_shared(address: str, namespace: str) -> None:
    """Remove a namespace of a database, and what this host derived from it; NotAMemoryError if there is none."""
    journal, folder = open_shared(address, namespace, create=False)
    with closing(journal):
        journal.erase()
    shutil.rmtree(folder, ignore_errors=True)


def shared_names(address: str) -> list[str]:
    """Return the namespaces of a database that this user may use, sorted; errors as in `open_shared`."""
    with _extra():
        from tinymem.stores.postgres.administration import names
    return names(address)


def schema() -> str:
    """Return the SQL that makes the tables, as a script for psql."""
    with _extra():
        from tinymem.stores.postgres.server.schema import script
    return script()


def scrub_shared(address: str) -> tuple[int, int]:
    """Write the tables of a database again, without what was forgotten; return their bytes before and after."""
    with _extra():
        from tinymem.stores.postgres.administration import scrub
    return scrub(address)


def open_journal(folder: Path, create: bool = True, read_only: bool = False) -> Journal:
    """Open the journal in `folder`, which must exist; make it if there is none and `create`.

    One that may only be read is opened to read, as any is that is opened `read_only`.

    Raises:
        StorageError: The journal cannot be opened.
        FormatError: The journal is damaged, or of another format.
    """
    return SqliteJournal(folder / FILE, create, read_only=read_only)


def has_journal(folder: Path) -> bool:
    """Return whether there is a journal in `folder`."""
    return (folder / FILE).exists()


def has_steps(folder: Path) -> bool:
    """Return whether the journal in `folder` holds a step, or may hold one, since it is damaged or in use."""
    try:
        with closing(sqlite3.connect(folder / FILE, timeout=0)) as db:
            return db.execute("SELECT 1 FROM steps LIMIT 1").fetchone() is not None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter if SQLite quotes a damaged schema
        return "no such table" not in str(error)


def check_unused(folder: Path) -> None:
    """Raise StorageError if the journal in `folder` is open anywhere: SQLite leaves WAL mode only for a sole user.

    A journal of another format is a FormatError, and not touched.
    """
    try:
        with closing(sqlite3.connect(folder / FILE, timeout=0)) as db:
            check_format(db, folder / FILE)
            db.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StorageError(f"{folder} is in use: close the memories that have it open first") from error
    except sqlite3.DatabaseError:
        pass  # a damaged journal may be removed as well


def journal_files(folder: Path) -> set[Path]:
    """Return the journal's files in `folder`, without other files there."""
    return {*folder.glob(f"{FILE}*")}
