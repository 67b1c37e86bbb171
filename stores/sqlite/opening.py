"""Opening of a journal's file: its tables are made, or it is opened as one that may only be read.

That is on a read-only disk, or where this user has no rights to write.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tinymem.stores.files import make_private_file
from tinymem.stores.sqlite.database import FORMAT, check_format, version_of

__all__ = ["open_file"]

logger = logging.getLogger(__name__)

# Pages after which the write-ahead log begins again at its start. A commit takes half as long again while the log
# grows, and with SQLite's own 1,000 that is for hundreds of adds after every opening.
LOG_PAGES = 250
LOGS = ("-wal", "-shm")  # what SQLite puts beside the file, and its index
LOOKS = 4
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, session TEXT, speaker TEXT,
    time REAL NOT NULL, tokens INTEGER NOT NULL, position INTEGER NOT NULL, record TEXT NOT NULL,
    window INTEGER NOT NULL, view TEXT, milestone INTEGER NOT NULL DEFAULT 0, archived REAL);
CREATE INDEX IF NOT EXISTS steps_in_window ON steps (number) WHERE window = 1;
CREATE INDEX IF NOT EXISTS steps_by_session ON steps (session);
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER NOT NULL, part INTEGER NOT NULL, start INTEGER NOT NULL,
    end INTEGER NOT NULL, kind TEXT NOT NULL, asks INTEGER NOT NULL, identifiers BLOB NOT NULL, tools TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS passages_by_step ON passages (step);
CREATE TABLE IF NOT EXISTS vectors (
    embedder TEXT NOT NULL, passage INTEGER NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (passage, embedder)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS summaries (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, session TEXT, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS messages (
    said TEXT NOT NULL, nth INTEGER NOT NULL, step INTEGER NOT NULL, is_last INTEGER NOT NULL,
    PRIMARY KEY (said, nth)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS labels (
    name TEXT NOT NULL, value TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (name, value, step)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS labels_by_step ON labels (step);
CREATE TABLE IF NOT EXISTS notes (
    step INTEGER NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (step, place)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS notes_by_key ON notes (key);
"""


class _FileState(NamedTuple):
    """The time, size and inode of a journal, and the size of its log: another state shows that it was written."""

    time: int
    size: int
    inode: int
    logged: int


def open_file(
    path: Path, create: bool, timeout: float, read_only: bool
) -> tuple[sqlite3.Connection, bool, Callable[[], bool] | None]:
    """Connect to the journal at `path`, made if `create`.

    Returns:
        The connection, whether it may only be read, and what says if the file is unchanged, where nobody may write it.

    Raises:
        sqlite3.Error: It cannot be opened, as where a killed process left a log without its index that may be written.
        FormatError: It has another format.
    """
    if not (read_only or _is_read_only(path)):
        try:
            return _open_to_write(path, create, timeout), False, None
        except sqlite3.Error as error:
            if "disk" not in str(error) or not path.exists():
                raise
            logger.warning("opening %s to read only: %s", path, error)  # a full disk has no room for SQLite's own files
    db, state = _open_to_read(path, timeout, read_only)
    return db, True, None if state is None else lambda: _state_of(path) == state


def _open_to_write(path: Path, create: bool, timeout: float) -> sqlite3.Connection:
    """Connect to the journal at `path`, made if `create`, with all tables of this format.

    Raises:
        sqlite3.Error: It cannot be opened.
        FormatError: It has another format.
    """
    if create:
        with suppress(OSError):  # SQLite raises a clearer error
            make_private_file(path)  # SQLite gives its other files the same permissions
    uri = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
    db = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None, timeout=timeout)
    deadline = time.monotonic() + timeout
    try:
        while True:  # SQLite does not wait when two openers change the file's mode or make tables
            try:
                _prepare(db, path)
                return db
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)
    except BaseException:
        db.close()
        raise


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    check_format(db, path)  # before anything is changed
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY"):
        db.execute(f"PRAGMA {pragma}")
    db.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
    if not version_of(db):
        make_tables(db)
    check_format(db, path)  # another version may have made it meanwhile


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, once even if several processes open the file."""
    db.execute("BEGIN IMMEDIATE")
    try:
        if not version_of(db):  # or another process was faster
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _is_read_only(path: Path) -> bool:
    """Return True if the journal is there, and it, its log or their folder may not be written."""
    logs = (path.with_name(f"{path.name}{end}") for end in LOGS)
    return os.access(path, os.F_OK) and any(map(_is_refused, (path.parent, path, *logs)))


def _is_refused(place: Path) -> bool:
    """Return True if a file or folder is there and may not be written; a log may go and come between two looks."""
    by_effective_user = os.access in os.supports_effective_ids
    return all(
        not os.access(place, os.W_OK, effective_ids=by_effective_user) and os.access(place, os.F_OK)
        for _ in range(LOOKS)
    )


def _state_of(path: Path) -> _FileState | None:
    """Return the state of a journal's files; None where they cannot be reached any more."""
    logged = 0
    try:
        file = path.stat()
        with suppress(FileNotFoundError):
            logged = path.with_name(f"{path.name}-wal").stat().st_size
    except OSError:
        return None
    return _FileState(file.st_mtime_ns, file.st_size, file.st_ino, logged)


def _open_to_read(path: Path, timeout: float, alone: bool = False) -> tuple[sqlite3.Connection, _FileState | None]:
    """Connect to a journal that may only be read, and write nothing beside it.

    A log is read with its index, which others may go on writing. A process that has no other connection to it, `alone`,
    does not write the index even where it could: a writer may have lost its locks by reading the file. Without a log
    SQLite would have to make one, so the file is opened as one that nobody writes.

    Returns:
        The connection, and the state in which the files must stay; None where they may be written.

    Raises:
        sqlite3.Error: The journal cannot be read, as where a killed process left a log without its index.
        FormatError: It has another format.
    """
    state = _state_of(path)
    has_log = state is not None and state.logged > 0
    if alone:
        has_log |= all(path.with_name(f"{path.name}{end}").exists() for end in LOGS)
    how = f"mode=ro&readonly_shm={int(alone)}" if has_log else "immutable=1"
    uri = f"{path.absolute().as_uri()}?{how}"
    db = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None, timeout=timeout)
    try:
        check_format(db, path)
        db.execute("PRAGMA temp_store=MEMORY")
    except BaseException:
        db.close()
        raise
    return db, None if has_log else state
