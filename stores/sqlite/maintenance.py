"""Maintenance of a journal's file: scrubbing, sizes, checks for the doctor, and tables that are made again."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

from tinymem.errors import StorageError
from tinymem.protocols import TermCheck
from tinymem.protocols.settings import DELETIONS, EMBEDDER, EMBEDDER_NAME, MADE, REWRITES, UNSCRUBBED
from tinymem.stores.sqlite.database import guarded
from tinymem.stores.sqlite.fulltext import Lengths
from tinymem.stores.sqlite.passages import SqlitePassages

__all__ = ["SqliteMaintenance"]

CHECK_TERMS = "INSERT INTO fulltext(fulltext) VALUES ('integrity-check')"
LACKING = "SELECT count(*) FROM passages WHERE id NOT IN (SELECT id FROM fulltext_docsize)"
UNKNOWN = "SELECT count(*) FROM fulltext_docsize WHERE id NOT IN (SELECT id FROM passages)"
FAULTS = 3  # faults of the file that are named


class SqliteMaintenance:
    """The maintenance of a journal's file: `tinymem.protocols.Maintenance` documents the methods."""

    def __init__(self, database: SqlitePassages) -> None:
        self._db = database

    def scrub(self) -> None:
        """Remove all traces of removed steps from the file; StorageError while another connection reads.

        The file is written again, since `secure_delete` overwrites a row that is deleted, but not the copy that stays
        behind where a page was split: it was found in half of the files of a random test.
        """
        until = self._db.setting(UNSCRUBBED)
        with self._db.lock:
            with self._db.transaction():
                self._db.fulltext.purge()
            with guarded(self._db.path):
                self._db.connection.execute("VACUUM")
                busy = self._db.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StorageError(
                f"another process or thread reads the file {self._db.path}: what was removed is in it until that "
                "reader and this memory are closed"
            )
        with suppress(StorageError), self._db.transaction():  # or it is done once more
            if self._db.setting(UNSCRUBBED) == until:  # nobody has removed more meanwhile
                self._db.keep({UNSCRUBBED: ""})

    def finish_scrub(self) -> None:
        """Do what waits to be scrubbed, unless there is no space, or somebody reads or writes at this moment."""
        if self._db.is_read_only or not self._db.setting(UNSCRUBBED):
            return
        with self._db.lock, suppress(StorageError):
            try:
                self._db.connection.execute("PRAGMA busy_timeout=0")
                self.scrub()
            finally:
                self._db.connection.execute(f"PRAGMA busy_timeout={int(1_000 * self._db.timeout)}")

    def size(self) -> int:
        """Return the bytes of the file that are in use."""
        pages, free, each = (
            self._db.read_number(f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * each

    def go_on_from(self, number: int) -> None:
        """Reserve all numbers below `number`, so that no new step gets one of them."""
        with self._db.transaction() as db:
            if not db.execute("SELECT 1 FROM sqlite_sequence WHERE name = 'steps'").fetchone():
                db.execute("INSERT INTO sqlite_sequence VALUES ('steps', 0)")
            db.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'steps'", (number - 1,))

    def switch(self, embedder: str, name: str) -> bool:
        """Use the vectors of `embedder`, and delete all others; return False if a passage has none yet."""
        with self._db.transaction() as db:
            settings = {EMBEDDER_NAME: name}
            if embedder != self._db.embedder():
                if self._db.passages(0, 1, lacking=embedder):
                    return False
                settings[EMBEDDER] = embedder
            db.execute("DELETE FROM vectors WHERE embedder != ?", (embedder,))
            self._db.keep(settings)
            return True

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
            if not self._db.is_read_only:  # SQLite's check counts as a write
                self._db.connection.execute(CHECK_TERMS)
            lengths = Lengths(self._db.connection)
            lengths.read_new()
        except sqlite3.DatabaseError as error:
            if "locked" in str(error) or "is full" in str(error):
                raise
            return str(error)
        lacking, unknown = (self._db.read_number(sql) for sql in (LACKING, UNKNOWN))
        words = self._db.read_number("SELECT sum(cnt) FROM vocabulary")
        if lacking or unknown or words != lengths.total:  # SQLite's own check compares no contents: there are no texts
            counts = f"has {unknown} too many, and {words} of {lengths.total} words"
            return f"it lacks {lacking} passages, {counts}"
        return None

    def clear_passages(self) -> None:
        """Remove all passages, with their words, vectors and notes, so that they are made of the steps again."""
        with self._db.transaction() as db:
            self._db.fulltext.clear()
            db.execute("DELETE FROM passages")
            db.execute("DELETE FROM vectors")
            db.execute("DELETE FROM notes")
            self._db.keep({MADE: "1"})
            self._db.count_up(DELETIONS, REWRITES)
