"""Checks of a journal: SQLite's own check of the file, the full-text index against the passages, and their values.

Anything that is read here may be damaged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tinymem.protocols import FiledStep, Place, TermCheck, VectorCheck
from tinymem.protocols.settings import UNSPLIT
from tinymem.stores.sqlite.database import Database
from tinymem.stores.sqlite.lengths import Lengths
from tinymem.stores.sqlite.schema import guarded

__all__ = ["Checks"]

FAULTS = 3  # faults of the file that are named


class Checks(Database):
    """Checks for the doctor."""

    def check_files(self) -> list[str]:
        """Return the faults that SQLite's own check finds in the file."""
        found = [str(row[0]) for row in self._read(f"PRAGMA integrity_check({FAULTS})")]
        return [] if found == ["ok"] else found

    def check_terms(self) -> TermCheck:
        """Compare the full-text index with the passages."""
        with self._lock, guarded(self.path):
            fault = self._terms_fault()
        return TermCheck(self._number("SELECT count(*) FROM fulltext_docsize"), fault)

    def _terms_fault(self) -> str | None:
        try:
            self._db.execute("INSERT INTO fulltext(fulltext) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            if "locked" in str(error) or "full" in str(error):
                raise
            return str(error)
        with self.snapshot():
            lacking = self._number("SELECT count(*) FROM passages WHERE id NOT IN (SELECT id FROM fulltext_docsize)")
            unknown = self._number("SELECT count(*) FROM fulltext_docsize WHERE id NOT IN (SELECT id FROM passages)")
            averages, lengths = Lengths(self._db), Lengths(self._db)
            try:
                averages.refresh()
                lengths.read_new()
            except sqlite3.DatabaseError as error:
                return str(error)
            occurrences = self._number("SELECT sum(cnt) FROM vocabulary")
        if lacking or unknown:
            return f"it lacks {lacking} passages, and has {unknown} that the journal does not have"
        # SQLite's own check compares no contents, since this index keeps no texts
        if not occurrences == averages.total == lengths.total:
            return f"it has {occurrences} of the {lengths.total} words in its passages"
        return None

    def check_vectors(self) -> VectorCheck:
        """Measure all vectors and identifiers."""
        with self.snapshot():
            lengths = dict(self._read("SELECT length(vector), count(*) FROM passages GROUP BY 1 ORDER BY 2"))
            odd = self._number("SELECT count(*) FROM passages WHERE length(identifiers) % 4")
            vectors = self._db.execute("SELECT vector FROM passages WHERE length(vector) % 2 = 0")
            bad = sum(not np.isfinite(np.frombuffer(vector, "<f2")).all() for (vector,) in vectors)
        return VectorCheck(lengths, bad, odd)

    def count_orphans(self) -> int:
        """Count the passages whose steps are missing."""
        return self._number("SELECT count(*) FROM passages WHERE step NOT IN (SELECT number FROM steps)")

    def filed(self, after: int = 0, limit: int = 500) -> list[FiledStep]:
        """Return up to `limit` steps with numbers above `after`, in order, with the columns beside their JSON."""
        rows = self._read(
            "SELECT number, id, record FROM steps WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
        )
        places: dict[int, list[Place]] = {}
        if rows:
            where = "SELECT id, step, part, start, end FROM passages WHERE step > ? AND step <= ? ORDER BY id"
            for place in map(Place._make, self._read(where, (after, rows[-1][0]))):
                places.setdefault(place.step, []).append(place)
        return [FiledStep(number, id, record, places.get(number, [])) for number, id, record in rows]

    def renew_terms(self, texts: Callable[[FiledStep], Sequence[str]]) -> bool:
        """Make the full-text index again if it is damaged or of an earlier version, and return whether it was."""
        if self.check_terms().fault is None and self.setting(UNSPLIT) == "0":
            return False
        with self._transaction():
            self._fulltext.clear()
            self.keep({UNSPLIT: "0"})
            for step in self._all_filed():
                self._fulltext.add(zip((place.id for place in step.places), texts(step), strict=True))
        return True

    def _all_filed(self) -> Iterator[FiledStep]:
        after = 0
        while some := self.filed(after):
            yield from some
            after = some[-1].number
