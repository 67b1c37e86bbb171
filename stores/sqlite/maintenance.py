"""Maintenance of a journal's file: scrubbing, sizes, checks for the doctor, and tables that are made again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress

import numpy as np

from tinymem.errors import StorageError
from tinymem.protocols import FiledStep, FileNote, Place, TermCheck, VectorCheck
from tinymem.protocols.settings import UNSCRUBBED
from tinymem.stores.sqlite.database import USED, SqliteDatabase, guarded
from tinymem.stores.sqlite.lengths import Lengths
from tinymem.stores.sqlite.reading import copy_of
from tinymem.stores.sqlite.steps import PUT_FILE

__all__ = ["SqliteMaintenance"]

CHECK_TERMS = "INSERT INTO fulltext(fulltext) VALUES ('integrity-check')"
FAULTS = 3  # faults of the file that are named


class SqliteMaintenance:
    """The maintenance of a journal's file: `tinymem.protocols.Maintenance` documents the methods."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._db = database

    def scrub(self, done: str, what: str) -> None:
        """Remove all traces of removed steps from the file; StorageError while another connection reads."""
        try:
            is_clean = self._scrub()
        except StorageError as error:
            raise type(error)(
                f"{done}, but {what} in the memory's files until it is opened again, or more is forgotten: {error}"
            ) from error
        if not is_clean:
            raise StorageError(
                f"{self._db.path}: {done}, but another process or thread reads the file, so {what} in it until that "
                "reader and this memory are closed"
            )

    def _scrub(self) -> bool:
        until = self._db.setting(UNSCRUBBED)
        with self._db.lock:
            with self._db.transaction():
                self._db.fulltext.purge()
            with guarded(self._db.path):
                self._db.connection.execute("VACUUM")
                busy = self._db.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            return False
        with suppress(StorageError), self._db.transaction():  # or it is done once more
            if self._db.setting(UNSCRUBBED) == until:  # nobody has removed more meanwhile
                self._db.keep({UNSCRUBBED: ""})
        return True

    def finish_scrub(self) -> None:
        """Do what waits to be scrubbed, unless there is no space, or somebody reads or writes at this moment."""
        if self._db.is_read_only or not self._db.setting(UNSCRUBBED):
            return
        with self._db.lock, suppress(StorageError):
            try:
                self._db.connection.execute("PRAGMA busy_timeout=0")
                self._scrub()
            finally:
                self._db.connection.execute(f"PRAGMA busy_timeout={int(1_000 * self._db.timeout)}")

    def size(self) -> int:
        """Return the bytes of the file that are in use."""
        pages, free, each = (
            self._db.read_number(f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * each

    # -- checks for the doctor: anything that is read here may be damaged ----------------------------------------------

    def check_files(self) -> list[str]:
        """Return the faults that SQLite's own check finds in the file, but for the full-text index (`check_terms`)."""
        with self._db.lock, guarded(self._db.path):
            try:
                rows = self._db.connection.execute(f"PRAGMA integrity_check({FAULTS})").fetchall()
            except sqlite3.DatabaseError as error:  # SQLite 3.44 and newer look into full-text indexes, and stop there
                rows = [(error,)]
                if "fts5" not in str(error):
                    raise
        return [fault for (row,) in rows if (fault := str(row)) != "ok" and "fts5" not in fault.lower()]

    def check_terms(self) -> TermCheck:
        """Compare the full-text index with the passages."""
        with self._db.lock, guarded(self._db.path):
            fault = self._terms_fault()
        return TermCheck(self._db.read_number("SELECT count(*) FROM fulltext_docsize"), fault)

    def _terms_fault(self) -> str | None:
        try:
            if self._db.is_read_only:  # SQLite's check counts as a write
                with closing(copy_of(self._db.connection)) as copy:
                    copy.execute(CHECK_TERMS)
            else:
                self._db.connection.execute(CHECK_TERMS)
        except sqlite3.DatabaseError as error:
            if "locked" in str(error) or "is full" in str(error):
                raise
            return str(error)
        with self._db.snapshot():
            lacking = self._db.read_number(
                "SELECT count(*) FROM passages WHERE id NOT IN (SELECT id FROM fulltext_docsize)"
            )
            unknown = self._db.read_number(
                "SELECT count(*) FROM fulltext_docsize WHERE id NOT IN (SELECT id FROM passages)"
            )
            averages, lengths = Lengths(self._db.connection), Lengths(self._db.connection)
            try:
                averages.refresh()
                lengths.read_new()
            except sqlite3.DatabaseError as error:
                return str(error)
            occurrences = self._db.read_number("SELECT sum(cnt) FROM vocabulary")
        if lacking or unknown:
            return f"it lacks {lacking} passages, and has {unknown} that the journal does not have"
        # SQLite's own check compares no contents, since this index keeps no texts
        if not occurrences == averages.total == lengths.total:
            return f"it has {occurrences} of the {lengths.total} words in its passages"
        return None

    def check_vectors(self) -> VectorCheck:
        """Measure all vectors and identifiers."""
        with self._db.snapshot():
            of = f"FROM vectors WHERE embedder = {USED}"
            lengths = dict(self._db.read(f"SELECT length(vector), count(*) {of} GROUP BY 1 ORDER BY 2"))
            odd = self._db.read_number("SELECT count(*) FROM passages WHERE length(identifiers) % 4")
            vectors = self._db.connection.execute(f"SELECT vector {of} AND length(vector) % 2 = 0")
            bad = sum(not np.isfinite(np.frombuffer(vector, "<f2")).all() for (vector,) in vectors)
        return VectorCheck(lengths, bad, odd)

    def count_orphans(self) -> int:
        """Count the passages whose steps are missing."""
        return self._db.read_number("SELECT count(*) FROM passages WHERE step NOT IN (SELECT number FROM steps)")

    def filed(self, after: int = 0, limit: int = 500) -> list[FiledStep]:
        """Return up to `limit` steps with numbers above `after`, in order, with the columns beside their JSON."""
        rows = self._db.read(
            "SELECT number, id, record FROM steps WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
        )
        places: dict[int, list[Place]] = {}
        if rows:
            where = "SELECT id, step, part, start, end FROM passages WHERE step > ? AND step <= ? ORDER BY id"
            for place in map(Place._make, self._db.read(where, (after, rows[-1][0]))):
                places.setdefault(place.step, []).append(place)
        return [FiledStep(number, id, record, places.get(number, [])) for number, id, record in rows]

    def renew_terms(self, texts: Callable[[FiledStep], Sequence[str]]) -> bool:
        """Make the full-text index again if it is damaged, and return whether it was."""
        if self.check_terms().fault is None:
            return False
        with self._db.transaction():
            self._db.fulltext.clear()
            after = 0
            while steps := self.filed(after):
                for step in steps:
                    self._db.fulltext.add(zip((place.id for place in step.places), texts(step), strict=True))
                after = steps[-1].number
        return True

    def renew_file_notes(self, notes: Iterable[FileNote]) -> None:
        """Put these notes in the place of all."""
        with self._db.transaction(derived=True) as db:
            db.execute("DELETE FROM files")
            db.executemany(PUT_FILE, notes)
