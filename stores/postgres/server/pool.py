"""The connections of this process to one database, shared by all journals in it.

psycopg_pool is not used: it connects in threads of its own, which a fork loses, and where a server is gone or refuses
the password, a caller waits for the pool's time-out and hears only of that. Here the caller connects, and hears why
that fails.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from tinymem.errors import StorageError
from tinymem.stores.forking import leave_to_parent
from tinymem.stores.postgres.server.errors import address, is_lost, unreachable
from tinymem.stores.postgres.server.schema import SCHEMAS, prepare
from tinymem.stores.postgres.server.values import Planned, adapt

__all__ = ["Connection", "Pool", "Statement", "left", "pool_of", "sent"]

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Statement: TypeAlias = "tuple[str, Sequence[Any] | Mapping[str, Any]]"

SIZE = 10  # connections of one process to one database
CONNECT = 10  # seconds for the server to answer
STARTING = ("starting up", "shutting down", "recovery")  # soon it lets us in
PAUSE = 0.05
PREPARED = 3  # times that a Planned statement is sent until it is prepared, unless a pooler is in between

HALFVEC = "SELECT to_regtype('halfvec')::oid"
# What is not Planned is planned for the namespace at hand, whatever the server's default. The server would compile the
# statements of a large memory for longer than they run, each time. A host that vanishes loses its locks after a minute.
SETTINGS = f"""
SET search_path = {SCHEMAS};
SET plan_cache_mode = auto;
SET jit = off;
SET lock_timeout = {{lock}};
SET tcp_keepalives_idle = 30;
SET tcp_keepalives_interval = 10;
SET tcp_keepalives_count = 3;
"""
# A pooler may give every transaction another connection of the server, so that each brings its settings along, and
# leaves none behind.
LOCAL = (
    f"SELECT set_config('search_path', '{SCHEMAS}', true), set_config('lock_timeout', %s, true), "
    "set_config('plan_cache_mode', 'auto', true), set_config('jit', 'off', true)"
)


class Pool:
    """Up to SIZE connections to the database at `url`; a caller that needs one waits up to `timeout` seconds."""

    def __init__(self, url: str, timeout: float) -> None:
        self.address, self._url, self._timeout = address(url), url, timeout
        self._free, self._spare = threading.Semaphore(SIZE), threading.Semaphore(SIZE // 2)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._halfvec = 0  # the number of pgvector's type in this database
        self.users = 0
        self.opening: Sequence[Statement] = ()  # what is sent behind every BEGIN
        leave_to_parent(self)

    def take(self) -> Connection:
        """Return a connection for the caller alone; StorageError if there is none, or the server lets nobody in."""
        if not self._free.acquire(timeout=self._timeout):
            raise StorageError(
                f"{self.address}: all {SIZE} connections of this process are in use for {self._timeout:g} seconds; "
                "use fewer threads, or keep transactions short"
            )
        try:
            with self._lock:
                if self._idle:
                    return self._idle.pop()
            return self._connected()
        except BaseException:
            self._free.release()
            raise

    def give(self, connection: Connection) -> None:
        """Take a connection back; one that broke is dropped with all others, which are older."""
        try:
            if is_lost(connection):
                connection.close()
                self.drop_idle()
            elif connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()  # what was begun on it is rolled back
            else:
                with self._lock:
                    self._idle.append(connection)
        finally:
            self._free.release()

    def asked(self, connection: Connection, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Return the rows of a statement that is a transaction of its own, in one round trip."""
        if not self.opening:
            return sent(connection, [(sql, values)])[0].fetchall()
        return sent(connection, [("BEGIN", ()), *self.opening, (sql, values), ("COMMIT", ())])[-2].fetchall()

    @contextmanager
    def spare(self) -> Iterator[Connection | None]:
        """Lend a connection for longer; None where half of all are lent so, since their users need others besides."""
        if not self._spare.acquire(blocking=False):
            yield None
            return
        try:
            connection = self.take()
            try:
                yield connection
            finally:
                with suppress(psycopg.Error):
                    connection.rollback()
                self.give(connection)
        finally:
            self._spare.release()

    def drop_idle(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def prepare(self, create: bool) -> None:
        """Check the tables, or make them if `create`."""
        connection = self.take()
        try:
            prepare(connection, self.address, create)
            if not self._halfvec:  # known from now on
                connection.close()
        finally:
            self.give(connection)

    def _connected(self) -> Connection:
        """Connect; while the server starts, wait for it."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                connection = psycopg.connect(
                    self._url,
                    autocommit=True,
                    connect_timeout=CONNECT,
                    client_encoding="UTF8",
                    prepare_threshold=PREPARED,
                )
                break
            except psycopg.Error as error:
                if time.monotonic() > deadline or not any(text in str(error) for text in STARTING):
                    raise unreachable(self.address, error) from error
                time.sleep(PAUSE)
        try:
            self._set_up(connection)
        except psycopg.Error as error:
            connection.close()
            raise unreachable(self.address, error) from error
        return connection

    def _set_up(self, connection: Connection) -> None:
        lock = str(int(self._timeout * 1_000))
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        if row and row[0] != connection.info.backend_pid:  # a pooler has told a number of its own
            self.opening = [(LOCAL, (lock,))]
            connection.prepare_threshold = None
        else:
            connection.execute(SETTINGS.format(lock=lock).encode())
        if not self._halfvec:
            ((found,),) = self.asked(connection, HALFVEC)
            self._halfvec = int(found or 0)  # 0 until the tables are made
        if self._halfvec:
            adapt(connection, self._halfvec)


def sent(connection: Connection, statements: Sequence[Statement]) -> list[psycopg.Cursor[tuple[Any, ...]]]:
    """Send statements in one round trip, and return their cursors."""
    failure: Exception | None = None
    done: list[psycopg.Cursor[tuple[Any, ...]]] = []
    try:
        with connection.pipeline():
            try:
                for sql, values in statements:
                    prepare = None if isinstance(sql, Planned) else False
                    done.append(connection.cursor(binary=True).execute(sql, values, prepare=prepare))
            except Exception as error:  # psycopg would log what the end of the pipeline says besides
                failure = error
    except psycopg.Error as error:
        failure = failure or error
    if failure is not None:
        connection.prepare_threshold = None  # psycopg takes what was to be prepared behind the failure for prepared
        raise failure
    return done


_pools: dict[tuple[int, str], Pool] = {}
_guard = threading.Lock()


def _unlock() -> None:
    """Give a forked child a lock that no thread of its parent holds."""
    global _guard
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def pool_of(url: str, create: bool, timeout: float) -> Pool:
    """Return this process's pool of a database, with one user more; its tables are made if `create`.

    Every call needs one of `left`.
    """
    key = os.getpid(), url  # a forked child has connections of its own
    with _guard:
        pool = _pools.get(key) or Pool(url, timeout)
        if not pool.users:
            try:
                pool.prepare(create)
            except BaseException:
                pool.drop_idle()
                raise
            _pools[key] = pool
        pool.users += 1
        return pool


def left(pool: Pool) -> None:
    """Note that one user needs the pool no longer; the last one closes its connections."""
    with _guard:
        pool.users -= 1
        if not pool.users:
            pool.drop_idle()
            for key in [key for key, held in _pools.items() if held is pool]:
                del _pools[key]
