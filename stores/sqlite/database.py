"""A journal's file: errors with advice, transactions, reading with checks, settings, steps and the window.

With WAL and synchronous FULL, a step survives a killed process and a power failure once `add` has returned.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from tinymem.errors import ClosedError, FormatError, InputError, ReadOnlyError, StorageError, safe_repr
from tinymem.protocols import StepRow
from tinymem.protocols.settings import DELETIONS, EMBEDDER, MADE, REWRITES, UNSCRUBBED
from tinymem.stores.filter import SQLITE, Filter
from tinymem.stores.locks import ProcessLock, leave_to_parent
from tinymem.stores.sqlite.fulltext import SqliteFullText

__all__ = ["FORMAT", "LAST", "RECOVERY", "USED", "WAITING", "SqliteDatabase", "check_format", "guarded", "version_of"]

FORMAT = 9
MANY = 500  # values in one statement
EMPTIED_WITHIN = 100  # milliseconds

# The embedder in use, and the newest passage that has a vector of it.
USED = f"coalesce((SELECT value FROM meta WHERE key = '{EMBEDDER}'), '')"
LAST = f"(SELECT coalesce(max(passage), 0) FROM vectors WHERE embedder = {USED})"

RECOVERY = "`sqlite3 journal.db .recover` reads what can be read of it"
_QUOTES = " with text "  # after it, the sqlite3 module quotes a text that is not UTF-8
_COLUMNS = "number, id, type, session, speaker, time, tokens, position, record, window, view, milestone, archived"
_OUTLINE = _COLUMNS.replace("record", "''").replace("view", "NULL")
_END = 1 << 62  # above every number
_NAME = (str, type(None))
_TIME = (int, float, type(None))
_STEP = (int, str, str, _NAME, _NAME, (int, float), int, int, str, int, _NAME, int, _TIME)  # the types of its columns
# Passages are embedded in the order of their ids, and made in that of their steps.
WAITING = f"coalesce((SELECT step FROM passages WHERE id > {LAST} ORDER BY id LIMIT 1), ?)"
_FIRST_WAITING = f"SELECT position FROM steps WHERE number >= {WAITING} ORDER BY number LIMIT 1"
_OF_STEP = (
    "passages WHERE step = ?", "steps WHERE number = ?", "labels WHERE step = ?", "notes WHERE step = ?",
    "summaries WHERE first <= ?1 AND last >= ?1",
)  # fmt: skip


def file_of(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of the file at a path; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_format(db: sqlite3.Connection, path: Path) -> None:
    """Raise FormatError where another version wrote the journal, in a format of its own."""
    if (version := version_of(db)) not in (0, FORMAT):
        raise FormatError(
            f"{path} has format {version}, this version reads {FORMAT}: open it with the version of tinymem that wrote "
            "it, move its memory by `tinymem export` there and `tinymem import` here, or delete the folder"
        )


def version_of(db: sqlite3.Connection) -> int:
    """Return the format of the file; 0 for a new one."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


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


class SqliteDatabase:
    """The file of a journal at `path`, as `open_file` has opened it, with `timeout` seconds to wait for other writers.

    Where it may or shall only be read, nothing is written, and each call that would write raises ReadOnlyError.
    """

    def __init__(
        self, path: Path, opened: tuple[sqlite3.Connection, bool, Callable[[], bool] | None], timeout: float
    ) -> None:
        self.path, self.location, self.timeout = path, str(path), timeout
        self.lock = ProcessLock(f"the memory at {path}")
        self.connection, self.is_read_only, self._is_unchanged = opened
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
        if self._is_unchanged is not None and not self._is_unchanged():
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
        with self._begun("BEGIN IMMEDIATE", derived):
            yield self.connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make all writes inside one transaction, which excludes other writers."""
        with self.transaction():
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the journal inside, while others may write."""
        with self._begun("BEGIN"):
            yield

    @contextmanager
    def _begun(self, begin: str, derived: bool = False) -> Iterator[None]:
        """Hold the lock, and begin and end a transaction, or be part of the one that was begun."""
        with self.lock, guarded(self.path):
            if self.connection.in_transaction:
                yield
                return
            self.check_file()
            try:  # an interrupt may come as soon as a statement has done its work, or before the last one does
                if derived:
                    self.connection.execute("PRAGMA synchronous=NORMAL")
                self.connection.execute(begin)
                check_format(self.connection, self.path)
                yield
                self._check_unchanged()
                if self.connection.in_transaction:
                    self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            finally:
                if derived:
                    self.connection.execute("PRAGMA synchronous=FULL")

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

    # -- steps --------------------------------------------------------------------------------------------------------

    def add(self, rows: Sequence[StepRow]) -> None:
        """Write steps, all or none; InputError for an id that exists, or a number below that of a cut step."""
        sql = f"INSERT INTO steps ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        try:
            with self.transaction() as db:
                made = self._made()
                for r in rows:
                    if r.number < made:  # its passages would never be made
                        raise InputError(f"the number {r.number} was used by another process: open the memory again")
                    place = (r.number, r.id, r.type, r.session, r.speaker, r.time, r.tokens, r.position)
                    db.execute(sql, (*place, r.record, r.window, r.view, r.milestone, r.archived))
                    db.executemany("INSERT INTO labels VALUES (?, ?, ?)", ((*label, r.number) for label in r.labels))
        except FormatError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                ids = ", ".join(row.id for row in rows[:3])
                raise InputError(f"a step with this id or number is in the memory already ({ids})") from error
            raise

    def next_number(self) -> int:
        """Return the number of the next step, which was never used before."""
        return self.read_number("SELECT seq FROM sqlite_sequence WHERE name = 'steps'") + 1

    def end(self) -> int:
        """Return the tokens of all steps since the memory began."""
        return self.read_number("SELECT position + tokens FROM steps ORDER BY number DESC LIMIT 1")

    def rows(
        self,
        after: int = 0,
        limit: int = _END,
        *,
        before: int = _END,
        type: str | None = None,
        session: str | None = None,
        window: bool | None = None,
        newest: bool = False,
        texts: bool = True,
    ) -> list[StepRow]:
        """Return up to `limit` steps with numbers above `after` and below `before`, in order, or the newest first."""
        only = Filter(type=type, session=session).condition(SQLITE)
        shown = "" if window is None else f" AND window = {int(window)}"
        where = f"number > ? AND number < ?{only.sql}{shown} ORDER BY number {'DESC' if newest else 'ASC'} LIMIT ?"
        values = (after, before, *only.values.values(), limit)
        columns = _COLUMNS if texts else _OUTLINE
        rows = self.read_along(f"SELECT {columns} FROM steps s WHERE {where}", values, _STEP, newest)
        return [StepRow(*row) for row in rows]

    def steps(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the JSON of these steps, by number; missing steps are left out."""
        return dict(self.read_each("SELECT number, record FROM steps WHERE number IN ({})", [int(n) for n in numbers]))

    def numbers(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the numbers of the steps with these ids, in the order of numbers."""
        rows = self.read_each("SELECT id, number FROM steps WHERE id IN ({})", ids, (str, int))
        return dict(sorted(rows, key=lambda row: row[1]))

    def matching(self, only: Filter) -> list[int]:
        """Return the numbers of the steps that a filter accepts, in order; tools, which passages have, do not count."""
        where = only.condition(SQLITE)
        sql = f"SELECT number FROM steps s WHERE true{where.sql} ORDER BY number"
        return [number for (number,) in self.read(sql, [*where.values.values()], (int,))]

    def corrections(self) -> list[tuple[int, int]]:
        """Return the numbers of corrected steps, each with that of a step that corrects it."""
        join = "labels l JOIN steps s ON s.id = json_extract(l.value, '$')"
        sql = f"SELECT s.number, l.step FROM {join} WHERE l.name = 'corrects'"
        return [(old, new) for old, new in self.read(sql, (), (int, int))]

    def waiting_tokens(self) -> int:
        """Return the tokens of the steps that wait to be embedded."""
        first = self.read(_FIRST_WAITING, (self._made(),))
        return self.end() - int(first[0][0]) if first else 0

    def delete(self, passages_of: Mapping[int, Sequence[str]]) -> bool:
        """Remove steps for good, and the summaries that cover them; False if a number of passages does not match.

        The caller scrubs the file afterwards.
        """
        sql = "SELECT id FROM passages WHERE step = ? ORDER BY id"
        with self.transaction() as db:
            ids: dict[int, list[int]] = {}
            for number, texts in passages_of.items():
                ids[number] = [id for (id,) in db.execute(sql, (number,))]
                if len(ids[number]) != len(texts):
                    return False
            for number, texts in passages_of.items():
                self.fulltext.remove(zip(ids[number], texts, strict=True))
                db.executemany("DELETE FROM vectors WHERE passage = ?", ((id,) for id in ids[number]))
                for where in _OF_STEP:
                    db.execute(f"DELETE FROM {where}", (number,))
            self.count_up(DELETIONS, REWRITES)
            db.execute("INSERT OR REPLACE INTO meta SELECT ?, value FROM meta WHERE key = ?", (UNSCRUBBED, REWRITES))
        return True

    # -- the window -------------------------------------------------------------------------------------------------

    def set_window(
        self, removed: Iterable[int], views: Mapping[int, str | None], changed: Mapping[int, str | None] | None = None
    ) -> list[int]:
        """Remove the steps `removed` from the window, and return the numbers of those that were in it.

        `views` puts steps into the window, or replaces their JSON there; `changed` only replaces it.
        """
        with self.transaction(derived=not (views or changed)) as db:
            out = "UPDATE steps SET window = 0, view = NULL, archived = ? WHERE number = ? AND window = 1"
            taken = [number for number in removed if db.execute(out, (time.time(), number)).rowcount]
            put = "UPDATE steps SET window = 1, view = ?, archived = NULL WHERE number = ?"
            db.executemany(put, ((view, number) for number, view in views.items()))
            still = "UPDATE steps SET view = ? WHERE number = ? AND window = 1"
            db.executemany(still, ((view, number) for number, view in (changed or {}).items()))
            return taken
