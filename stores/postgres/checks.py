"""Checks of a journal: the full-text index against the passages, and their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tinymem.protocols import FiledStep, Place, TermCheck, VectorCheck
from tinymem.protocols.settings import UNSPLIT
from tinymem.stores.postgres.fulltext import FullText
from tinymem.stores.postgres.statistics import Statistics

__all__ = ["Checks"]

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


class Checks(FullText, Statistics):
    """Checks for the doctor."""

    def check_files(self) -> list[str]:
        """Return no fault: the server checks its own files."""
        self._check_open()
        return []

    def check_terms(self) -> TermCheck:
        """Compare the full-text index with the passages."""
        with self.snapshot():
            head = self._known()
            assert head is not None
            lacking = self._number(_LACKING.format("passages", "terms", "passage", "id"), (self._id,))
            unknown = self._number(_LACKING.format("terms", "passages", "id", "passage"), (self._id,))
            sums = self._read(_SUMS, (self._id,))[0]
            wrong = self._number(_MISCOUNTED, (self._id, self._id)) + self._number(_UNEVEN, (self._id,))
            miscounted = self._miscounted()
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
        lengths = "SELECT 2 * vector_dims(vector), count(*) FROM passages WHERE namespace = %s GROUP BY 1 ORDER BY 2"
        odd = "SELECT count(*) FROM passages WHERE namespace = %s AND octet_length(identifiers) %% 4 != 0"
        with self.snapshot():
            return VectorCheck(dict(self._read(lengths, (self._id,))), 0, self._number(odd, (self._id,)))

    def count_orphans(self) -> int:
        """Count the passages whose steps are missing."""
        return self._number(_LACKING.format("passages", "steps", "number", "step"), (self._id,))

    def filed(self, after: int = 0, limit: int = 500) -> list[FiledStep]:
        """Return up to `limit` steps with numbers above `after`, in order, with the columns beside their JSON."""
        sql = "SELECT number, id, record FROM steps WHERE namespace = %s AND number > %s ORDER BY number LIMIT %s"
        where = (
            "SELECT id, step, part, start, finish FROM passages "
            "WHERE namespace = %s AND step > %s AND step <= %s ORDER BY id"
        )
        with self.snapshot():
            rows = self._read(sql, (self._id, after, limit))
            places: dict[int, list[Place]] = {}
            for place in map(Place._make, self._read(where, (self._id, after, rows[-1][0])) if rows else ()):
                places.setdefault(place.step, []).append(place)
        return [FiledStep(number, id, record, places.get(number, [])) for number, id, record in rows]

    def renew_terms(self, texts: Callable[[FiledStep], Sequence[str]]) -> bool:
        """Make the full-text index again if it is damaged or of an earlier version, and return whether it was."""
        if self.check_terms().fault is None and self.setting(UNSPLIT) == "0":
            return False
        with self._transaction():
            head = self._written
            for table in ("terms", "stems"):
                self._write(f"DELETE FROM {table} WHERE namespace = %s", self._id)
            head.more_passages, head.more_words = -head.passages, -head.words
            self._recount()
            self.keep({UNSPLIT: "0"})
            for step in self._all_filed():
                self._index(zip((place.id for place in step.places), texts(step), strict=True))
        return True

    def _all_filed(self) -> Iterator[FiledStep]:
        after = 0
        while some := self.filed(after):
            yield from some
            after = some[-1].number
