"""A journal's connection to its SQLite file: errors with advice, transactions, reading with checks, settings."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from tinymem.errors import ClosedError, FormatError, InputError, ReadOnlyError, StorageError, safe_repr
from tinymem.protocols.settings import EMBEDDER, MADE
from tinymem.stores.files import make_private_file
from tinymem.stores.locks import ProcessLock, leave_to_parent
from tinymem.stores.sqlite.fulltext import SqliteFullText
from tinymem.stores.sqlite.reading import FileState, file_of, is_read_only, open_to_read, state_of
from tinymem.stores.sqlite.schema import check_format, make_tables, version_of

__all__ = ["LAST", "RECOVERY", "USED", "SqliteDatabase", "damaged", "guarded", "open_connection"]

logger = logging.getLogger(__name__)

MANY = 500  # values in one statement
EMPTIED_WITHIN = 100  # milliseconds
# Pages after which the write-ahead log begins again at its start. A commit takes half as long again while the log
# grows, and with SQLite's own 1,000 that is for hundreds of adds after every opening.
LOG_PAGES = 250


# The embedder in use, and the newest passage that has a vector of it.
USED = f"coalesce((SELECT value FROM meta WHERE key = '{EMBEDDER}'), '')"
LAST = f"(SELECT coalesce(max(passage), 0) FROM vectors WHERE embedder = {USED})"

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
            "is full": "free some disk space",
        }
        advice = next((text for key, text in hint.items() if key in str(error)), "check the disk and the folder")
        raise StorageError(f"{path}: {error}; {advice}") from error
    except sqlite3.DatabaseError as error:
        raise damaged(path, error) from error


def open_connection(path: Path, create: bool, timeout: float) -> sqlite3.Connection:
    """Connect to the journal at `path`, made if `create`, with all tables of this format.

    Raises:
        FormatError: The file has another format, or is not a journal.
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
    if not version_of(db):
        make_tables(db)
    check_format(db, path)  # another version may have made it meanwhile


class SqliteDatabase:
    """The file of a journal at `path`, made if `create`; it waits up to `timeout` seconds for another writer.

    Where it may or shall only be read, nothing is written, and each call that would write raises ReadOnlyError.
    """

    def __init__(self, path: Path, create: bool = True, timeout: float = 30, read_only: bool = False) -> None:
        self.path, self.location = path, str(path)
        self.lock = ProcessLock(f"the memory at {path}")
        self.is_read_only = read_only or is_read_only(path)
        self._unchanging: FileState | None = None  # the state of files that are read as if nobody wrote them
        if not self.is_read_only:
            try:
                self.connection = open_connection(path, create, timeout)
            except StorageError as error:
                if "disk" not in str(error.__cause__) or not path.exists():
                    raise
                logger.warning("opening it to read only: %s", error)  # a full disk has no room for SQLite's own files
                self.is_read_only = True
        if self.is_read_only:
            with guarded(path):
                self.connection, self._unchanging = open_to_read(path, timeout, read_only)
        self.timeout = timeout
        self._file = file_of(path)
        leave_to_parent(self)
        try:
            with guarded(path):
                self.fulltext = SqliteFullText(self.connection)
        except BaseException:
            self.close()
            raise

    def damaged(self, reason: object) -> FormatError:
        """Return the error for a damaged file, with advice."""
        return damaged(self.path, reason)

    def close(self) -> None:
        """Close the file; closing twice is no error, and a forked child leaves it to its parent."""
        if not self.lock.inherited:
            with self.lock:
                if not self.is_read_only:
                    self._empty_log()
                self.connection.close()

    def _empty_log(self) -> None:
        """Bring all into the file itself, unless somebody reads for longer: a last reader would leave the log there."""
        with suppress(sqlite3.Error):
            self.connection.execute(f"PRAGMA busy_timeout={EMPTIED_WITHIN}")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def check_file(self) -> None:
        """Raise StorageError where the file of this connection is no longer at its path."""
        if file_of(self.path) != self._file:
            raise StorageError(
                f"{self.path} was deleted, moved or replaced while the memory was open: close this one, and open the "
                "memory where it is now"
            )

    def _check_unchanged(self) -> None:
        """Raise StorageError where files were written that were read as if nobody did."""
        if self._unchanging is not None and state_of(self.path) != self._unchanging:
            raise StorageError(
                f"{self.path} may only be read here, and another user or process has written it: open the memory again"
            )

    # -- transactions -------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, derived: bool = False) -> Iterator[sqlite3.Connection]:
        """Write all or nothing; a nested transaction is part of the outer one. Holds the lock against other threads.

        Data that is `derived` from steps on disk is not synced: it survives a killed process, and if the power fails
        before the next step is written, it is made again.
        """
        if self.is_read_only:
            raise ReadOnlyError(self.location)
        with self.lock, guarded(self.path):
            if self.connection.in_transaction:
                yield self.connection
                return
            try:  # an interrupt may come as soon as a statement has done its work
                self.check_file()
                if derived:
                    self.connection.execute("PRAGMA synchronous=NORMAL")
                self.connection.execute("BEGIN IMMEDIATE")
                check_format(self.connection, self.path)
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            finally:
                if derived:
                    self.connection.execute("PRAGMA synchronous=FULL")

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make all writes inside one transaction, which excludes other writers."""
        with self.transaction():
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the journal inside, while others may write."""
        with self.lock, guarded(self.path):
            if self.connection.in_transaction:
                yield
                return
            self.check_file()
            try:  # an interrupt may come as soon as a statement has done its work, or before the last one does
                self.connection.execute("BEGIN")
                check_format(self.connection, self.path)
                yield
                self._check_unchanged()
                if self.connection.in_transaction:
                    self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def version(self) -> int:
        """Return a number that changes whenever another connection has written."""
        return self.read_number("PRAGMA data_version")

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, sql: str, values: Sequence[Any] = (), kinds: Sequence[Any] = ()) -> list[Any]:
        """Return the rows; FormatError if a value is not of its kind in `kinds`, since SQLite columns may hold any."""
        with self.lock, guarded(self.path):
            rows = self.connection.execute(sql, values).fetchall()
            if not self.connection.in_transaction:
                self.check_file()
        self._check_unchanged()
        if kinds and (wrong := [row for row in rows if not all(map(isinstance, row, kinds))]):
            raise self.damaged(f"a row of {[type(value).__name__ for value in wrong[0]]}")
        return rows

    def read_number(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Return the number in the first row; 0 if there is no row, or NULL."""
        rows = self.read(sql, values)
        return int(rows[0][0] or 0) if rows else 0

    def read_along(self, sql: str, values: Sequence[Any], kinds: Sequence[Any] = (), down: bool = False) -> list[Any]:
        """Return rows whose numbers must rise from the first of the `values`, or fall from the second.

        A damaged tree may loop.
        """
        rows = self.read(sql, values, kinds)
        numbers = [values[int(down)], *(row[0] for row in rows)]
        if any(before >= after for before, after in pairwise(numbers[::-1] if down else numbers)):
            raise self.damaged("numbers of its rows are not in order")
        return rows

    def read_each(self, sql: str, values: Sequence[Any], kinds: Sequence[Any] = ()) -> list[Any]:
        """Return the rows for any number of values, which replace `{}` in the statement."""
        parts = (values[first : first + MANY] for first in range(0, len(values), MANY))
        found = (self.read(sql.format(",".join("?" * len(part))), part, kinds) for part in parts)
        return [*chain.from_iterable(found)]

    # -- settings -----------------------------------------------------------------------------------------------------

    def setting(self, key: str) -> str | None:
        """Return the value of `key`, or None."""
        rows = self.read("SELECT value FROM meta WHERE key = ?", (key,), [str])
        return rows[0][0] if rows else None

    def keep(self, settings: Mapping[str, str], replace: bool = True) -> None:
        """Store values under keys, all or none; unless `replace`, existing values stay."""
        with self.transaction() as db:
            db.executemany(f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO meta VALUES (?, ?)", settings.items())

    def count_up(self, *keys: str) -> None:
        """Add one to settings, in a transaction of the caller."""
        sql = "INSERT INTO meta VALUES (?, '1') ON CONFLICT (key) DO UPDATE SET value = value + 1"
        self.connection.executemany(sql, zip(keys, strict=True))

    def _made(self) -> int:
        """Return the number of the first step that no passages were made of yet."""
        kept = self.setting(MADE) or "1"
        try:
            return int(kept)
        except ValueError as error:
            raise self.damaged(f"{safe_repr(kept)} is not the number of a step") from error

    def embedder(self) -> str:
        """Return the fingerprint of the embedder in use; "" while it is not known."""
        return self.setting(EMBEDDER) or ""
