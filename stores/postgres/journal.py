"""The journal in PostgreSQL: every step, passage, vector and term of a namespace, shared by any number of hosts.

A step survives once `add` has returned: its transaction is committed, and the server keeps it as it is set up to
(`synchronous_commit`, replicas, backups).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg

from tinymem.errors import StorageError
from tinymem.protocols.settings import FORGOTTEN, REWRITES, WINDOW_CHANGES
from tinymem.stores.postgres.checks import Checks
from tinymem.stores.postgres.links import Links
from tinymem.stores.postgres.passages import Summaries
from tinymem.stores.postgres.reindexing import Reindexing
from tinymem.stores.postgres.server.errors import guarded, is_lost
from tinymem.stores.postgres.slices import Slices

__all__ = ["TABLES", "PostgresJournal"]

TABLES = ("steps", "labels", "links", "passages", "terms", "stems", "identifiers", "summaries", "reindexed", "settings",
          "writers")  # fmt: skip

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_PASSAGES = "SELECT step, id FROM passages WHERE namespace = %s AND step = ANY(%s::bigint[]) ORDER BY id"
_GONE = (
    "DELETE FROM reindexed WHERE namespace = %s AND passage IN "
    "(SELECT id FROM passages WHERE namespace = %s AND step = ANY(%s::bigint[]))"
)
_COVERING = (
    "DELETE FROM summaries WHERE namespace = %s AND EXISTS "
    "(SELECT 1 FROM unnest(%s::bigint[]) n WHERE n BETWEEN first AND last)"
)
_SIZE = """
SELECT coalesce((SELECT sum(pg_column_size(s.*)) FROM steps s WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(pg_column_size(p.*)) FROM passages p WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(pg_column_size(t.*)) FROM terms t WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(octet_length(text)) FROM summaries WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(octet_length(value)) FROM settings WHERE namespace = %(ns)s), 0)
"""
_WEIGHTS = """
SELECT number, octet_length(record) + coalesce(octet_length(view), 0) + coalesce(derived, 0) FROM steps LEFT JOIN (
    SELECT step, sum(2 * vector_dims(vector) + octet_length(identifiers)) derived
    FROM passages WHERE namespace = %(ns)s GROUP BY step
) made ON step = number WHERE namespace = %(ns)s
"""


class PostgresJournal(Slices, Links, Summaries, Reindexing, Checks):
    """The journal of the namespace `name` in the database at `url`, made if `create`. Safe to use from several threads.

    `tinymem.protocols.Journal` documents the methods. They wait up to `timeout` seconds for another process that
    writes, and then raise StorageError.
    """

    @contextmanager
    def reading(self) -> Iterator[PostgresJournal]:
        """Open a second journal that reads the present state, on a connection of its own."""
        self._check_open()
        other = PostgresJournal(self._url, self._name, create=False)
        try:
            with other.snapshot():
                other._begin_with = _READ
                other._known()  # the server fixes the state at the first read
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
            for number, id in self._read(_PASSAGES, (self._id, numbers)):
                ids[number].append(id)
            if any(len(ids[number]) != len(texts) for number, texts in passages_of.items()):
                return False
            gone = sorted(id for some in ids.values() for id in some)
            self._unindex(gone)
            counted = self._leave_out(numbers)
            self._write(_GONE, self._id, self._id, numbers)
            for table, column in (("passages", "step"), ("steps", "number"), ("labels", "step")):
                self._write(
                    f"DELETE FROM {table} WHERE namespace = %s AND {column} = ANY(%s::bigint[])", self._id, numbers
                )
            self._find_first(*counted)
            self._write(_COVERING, self._id, numbers)
            self._note_end()
            listed = " ".join(map(str, gone))
            self.keep({FORGOTTEN: f"{self.setting(FORGOTTEN) or ''} {listed}".strip()})
            self._count_up(WINDOW_CHANGES)
            self._count_up(REWRITES)
        return True

    def erase(self) -> None:
        """Remove the namespace with everything in it, and close; who has it open gets NotAMemoryError from then on."""
        with self._lock, guarded(self._location):
            self._check_open()
            self._begin()
            try:
                gone = [(f"DELETE FROM {table} WHERE namespace = %s", (self._id,)) for table in TABLES]
                self._sent([*gone, ("DELETE FROM namespaces WHERE id = %s", (self._id,)), ("COMMIT", ())])
            except psycopg.OperationalError as error:
                if self._held is None or not is_lost(self._held, error):
                    raise
                raise StorageError(
                    f"{self._location}: the connection was lost while this namespace was removed, and it may be gone: "
                    "look for it before you repeat this"
                ) from error
            finally:
                self._end()
                self.close()

    def _note_end(self) -> None:
        """Note which step is the last one now."""
        sql = "SELECT number, position + tokens FROM steps WHERE namespace = %s ORDER BY number DESC LIMIT 1"
        rows = self._read(sql, (self._id,))
        self._written.last, self._written.end = rows[0] if rows else (0, 0)

    def scrub(self, done: str, what: str) -> None:
        """Do nothing: what was removed is gone from every query, and the server's files are not ours to write again."""
        self._check_open()

    def compact(self) -> None:
        """Do nothing: the server's autovacuum gives room to new rows."""
        self._check_open()

    def size(self) -> int:
        """Return the bytes of the rows of this namespace, without those of indexes."""
        return self._number(_SIZE, {"ns": self._id})

    def weights(self) -> dict[int, int]:
        """Return the bytes of each step, by number, without those of the search indexes."""
        return {number: int(weight) for number, weight in self._read(_WEIGHTS, {"ns": self._id})}
