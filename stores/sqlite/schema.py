"""The journal's file: its tables, upgrades from older formats, and tinymem's errors for those of SQLite."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tinymem.errors import ClosedError, FormatError, InputError, StorageError
from tinymem.stores.files import make_private_file

__all__ = ["FORMAT", "MIGRATIONS", "RECOVERY", "Migration", "check_format", "damaged", "guarded", "open_connection"]

FORMAT = 3
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
    end INTEGER NOT NULL, kind TEXT NOT NULL, asks INTEGER NOT NULL, vector BLOB NOT NULL, identifiers BLOB NOT NULL,
    tools TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS passages_by_step ON passages (step);
CREATE TABLE IF NOT EXISTS summaries (
    level INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, session TEXT, text TEXT NOT NULL,
    PRIMARY KEY (level, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reindexed (passage INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS links (
    link TEXT PRIMARY KEY, alike TEXT NOT NULL, step INTEGER NOT NULL, place INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS links_alike ON links (alike, step);
CREATE TABLE IF NOT EXISTS labels (
    name TEXT NOT NULL, value TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (name, value, step)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS labels_by_step ON labels (step);
"""


class Migration(NamedTuple):
    """An upgrade from the format before `to` to that one, in one transaction with all later ones."""

    to: int
    why: str
    sql: str


# Upgrades of older formats, in order. Each is complete in itself and never changes, and a file of the format before it
# is kept for the tests.
MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        2,
        "histories that are handed over again are known message by message, and metadata is searched",
        """
ALTER TABLE steps ADD COLUMN archived REAL;
CREATE TABLE links (
    link TEXT PRIMARY KEY, alike TEXT NOT NULL, step INTEGER NOT NULL, place INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX links_alike ON links (alike, step);
CREATE TABLE labels (
    name TEXT NOT NULL, value TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (name, value, step)) WITHOUT ROWID;
CREATE INDEX labels_by_step ON labels (step);
INSERT OR IGNORE INTO labels
    SELECT key, CASE label.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE json_quote(value) END, number
    FROM steps, json_each(CASE WHEN json_valid(record) THEN record ELSE '{}' END, '$.metadata') AS label
    WHERE label.type IN ('text', 'integer', 'real', 'true', 'false') AND length(value) <= 1000;
""",
    ),
    Migration(
        3,
        "questions and passages are no longer compared token by token",
        """
ALTER TABLE passages DROP COLUMN tokens;
ALTER TABLE reindexed DROP COLUMN tokens;
""",
    ),
)

# Pages after which the write-ahead log begins again at its start. A commit takes half as long again while the log
# grows, and with SQLite's own 1,000 that is for hundreds of adds after every opening.
LOG_PAGES = 250

RECOVERY = "`sqlite3 journal.db .recover` reads what can be read of it"
_QUOTES = " with text "  # after it, the sqlite3 module quotes a text that is not UTF-8


def damaged(path: Path, reason: object) -> FormatError:
    """Return the error for a damaged file, with advice."""
    return FormatError(
        f"{path} is damaged or not a journal: {reason}; restore it from a backup or import an export; without either, "
        f"{RECOVERY}"
    )


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Raise tinymem's errors for those of SQLite, each with advice."""
    try:
        yield
    except (sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
        if "closed" in str(error):
            raise ClosedError(f"the memory at {path} is closed") from error
        raise InputError(f"a value that cannot be stored: {error}") from error
    except (UnicodeEncodeError, OverflowError) as error:  # a lone surrogate, a number of over 64 bits
        raise InputError(f"a value that cannot be stored: {error}") from error
    except UnicodeDecodeError as error:  # also from SQLite's own error text, if it quotes a damaged schema
        raise damaged(path, error) from error
    except sqlite3.OperationalError as error:
        if _QUOTES in str(error):
            raise damaged(path, str(error).partition(_QUOTES)[0]) from None
        hint = {
            "readonly": "make the folder writable",
            "unable to open": "check that the folder exists and is writable",
            "locked": "another process is writing; try again",
            "full": "free some disk space",
        }
        advice = next((text for key, text in hint.items() if key in str(error)), "check the disk and the folder")
        raise StorageError(f"{path}: {error}; {advice}") from error
    except sqlite3.DatabaseError as error:
        raise damaged(path, error) from error


def open_connection(path: Path, create: bool, timeout: float) -> sqlite3.Connection:
    """Connect to the journal at `path`, made if `create`, with all tables of this format.

    Raises:
        FormatError: The file has a newer format, or is not a journal.
    """
    with guarded(path):
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
    if _version(db) < FORMAT:
        _make_tables(db)
    check_format(db, path)  # a newer version may have opened it meanwhile


def check_format(db: sqlite3.Connection, path: Path) -> None:
    """Raise FormatError where a newer version wrote the journal."""
    if (version := _version(db)) > FORMAT:
        raise FormatError(f"{path} has format {version}, this version reads {FORMAT}: upgrade tinymem")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, or upgrade those of an older format, once even if several processes open the file."""
    db.execute("BEGIN IMMEDIATE")
    try:
        version = _version(db)  # another process may have been faster
        missing = [migration.sql for migration in MIGRATIONS if migration.to > version] if version else [SCHEMA]
        for statement in "".join(missing).split(";"):
            db.execute(statement)
        if version < FORMAT:
            db.execute(f"PRAGMA user_version={FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
