"""The journal in PostgreSQL: every step, passage, vector and term of a namespace, shared by any number of hosts.

A step survives once `add` has returned: its transaction is committed, and the server keeps it as it is set up to
(`synchronous_commit`, replicas, backups).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg

from tinymem.errors import StorageError
from tinymem.protocols import Change, FiledStep, Finder, Place, TermCheck, VectorCheck
from tinymem.protocols.settings import REWRITES, UNSPLIT, WINDOW_CHANGES
from tinymem.stores.postgres.passages import Passages
from tinymem.stores.postgres.server.errors import guarded, is_lost
from tinymem.stores.postgres.slices import Slices
from tinymem.stores.postgres.steps import Steps

__all__ = ["TABLES", "PostgresJournal"]

TABLES = ("steps", "labels", "messages", "files", "passages", "terms", "stems", "identifiers", "summaries", "vectors",
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
_SIZE = """
SELECT coalesce((SELECT sum(pg_column_size(s.*)) FROM steps s WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(pg_column_size(p.*)) FROM passages p WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(pg_column_size(v.*)) FROM vectors v WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(pg_column_size(t.*)) FROM terms t WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(octet_length(text)) FROM summaries WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(octet_length(value)) FROM settings WHERE namespace = %(ns)s), 0)
"""
_END = "SELECT number, position + tokens FROM steps WHERE namespace = %s ORDER BY number DESC LIMIT 1"
_LACKING = (
    "SELECT count(*) FROM {} a WHERE namespace = %s "
    "AND NOT EXISTS (SELECT 1 FROM {} b WHERE b.namespace = a.namespace AND b.{} = a.{})"
)
_SUMS = "SELECT count(*), coalesce(sum(length), 0)::bigint FROM terms WHERE namespace = %s"
_MISCOUNTED = """
SELECT count(*) FROM (
    SELECT stem, count(*) passages FROM terms, unnest(stems) stem WHERE namespace = %s GROUP BY stem) a
FULL JOIN (SELECT stem, passages FROM stems WHERE namespace = %s) b USING (stem)
WHERE a.passages IS DISTINCT FROM b.passages
"""
_UNEVEN = (
    "SELECT count(*) FROM terms WHERE namespace = %s "
    "AND (cardinality(stems) != cardinality(times) OR length != (SELECT sum(t) FROM unnest(times) t))"
)


class PostgresJournal(Steps, Passages):
    """The journal of the namespace `name` in the database at `url`, made if `create`. Safe to use from several threads.

    `tinymem.protocols.Journal` documents the methods. They wait up to `timeout` seconds for another process that
    writes, and then raise StorageError.
    """

    is_read_only = False  # the server refuses who may not write

    def __init__(self, url: str, name: str, create: bool = True, timeout: float = 30) -> None:
        super().__init__(url, name, create, timeout)
        self._slices = Slices(self, self._fulltext)

    def finder(self) -> Finder | None:
        """Return the search of the server; None where the passages are few."""
        return self._slices.survey()

    @contextmanager
    def reading(self) -> Iterator[PostgresJournal]:
        """Open a second journal that reads the present state, on a connection of its own."""
        self._check_open()
        other = PostgresJournal(self._url, self.name, create=False)
        try:
            with other.snapshot():
                other._begin_with = _READ
                other.known_head()  # the server fixes the state at the first read
                yield other
        finally:
            other.close()

    def changes(self, after: int) -> list[Change]:
        """Return nothing: the server searches its own tables, and no index follows them."""
        return []

    def delete(self, passages_of: Mapping[int, Sequence[str]], replaced: bool = False) -> bool:
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
            gone = sorted(id for some in ids.values() for id in some)
            self._fulltext.remove(gone)
            counted = self._identifiers.remove(numbers)
            self.write(_GONE, self.id, self.id, numbers)
            for table, column in (("passages", "step"), ("steps", "number"), ("labels", "step"), ("files", "step")):
                self.write(
                    f"DELETE FROM {table} WHERE namespace = %s AND {column} = ANY(%s::bigint[])", self.id, numbers
                )
            self._identifiers.find_first(*counted)
            self.write(_COVERING, self.id, numbers)
            self.head.last, self.head.end = (self.read(_END, (self.id,)) or [(0, 0)])[0]
            self._count_up(WINDOW_CHANGES)
            self._count_up(REWRITES)
        return True

    def erase(self) -> None:
        """Remove the namespace with everything in it, and close; who has it open gets NotAMemoryError from then on."""
        with self.lock, guarded(self.location):
            self._check_open()
            self._begin()
            try:
                gone = [(f"DELETE FROM {table} WHERE namespace = %s", (self.id,)) for table in TABLES]
                self._send([*gone, ("DELETE FROM namespaces WHERE id = %s", (self.id,)), ("COMMIT", ())])
            except psycopg.OperationalError as error:
                if self._held is None or not is_lost(self._held, error):
                    raise
                raise StorageError(
                    f"{self.location}: the connection was lost while this namespace was removed, and it may be gone: "
                    "look for it before you repeat this"
                ) from error
            finally:
                self._end()
                self.close()

    def scrub(self, done: str, what: str) -> None:
        """Do nothing: what was removed is gone from every query, and the server's files are not ours to write again."""
        self._check_open()

    def finish_scrub(self) -> None:
        """Do nothing: `tinymem scrub` does it for all namespaces."""

    def compact(self) -> None:
        """Do nothing: the server's autovacuum gives room to new rows."""
        self._check_open()

    def size(self) -> int:
        """Return the bytes of the rows of this namespace, without those of indexes."""
        return self.read_number(_SIZE, {"ns": self.id})

    # -- checks for the doctor -----------------------------------------------------------------------------------------

    def check_files(self) -> list[str]:
        """Return no fault: the server checks its own files."""
        self._check_open()
        return []

    def check_terms(self) -> TermCheck:
        """Compare the full-text index with the passages."""
        with self.snapshot():
            head = self.known_head()
            assert head is not None
            lacking = self.read_number(_LACKING.format("passages", "terms", "passage", "id"), (self.id,))
            unknown = self.read_number(_LACKING.format("terms", "passages", "id", "passage"), (self.id,))
            sums = self.read(_SUMS, (self.id,))[0]
            wrong = self.read_number(_MISCOUNTED, (self.id, self.id)) + self.read_number(_UNEVEN, (self.id,))
            miscounted = self._identifiers.count_faults()
        fault = None
        if lacking or unknown:
            fault = f"it lacks {lacking} passages, and has {unknown} that the journal does not have"
        elif sums != (head.passages, head.words) or wrong:
            fault = f"it counts {head.passages} passages of {head.words} words, and has {sums[0]} of {sums[1]}"
        elif miscounted:
            fault = f"it counts {miscounted} identifiers otherwise than the passages have them"
        return TermCheck(sums[0], fault)

    def check_vectors(self) -> VectorCheck:
        """Measure all vectors and identifiers; pgvector takes no vector that is not finite."""
        of = "FROM vectors WHERE namespace = %s AND embedder = %s"
        lengths = f"SELECT 2 * vector_dims(vector), count(*) {of} GROUP BY 1 ORDER BY 2"
        odd = "SELECT count(*) FROM passages WHERE namespace = %s AND octet_length(identifiers) %% 4 != 0"
        with self.snapshot():
            return VectorCheck(
                dict(self.read(lengths, (self.id, self.embedder()))), 0, self.read_number(odd, (self.id,))
            )

    def count_orphans(self) -> int:
        """Count the passages whose steps are missing."""
        return self.read_number(_LACKING.format("passages", "steps", "number", "step"), (self.id,))

    def filed(self, after: int = 0, limit: int = 500) -> list[FiledStep]:
        """Return up to `limit` steps with numbers above `after`, in order, with the columns beside their JSON."""
        sql = "SELECT number, id, record FROM steps WHERE namespace = %s AND number > %s ORDER BY number LIMIT %s"
        where = (
            "SELECT id, step, part, start, finish FROM passages "
            "WHERE namespace = %s AND step > %s AND step <= %s ORDER BY id"
        )
        with self.snapshot():
            rows = self.read(sql, (self.id, after, limit))
            places: dict[int, list[Place]] = {}
            for place in map(Place._make, self.read(where, (self.id, after, rows[-1][0])) if rows else ()):
                places.setdefault(place.step, []).append(place)
        return [FiledStep(number, id, record, places.get(number, [])) for number, id, record in rows]

    def renew_terms(self, texts: Callable[[FiledStep], Sequence[str]]) -> bool:
        """Make the full-text index again if it is damaged or of an earlier version, and return whether it was."""
        if self.check_terms().fault is None and self.setting(UNSPLIT) == "0":
            return False
        with self._transaction():
            head = self.head
            for table in ("terms", "stems"):
                self.write(f"DELETE FROM {table} WHERE namespace = %s", self.id)
            head.more_passages, head.more_words = -head.passages, -head.words
            self._identifiers.recount()
            self.keep({UNSPLIT: "0"})
            after = 0
            while steps := self.filed(after):
                for step in steps:
                    self._fulltext.add(zip((place.id for place in step.places), texts(step), strict=True))
                after = steps[-1].number
        return True
