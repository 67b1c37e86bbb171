"""The connections of this process to one database, shared by all journals in it.

psycopg_pool is not used: it connects in threads of its own, which a fork loses, and where a server is gone or refuses
the password, a caller waits for the pool's time-out and hears only of that. Here the caller connects, and hears why
that fails.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakSet

import psycopg
from psycopg.pq import TransactionStatus

from tinymem.errors import StorageError
from tinymem.stores.locks import leave_to_parent
from tinymem.stores.postgres.server.errors import address, is_lost, unreachable
from tinymem.stores.postgres.server.schema import prepare
from tinymem.stores.postgres.server.values import Planned, adapt

__all__ = ["Connection", "Pool", "Statement", "acquire_pool", "release_pool", "send"]

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Statement: TypeAlias = "tuple[str, Sequence[Any] | Mapping[str, Any]]"

SIZE = 10  # connections of one process to one database
CONNECT = 10  # seconds for the server to answer
STARTING = ("starting up", "shutting down", "recovery")  # soon it lets us in
PAUSE = 0.05
PREPARED = 3  # times that a Planned statement is sent until it is prepared, unless a pooler is in between

# What is not Planned is planned for the namespace at hand, whatever the server's default. The server would compile the
# statements of a large memory for longer than they run, each time. A host that vanishes loses its locks after a minute.
SETTINGS = """
SET search_path = tinymem;
SET plan_cache_mode = auto;
SET jit = off;
SET lock_timeout = {lock};
SET tcp_keepalives_idle = 30;
SET tcp_keepalives_interval = 10;
SET tcp_keepalives_count = 3;
"""
# A pooler may give every transaction another connection of the server, so that each brings its settings along, and
# leaves none behind.
LOCAL = (
    "SELECT set_config('search_path', 'tinymem', true), set_config('lock_timeout', %s, true), "
    "set_config('plan_cache_mode', 'auto', true), set_config('jit', 'off', true)"
)


class Pool:
    """Up to SIZE connections to the database at `url`; a caller that needs one waits up to `timeout` seconds."""

    def __init__(self, url: str, timeout: float) -> None:
        self.address, self._url, self._timeout = address(url), url, timeout
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._lent = WeakSet[Connection]()  # one that an interrupt keeps from coming back is in use by nobody
        self._connecting = 0
        self.users = 0
        self.opening: Sequence[Statement] = ()  # what is sent behind every BEGIN
        leave_to_parent(self)

    def take(self) -> Connection:
        """Return a connection for the caller alone; StorageError if there is none, or the server lets nobody in."""
        deadline = time.monotonic() + self._timeout
        while not self._has_place():
            if time.monotonic() > deadline:
                raise StorageError(
                    f"{self.address}: all {SIZE} connections of this process are in use for {self._timeout:g} seconds; "
                    "use fewer threads, or keep transactions short"
                )
            time.sleep(PAUSE)
        try:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            connection = connection or self._connected()
            self._lent.add(connection)
            return connection
        finally:
            with self._lock:
                self._connecting -= 1

    def _has_place(self) -> bool:
        """Take a place for one more connection if there is any."""
        with self._lock:
            is_free = len(self._lent) + self._connecting < SIZE
            self._connecting += is_free
        return is_free

    def give(self, connection: Connection) -> None:
        """Take a connection back; one that broke is dropped with all others, which are older."""
        self._lent.discard(connection)
        if is_lost(connection):
            connection.close()
            self.drop_idle()
        elif connection.info.transaction_status != TransactionStatus.IDLE:
            connection.close()  # what was begun on it is rolled back
        else:
            with self._lock:
                self._idle.append(connection)

    def ask(self, connection: Connection, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Return the rows of a statement that is a transaction of its own, in one round trip."""
        if not self.opening:
            return send(connection, [(sql, values)])[0].fetchall()
        return send(connection, [("BEGIN", ()), *self.opening, (sql, values), ("COMMIT", ())])[-2].fetchall()

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
        if row and row[0] != connection.info.backend_pid:  # a pooler gives a number of its own
            self.opening = [(LOCAL, (lock,))]
            connection.prepare_threshold = None
        else:
            connection.execute(SETTINGS.format(lock=lock).encode())
        adapt(connection)


def send(connection: Connection, statements: Sequence[Statement]) -> list[psycopg.Cursor[tuple[Any, ...]]]:
    """Send statements in one round trip, and return their cursors.

    After an interrupt the connection is closed: half of a transaction must not be what the next one begins with.
    """
    failure: BaseException | None = None
    done: list[psycopg.Cursor[tuple[Any, ...]]] = []
    try:
        with connection.pipeline():
            try:
                for sql, values in statements:
                    prepare = None if isinstance(sql, Planned) else False
                    done.append(connection.cursor(binary=True).execute(sql, values, prepare=prepare))
            except BaseException as error:  # psycopg would log what the end of the pipeline says besides
                failure = error
    except BaseException as error:
        failure = failure or error
    if failure is not None:
        if (interrupt := _interrupt_in(failure)) is not None:
            connection.close()
            raise interrupt
        connection.prepare_threshold = None  # psycopg takes what was to be prepared behind the failure for prepared
        raise failure
    return done


def _interrupt_in(error: BaseException | None) -> BaseException | None:
    """Return what is no error of psycopg, which raises one of its own where an interrupt comes as a pipeline ends."""
    if isinstance(error, psycopg.Error):
        while isinstance(error, Exception):
            error = error.__context__
    return error


_pools: dict[tuple[int, str], Pool] = {}
_guard = threading.Lock()


def _unlock() -> None:
    """Give a forked child a lock that no thread of its parent holds."""
    global _guard
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def acquire_pool(url: str, create: bool, timeout: float) -> Pool:
    """Return this process's pool of a database, with one user more; its tables are made if `create`.

    Every call needs one of `release_pool`.
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


def release_pool(pool: Pool) -> None:
    """Note that one user needs the pool no longer; the last one closes its connections."""
    with _guard:
        pool.users -= 1
        if not pool.users:
            pool.drop_idle()
            for key in [key for key, known in _pools.items() if known is pool]:
                del _pools[key]
