"""A namespace in a PostgreSQL database: transactions and statements, what became of a lost commit, and settings.

A transaction is two round trips: one begins it, takes the namespace's row as a lock and reads its `Head`; the other
sends all writes together and commits. A read in between sends the writes before it.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from tinymem.errors import ClosedError, FormatError, NotAMemoryError, StorageError, TinymemError, safe_repr
from tinymem.protocols.settings import EMBEDDER, MADE
from tinymem.stores.locks import ProcessLock, leave_to_parent
from tinymem.stores.postgres.server.errors import damaged, guarded, is_lost
from tinymem.stores.postgres.server.head import LOCK_HEAD, READ_HEAD, Head
from tinymem.stores.postgres.server.pool import Connection, Statement, acquire_pool, release_pool, send
from tinymem.stores.postgres.server.values import Planned

__all__ = ["PostgresDatabase"]

Values: TypeAlias = "Sequence[Any] | Mapping[str, Any]"

ASKING, PAUSE = 5.0, 0.05  # seconds in which a lost server is asked what became of a commit, and between two tries
REPEATABLE = "BEGIN ISOLATION LEVEL REPEATABLE READ"
OLD = "1 day"  # after which a writer that did not close is gone
_FIND = 'SELECT id, identity FROM namespaces WHERE name COLLATE "C" = %s'
_WRITTEN = Planned(
    "WITH wrote AS (INSERT INTO writers (namespace, writer, writes) VALUES (%(ns)s, %(writer)s, %(writes)s) "
    "ON CONFLICT (namespace, writer) DO UPDATE SET writes = excluded.writes, at = now()) "
    "UPDATE namespaces SET version = version + 1, next_number = %(number)s, next_passage = %(passage)s, "
    "passages = passages + %(passages)s, words = words + %(words)s WHERE id = %(ns)s"
)
_VERSION = Planned("SELECT version FROM namespaces WHERE id = %s AND identity = %s::uuid")
_VALUE = Planned("SELECT value FROM settings WHERE namespace = %s AND key = %s")
_KEEP = Planned(
    "INSERT INTO settings VALUES (%s, %s, %s) ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value"
)
_WRITES = "SELECT writes FROM writers WHERE namespace = %s AND writer = %s"


class PostgresDatabase:
    """The rows of the namespace `name` in the database at `url`, made if `create`.

    It waits up to `timeout` seconds for another writer. `identity` is another one for every memory that was ever made.
    """

    def __init__(self, url: str, name: str, create: bool = True, timeout: float = 30) -> None:
        self._url, self.name = url, name
        self._pool = acquire_pool(url, create, timeout)
        self.location = f"{self._pool.address} namespace {name!r}"
        self.lock = ProcessLock(f"the memory at {self.location}")
        self._is_open = True
        self._writer = uuid.uuid4()
        self._tried, self._committed = 0, 0  # the transactions that this journal tried to commit, and those that it did
        self._connection: Connection | None = None  # while a transaction or a snapshot is open
        self._begin_with: str | None = None  # what the first read in a snapshot sends before it
        self.is_writing = False
        self._queue: list[Statement] = []  # writes that are sent with the next read, or the commit
        self._head: Head | None = None
        leave_to_parent(self)
        try:
            self._find(create)
        except BaseException:
            PostgresDatabase.close(self)
            raise

    def _find(self, create: bool) -> None:
        if not (rows := self.read(_FIND, (self.name,))):
            if not create:
                raise NotAMemoryError(f"there is no memory at {self.location}")
            self.read(
                "INSERT INTO namespaces (id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING 1",
                (secrets.randbits(63), self.name),
            )
            rows = self.read(_FIND, (self.name,))
        if not rows:  # the number is another one's, once in 2^63 times, or the namespace was removed just now
            raise StorageError(f"{self.location} could not be made: try again")
        self.id, self.identity = int(rows[0][0]), str(rows[0][1])

    def damaged(self, reason: object) -> FormatError:
        """Return the error for damaged rows, with advice."""
        return damaged(self.location, reason)

    def close(self) -> None:
        """Give back the connection; closing twice is no error, and a forked child leaves all to its parent."""
        if self.lock.inherited:
            return
        with self.lock:
            if self._is_open:
                if self._committed:
                    with suppress(TinymemError):  # others remove it some day
                        sql = "DELETE FROM writers WHERE namespace = %s AND (writer = %s OR at < now() - %s::interval)"
                        self.read(f"{sql} RETURNING 1", (self.id, self._writer, OLD))
                self._is_open = False
                self._end()
                release_pool(self._pool)

    # -- transactions -------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all or nothing, as the only writer of the namespace; a nested transaction is part of the outer one."""
        with self.lock, guarded(self.location):
            self.check_open()
            if self.is_writing:
                yield
            elif self._connection is not None:  # in a snapshot: its end commits
                self.read("SELECT 1 FROM namespaces WHERE id = %s FOR UPDATE", (self.id,))
                self.is_writing = True
                yield
            else:
                with self._committing():
                    self._begin()
                    self.is_writing = True
                    yield

    def together(self) -> AbstractContextManager[None]:
        """Make all writes inside one transaction, which excludes other writers."""
        return self._transaction()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the journal inside, while others may write."""
        with self.lock, guarded(self.location):
            self.check_open()
            if self._connection is not None:
                yield
                return
            with self._committing():
                self._connection, self._begin_with = self._pool.take(), REPEATABLE
                yield

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """Commit at the end of the block, which begins; or roll back if it fails, or an interrupt comes."""
        try:
            yield
            self._commit()
        finally:
            try:
                self._end()
            finally:  # an interrupt may have come as it began
                self._end()

    def _begin(self) -> None:
        """Begin a transaction that writes, and read the head, on another connection if an idle one was lost."""
        for is_last in (False, True):
            self._connection = self._pool.take()
            try:
                self._head, _ = self._with_head("BEGIN", LOCK_HEAD)
                return
            except psycopg.OperationalError as error:
                was_lost = is_lost(self._connection, error)
                self._end()
                if is_last or not was_lost:
                    raise
            except BaseException:
                self._end()
                raise

    def _with_head(self, begin: str, head: Sequence[str], *more: Statement) -> tuple[Head, list[Any]]:
        """Begin, read the head by the statements for that, and do `more`, in one round trip."""
        reads = [(sql, (self.id,)) for sql in head]
        opening = [(begin, ()), *self._pool.opening]
        done = self._send([*opening, *reads, *more])[len(opening) :]
        row, settings, end = (cursor.fetchall() for cursor in done[:3])
        if not row or str(row[0][-1]) != self.identity:
            raise self._forgotten_error()
        return Head.read(row[0], settings, end), done[3:]

    def _forgotten_error(self) -> NotAMemoryError:
        return NotAMemoryError(f"the memory at {self.location} was forgotten since it was opened: open it again")

    def _commit(self) -> None:
        assert self._connection is not None
        if self._begin_with is not None:  # nothing was read
            return
        if not self.is_writing or not self._is_dirty:
            with suppress(psycopg.OperationalError):  # all was read
                self._send([("ROLLBACK", ())])
            return
        head = self.head
        self._tried += 1
        counts = {"ns": self.id, "writer": self._writer, "writes": self._tried, "number": head.next_number,
                  "passage": head.next_passage, "passages": head.more_passages, "words": head.more_words}  # fmt: skip
        ending = [*self._queue, (_WRITTEN, counts), ("COMMIT", ())]
        self._queue = []
        try:
            self._send(ending)
        except psycopg.OperationalError as error:
            if not is_lost(self._connection, error):
                raise
            self._end()
            self._verify_commit(error)
        self._committed += 1

    def _verify_commit(self, lost: psycopg.OperationalError) -> None:
        """Find out what became of a commit whose answer was lost. Raises StorageError unless it was committed."""
        deadline = time.monotonic() + ASKING
        while (writes := self._count_commits()) is None:
            if time.monotonic() > deadline:
                raise StorageError(
                    f"{self.location}: the connection was lost at the end of a transaction, and the server cannot be "
                    "asked if it was committed: open the memory again and look before repeating it"
                ) from lost
            time.sleep(PAUSE)
        if writes != self._tried:
            raise StorageError(
                f"{self.location}: the connection was lost, and nothing of this transaction was written: try again"
            ) from lost

    def _count_commits(self) -> int | None:
        """Return how many transactions of this journal were committed; None if the server cannot be asked now."""
        try:
            self._begin()  # which waits until the server has ended the one before
            return self.read_number(_WRITES, (self.id, self._writer))
        except (psycopg.OperationalError, StorageError):
            return None
        finally:
            self._end()

    def _end(self) -> None:
        """Give back the connection; what was not committed is rolled back."""
        connection, self._connection, self._head, self._begin_with = self._connection, None, None, None
        self.is_writing, self._queue = False, []
        if connection is not None:
            try:
                if not is_lost(connection) and connection.info.transaction_status != TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
            except BaseException as error:
                connection.close()
                if not isinstance(error, psycopg.Error):  # an interrupt
                    raise
            finally:
                self._pool.give(connection)

    def check_open(self) -> None:
        """Raise ClosedError after `close`."""
        if not self._is_open:
            raise ClosedError(f"the memory at {self.location} is closed")

    # -- statements ---------------------------------------------------------------------------------------------------

    @property
    def head(self) -> Head:
        """The head of the transaction or snapshot, which has read it."""
        assert self._head is not None
        return self._head

    @property
    def _is_dirty(self) -> bool:
        return bool(self._queue) or self.head.is_dirty

    def write(self, sql: str, *values: Any, **named: Any) -> None:
        """Send a write with the next read, or the commit."""
        self._queue.append((sql, named or values))

    def _send(self, statements: Sequence[Statement]) -> list[psycopg.Cursor[tuple[Any, ...]]]:
        """Send statements in one round trip."""
        assert self._connection is not None
        return send(self._connection, statements)

    def read(self, sql: str, values: Values = ()) -> list[Any]:
        """Return the rows of a statement; outside a transaction it is one, tried again where a connection was lost."""
        with self.lock, guarded(self.location):
            self.check_open()
            if self._connection is None:
                return self._read_alone(sql, values)
            if self._begin_with is not None:
                return self._read_first(sql, values)
            if self._queue:
                self.head.is_dirty = True
            queue, self._queue = self._queue, []
            return self._send([*queue, (sql, values)])[-1].fetchall()

    def _read_first(self, sql: str, values: Values) -> list[Any]:
        """Read in a snapshot that is not begun yet: this fixes what it sees."""
        begin = self._begin_with or ""
        try:
            self._head, more = self._with_head(begin, READ_HEAD, (sql, values))
        except psycopg.OperationalError as error:
            if self._connection is None or not is_lost(self._connection, error):
                raise
            self._pool.give(self._connection)
            self._connection = None
            self._connection = self._pool.take()
            self._head, more = self._with_head(begin, READ_HEAD, (sql, values))
        self._begin_with = None
        rows: list[Any] = more[0].fetchall()
        return rows

    def read_with_head(self, sql: str, values: Values) -> tuple[Head, list[Any]]:
        """Return the head, and the rows of a statement, of one state."""
        with self.snapshot():
            rows = self.read(sql, values)
            return self.head, rows

    def _read_alone(self, sql: str, values: Values) -> list[Any]:
        for is_last in (False, True):
            connection = self._pool.take()
            try:
                return self._pool.ask(connection, sql, values)
            except psycopg.OperationalError as error:
                if not is_lost(connection, error) or is_last:
                    raise
            finally:
                self._pool.give(connection)
        raise AssertionError("the second time returns or raises")

    def change(self, sql: str, values: Values = ()) -> list[Any]:
        """Return the rows of a statement that writes, inside a transaction."""
        rows = self.read(sql, values)
        if self._head is not None:
            self._head.is_dirty = True
        return rows

    def read_number(self, sql: str, values: Values = ()) -> int:
        """Return the number in the first row; 0 if there is no row, or NULL."""
        rows = self.read(sql, values)
        return int(rows[0][0] or 0) if rows else 0

    def known_head(self) -> Head | None:
        """Return the head where a transaction or a snapshot has it."""
        if self._begin_with is not None:
            self.read("SELECT 1")
        return self._head

    # -- version and settings ------------------------------------------------------------------------------------------

    def version(self) -> int:
        """Return a number that changes whenever another journal has written."""
        with self.lock, guarded(self.location):
            if head := self.known_head():
                return head.version - self._committed
            if not (rows := self.read(_VERSION, (self.id, self.identity))):
                raise self._forgotten_error()
            return int(rows[0][0]) - self._committed

    def setting(self, key: str) -> str | None:
        """Return the value of `key`, or None."""
        with self.lock, guarded(self.location):
            if (head := self.known_head()) and (key not in head.settings or head.settings[key] is not None):
                return head.settings.get(key)
            rows = self.read(_VALUE, (self.id, key))
        return rows[0][0] if rows else None

    def keep(self, settings: Mapping[str, str], replace: bool = True) -> None:
        """Store values under keys, all or none; unless `replace`, existing values stay."""
        with self._transaction():
            kept = self.head.settings
            for key, value in settings.items():
                if replace or key not in kept:
                    self.write(_KEEP, self.id, key, value)
                    kept[key] = value

    def count_up(self, *keys: str) -> None:
        """Add one to settings, in a transaction of the caller."""
        self.keep({key: str(int(self.setting(key) or 0) + 1) for key in keys})

    def made(self) -> int:
        """Return the number of the first step that no passages were made of yet."""
        kept = self.setting(MADE) or "1"
        try:
            return int(kept)
        except ValueError as error:
            raise self.damaged(f"{safe_repr(kept)} is not the number of a step") from error

    def embedder(self) -> str:
        """Return the fingerprint of the embedder in use; "" while it is not known."""
        return self.setting(EMBEDDER) or ""
