"""Maintenance of a namespace's tables: sizes, checks for the doctor, and tables that are made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tinymem.protocols import FiledStep, FileNote, Place, TermCheck, VectorCheck
from tinymem.stores.postgres.database import PostgresDatabase
from tinymem.stores.postgres.fulltext import PostgresFullText
from tinymem.stores.postgres.steps import PUT_FILE

__all__ = ["PostgresMaintenance"]

_SIZE = """
SELECT coalesce((SELECT sum(pg_column_size(s.*)) FROM steps s WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(pg_column_size(p.*)) FROM passages p WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(pg_column_size(v.*)) FROM vectors v WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(pg_column_size(t.*)) FROM terms t WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(octet_length(text)) FROM summaries WHERE namespace = %(ns)s), 0)
    + coalesce((SELECT sum(octet_length(value)) FROM settings WHERE namespace = %(ns)s), 0)
"""
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


class PostgresMaintenance:
    """The maintenance of a namespace: `tinymem.protocols.Maintenance` documents the methods."""

    def __init__(self, database: PostgresDatabase, fulltext: PostgresFullText) -> None:
        self._db, self._fulltext = database, fulltext

    def scrub(self, done: str, what: str) -> None:
        """Do nothing: what was removed is gone from every query, and the server's files are not ours to write again."""
        self._db.check_open()

    def finish_scrub(self) -> None:
        """Do nothing: `tinymem scrub` does it for all namespaces."""

    def size(self) -> int:
        """Return the bytes of the rows of this namespace, without those of indexes."""
        return self._db.read_number(_SIZE, {"ns": self._db.id})

    # -- checks for the doctor -----------------------------------------------------------------------------------------

    def check_files(self) -> list[str]:
        """Return no fault: the server checks its own files."""
        self._db.check_open()
        return []

    def check_terms(self) -> TermCheck:
        """Compare the full-text index with the passages."""
        with self._db.snapshot():
            head = self._db.known_head()
            assert head is not None
            lacking = self._db.read_number(_LACKING.format("passages", "terms", "passage", "id"), (self._db.id,))
            unknown = self._db.read_number(_LACKING.format("terms", "passages", "id", "passage"), (self._db.id,))
            sums = self._db.read(_SUMS, (self._db.id,))[0]
            wrong = self._db.read_number(_MISCOUNTED, (self._db.id, self._db.id)) + self._db.read_number(
                _UNEVEN, (self._db.id,)
            )
        fault = None
        if lacking or unknown:
            fault = f"it lacks {lacking} passages, and has {unknown} that the journal does not have"
        elif sums != (head.passages, head.words) or wrong:
            fault = f"it counts {head.passages} passages of {head.words} words, and has {sums[0]} of {sums[1]}"
        return TermCheck(sums[0], fault)

    def check_vectors(self) -> VectorCheck:
        """Measure all vectors and identifiers."""
        vectors = "SELECT vector FROM vectors WHERE namespace = %s AND embedder = %s"
        odd = "SELECT count(*) FROM passages WHERE namespace = %s AND octet_length(identifiers) %% 4 != 0"
        with self._db.snapshot():
            found = [vector for (vector,) in self._db.read(vectors, (self._db.id, self._db.embedder()))]
            cut_short = self._db.read_number(odd, (self._db.id,))
        whole = (np.frombuffer(vector, "<f2") for vector in found if len(vector) % 2 == 0)
        return VectorCheck(Counter(map(len, found)), sum(not np.isfinite(vector).all() for vector in whole), cut_short)

    def count_orphans(self) -> int:
        """Count the passages whose steps are missing."""
        return self._db.read_number(_LACKING.format("passages", "steps", "number", "step"), (self._db.id,))

    def filed(self, after: int = 0, limit: int = 500) -> list[FiledStep]:
        """Return up to `limit` steps with numbers above `after`, in order, with the columns beside their JSON."""
        sql = "SELECT number, id, record FROM steps WHERE namespace = %s AND number > %s ORDER BY number LIMIT %s"
        where = (
            "SELECT id, step, part, start, finish FROM passages "
            "WHERE namespace = %s AND step > %s AND step <= %s ORDER BY id"
        )
        with self._db.snapshot():
            rows = self._db.read(sql, (self._db.id, after, limit))
            places: dict[int, list[Place]] = {}
            for place in map(Place._make, self._db.read(where, (self._db.id, after, rows[-1][0])) if rows else ()):
                places.setdefault(place.step, []).append(place)
        return [FiledStep(number, id, record, places.get(number, [])) for number, id, record in rows]

    def renew_terms(self, texts: Callable[[FiledStep], Sequence[str]]) -> bool:
        """Make the full-text index again if it is damaged, and return whether it was."""
        if self.check_terms().fault is None:
            return False
        with self._db.together():
            head = self._db.head
            for table in ("terms", "stems"):
                self._db.write(f"DELETE FROM {table} WHERE namespace = %s", self._db.id)
            head.more_passages, head.more_words = -head.passages, -head.words
            after = 0
            while steps := self.filed(after):
                for step in steps:
                    self._fulltext.add(zip((place.id for place in step.places), texts(step), strict=True))
                after = steps[-1].number
        return True

    def renew_file_notes(self, notes: Iterable[FileNote]) -> None:
        """Put these notes in the place of all."""
        with self._db.together():
            self._db.write("DELETE FROM files WHERE namespace = %s", self._db.id)
            for note in notes:
                self._db.write(PUT_FILE, self._db.id, *note)
