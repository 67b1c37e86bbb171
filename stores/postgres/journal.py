"""The journal in PostgreSQL: every step, passage, vector and term of a namespace, shared by any number of hosts.

A step survives once `add` has returned: its transaction is committed, and the server keeps it as it is set up to
(`synchronous_commit`, replicas, backups).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

import psycopg

from tinymem.errors import StorageError
from tinymem.protocols import Maintenance, MessageRows, SummaryRows
from tinymem.protocols.settings import DELETIONS, REWRITES
from tinymem.stores.postgres.maintenance import PostgresMaintenance
from tinymem.stores.postgres.passages import PostgresPassages
from tinymem.stores.postgres.server.errors import guarded, is_lost
from tinymem.stores.postgres.steps import PostgresSteps
from tinymem.stores.postgres.tables import PostgresMessages, PostgresSummaries

__all__ = ["TABLES", "PostgresJournal"]

TABLES = ("steps", "labels", "messages", "notes", "passages", "terms", "stems", "summaries", "vectors",
          "settings", "writers")  # fmt: skip

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_PASSAGES = "SELECT step, id FROM passages WHERE namespace = %s AND step = ANY(%s::bigint[]) ORDER BY id"
_GONE = (
    "DELETE FROM vectors WHERE namespace = %s AND passage IN "
    "(SELECT id FROM passages WHERE namespace = %s AND step = ANY(%s::bigint[]))"
)
_COVERING = (
    "DELETE FROM summaries WHERE namespace = %s AND EXISTS "
    "(SELECT 1 FROM unnest(%s::bigint[]) n WHERE n BETWEEN first AND last)"
)
_END = "SELECT number, position + tokens FROM steps WHERE namespace = %s ORDER BY number DESC LIMIT 1"


class PostgresJournal(PostgresSteps, PostgresPassages):
    """The journal of the namespace `name` in the database at `url`, made if `create`. Safe to use from several threads.

    `tinymem.protocols.Journal` documents the methods. They wait up to `timeout` seconds for another process that
    writes, and then raise StorageError.
    """

    is_read_only = False  # the server refuses who may not write

    def __init__(self, url: str, name: str, create: bool = True, timeout: float = 30) -> None:
        super().__init__(url, name, create, timeout)
        self.messages: MessageRows = PostgresMessages(self)
        self.summaries: SummaryRows = PostgresSummaries(self)
        self.maintenance: Maintenance = PostgresMaintenance(self)

    @contextmanager
    def reading(self) -> Iterator[PostgresJournal]:
        """Open a second journal that reads the present state, on a connection of its own."""
        self.check_open()
        other = PostgresJournal(self._url, self.name, create=False)
        try:
            with other.snapshot():
                other._begin_with = _READ
                other.known_head()  # the server fixes the state at the first read
                yield other
        finally:
            other.close()

    def delete(self, passages_of: Mapping[int, Sequence[str]]) -> bool:
        """Remove steps for good, and the summaries that cover them; False if a number of passages does not match.

        They are gone from every query once this is committed; from the server's files, once it has written its tables
        again (VACUUM FULL), and dropped old logs and backups.
        """
        numbers = list(passages_of)
        with self._transaction():
            ids: dict[int, list[int]] = {number: [] for number in numbers}
            for number, id in self.read(_PASSAGES, (self.id, numbers)):
                ids[number].append(id)
            if any(len(ids[number]) != len(texts) for number, texts in passages_of.items()):
                return False
            gone = sorted(chain.from_iterable(ids.values()))
            self.fulltext.remove(gone)
            self.write(_GONE, self.id, self.id, numbers)
            for table, column in (("passages", "step"), ("steps", "number"), ("labels", "step"), ("notes", "step")):
                self.write(
                    f"DELETE FROM {table} WHERE namespace = %s AND {column} = ANY(%s::bigint[])", self.id, numbers
                )
            self.write(_COVERING, self.id, numbers)
            self.head.last, self.head.end = (self.read(_END, (self.id,)) or [(0, 0)])[0]
            self.count_up(DELETIONS, REWRITES)
        return True

    def erase(self) -> None:
        """Remove the namespace with everything in it, and close; who has it open gets NotAMemoryError from then on."""
        with self.lock, guarded(self.location):
            self.check_open()
            self._begin()
            try:
                gone = [(f"DELETE FROM {table} WHERE namespace = %s", (self.id,)) for table in TABLES]
                self._send([*gone, ("DELETE FROM namespaces WHERE id = %s", (self.id,)), ("COMMIT", ())])
            except psycopg.OperationalError as error:
                if self._connection is None or not is_lost(self._connection, error):
                    raise
                raise StorageError(
                    f"{self.location}: the connection was lost while this namespace was removed, and it may be gone: "
                    "look for it before you repeat this"
                ) from error
            finally:
                self._end()
                self.close()
