"""The journal of a namespace, in a folder or in a database; only this module knows the engines."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from tinymem.errors import MissingExtraError, StorageError
from tinymem.protocols import Journal
from tinymem.stores.sqlite.journal import SqliteJournal
from tinymem.stores.sqlite.pages import SavedStep, saved_steps

__all__ = ["SavedStep", "check_unused", "damaged_file", "has_journal", "has_steps", "is_address",
           "journal_files", "open_journal", "open_shared", "saved_steps"]  # fmt: skip

FILE = "journal.db"
ADDRESSES = ("postgresql://", "postgres://")
CACHE = "TINYMEM_CACHE"  # the variable that has the folder of what is derived from databases


def is_address(place: object) -> bool:
    """Return whether a memory's place is the address of a database, not a folder."""
    return isinstance(place, str) and place.startswith(ADDRESSES)


def open_shared(address: str, namespace: str, create: bool = True) -> tuple[Journal, Path]:
    """Open the journal of a namespace in the PostgreSQL database at `address`; make it if there is none and `create`.

    Returns:
        The journal, and the folder of this host for what is derived from it.

    Raises:
        InputError: This is no address.
        StorageError: The server cannot be reached, or used.
        FormatError: The tables are of a newer format.
        NotAMemoryError: There is no such namespace, and `create` is False.
        MissingExtraError: psycopg is not installed.
    """
    try:
        from tinymem.stores.postgres.journal import PostgresJournal
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise MissingExtraError("a memory in PostgreSQL", "postgres") from error
    journal = PostgresJournal(address, namespace, create)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    named = sha256(f"{journal.location} {journal.identity}".encode()).hexdigest()[:32]
    return journal, Path(os.environ.get(CACHE) or Path(home, "tinymem")) / named


def open_journal(folder: Path, create: bool = True) -> Journal:
    """Open the journal in `folder`, which must exist; make it if there is none and `create`.

    Raises:
        StorageError: The journal cannot be opened.
        FormatError: The journal is damaged, or of a newer format.
    """
    return SqliteJournal(folder / FILE, create)


def has_journal(folder: Path) -> bool:
    """Return whether there is a journal in `folder`."""
    return (folder / FILE).exists()


def has_steps(folder: Path) -> bool:
    """Return whether the journal in `folder` holds a step, or may hold one, since it is damaged or in use."""
    with closing(sqlite3.connect(folder / FILE, timeout=0)) as db:
        try:
            return db.execute("SELECT 1 FROM steps LIMIT 1").fetchone() is not None
        except sqlite3.DatabaseError as error:
            return "no such table" not in str(error)


def check_unused(folder: Path) -> None:
    """Raise StorageError if the journal in `folder` is open anywhere: SQLite leaves WAL mode only for a sole user."""
    try:
        with closing(sqlite3.connect(folder / FILE, timeout=0)) as db:
            db.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StorageError(f"{folder} is in use: close the memories that have it open first") from error
    except sqlite3.DatabaseError:
        pass  # a damaged journal may be removed as well


def journal_files(folder: Path) -> set[Path]:
    """Return the journal's files in `folder`, without other files there."""
    return {*folder.glob(f"{FILE}*")}


def damaged_file(path: Path) -> Path | None:
    """Return the file that `saved_steps` reads: `path` itself, or the journal in the folder `path`, if there is one."""
    return next((file for file in (path, path / FILE) if file.is_file()), None)
