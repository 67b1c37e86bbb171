"""Maintenance of a namespace's tables: sizes, checks for the doctor, and tables that are made again."""

from __future__ import annotations

from tinymem.protocols import TermCheck
from tinymem.protocols.settings import DELETIONS, EMBEDDER, EMBEDDER_NAME, MADE, REWRITES
from tinymem.stores.postgres.passages import PostgresPassages

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


class PostgresMaintenance:
    """The maintenance of a namespace: `tinymem.protocols.Maintenance` documents the methods."""

    def __init__(self, database: PostgresPassages) -> None:
        self._db = database

    def scrub(self) -> None:
        """Do nothing: what was removed is gone from every query, and the server's files are not ours to write again."""
        self._db.check_open()

    def finish_scrub(self) -> None:
        """Do nothing: `tinymem scrub` does it for all namespaces."""

    def size(self) -> int:
        """Return the bytes of the rows of this namespace, without those of indexes."""
        return self._db.read_number(_SIZE, {"ns": self._db.id})

    def go_on_from(self, number: int) -> None:
        """Reserve all numbers below `number`, so that no new step gets one of them."""
        with self._db.together():
            if number > self._db.head.next_number:
                self._db.head.next_number, self._db.head.is_dirty = number, True

    def switch(self, embedder: str, name: str) -> bool:
        """Use the vectors of `embedder`, and delete all others; return False if a passage has none yet."""
        with self._db.together():
            settings = {EMBEDDER_NAME: name}
            if embedder != self._db.embedder():
                if self._db.passages(0, 1, lacking=embedder):
                    return False
                settings[EMBEDDER] = embedder
            self._db.write("DELETE FROM vectors WHERE namespace = %s AND embedder != %s", self._db.id, embedder)
            self._db.keep(settings)
            return True

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
            wrong = self._db.read_number(_MISCOUNTED, (self._db.id, self._db.id))
        fault = None
        if lacking or unknown:
            fault = f"it lacks {lacking} passages, and has {unknown} that the journal does not have"
        elif sums != (head.passages, head.words) or wrong:
            fault = f"it counts {head.passages} passages of {head.words} words, and has {sums[0]} of {sums[1]}"
        return TermCheck(sums[0], fault)

    def clear_passages(self) -> None:
        """Remove all passages, with their words, vectors and notes, so that they are made of the steps again."""
        with self._db.together():
            self._clear("terms", "stems", "vectors", "passages", "notes")
            self._db.keep({MADE: "1"})
            self._db.count_up(DELETIONS, REWRITES)

    def _clear(self, *tables: str) -> None:
        """Empty tables of passages."""
        for table in tables:
            self._db.write(f"DELETE FROM {table} WHERE namespace = %s", self._db.id)
        head = self._db.head
        head.more_passages, head.more_words = -head.passages, -head.words
