"""The journal: one SQLite file with every step, passage, vector and term of a namespace, the source of truth.

With WAL and synchronous FULL, a step survives a killed process and a power failure once `add` has returned.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain

import numpy as np

from tinymem.errors import StorageError
from tinymem.protocols import FiledStep, Place, TermCheck, VectorCheck
from tinymem.protocols.settings import REWRITES, UNSCRUBBED, UNSPLIT, WINDOW_CHANGES
from tinymem.stores.sqlite.database import USED, guarded
from tinymem.stores.sqlite.lengths import Lengths
from tinymem.stores.sqlite.passages import Passages
from tinymem.stores.sqlite.reading import copy_of
from tinymem.stores.sqlite.steps import Steps

__all__ = ["SqliteJournal"]

CHECK_TERMS = "INSERT INTO fulltext(fulltext) VALUES ('integrity-check')"
FAULTS = 3  # faults of the file that are named


class SqliteJournal(Steps, Passages):
    """A namespace's journal at `path`, made if `create`. Safe to use from several threads.

    `tinymem.protocols.Journal` documents the methods. They wait up to `timeout` seconds for another process that
    writes, and then raise StorageError.
    """

    @contextmanager
    def reading(self) -> Iterator[SqliteJournal]:
        """Open a second journal that reads the present state.

        While it is open, `scrub` fails everywhere, since the text of forgotten steps is still there.
        """
        other = SqliteJournal(self.path, create=False)
        try:
            with guarded(self.path):
                other._db.execute("BEGIN")
            other.setting("")  # SQLite fixes the state at the first read
            yield other
        finally:
            other.close()

    def keep_others_out(self) -> None:
        """Let nobody else use the journal until it is closed; StorageError while somebody has it open."""
        with self._lock, guarded(self.path):
            try:
                self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
                self._db.execute("BEGIN IMMEDIATE")  # from now on SQLite keeps the lock
                self._db.execute("COMMIT")
            except sqlite3.OperationalError as error:
                raise StorageError(f"{self.path} is in use: close the memories that have it open first") from error

    def back_up(self, target: SqliteJournal) -> None:
        """Copy this journal over another one, in one transaction, while this one may be in use."""
        with self._lock, target._lock, guarded(target.path):
            self._db.backup(target._db)

    def delete(self, passages_of: Mapping[int, Sequence[str]], replaced: bool = False) -> bool:
        """Remove steps for good, and the summaries that cover them; False if a number of passages does not match.

        Then the file is written again without them. Inside `together`, the caller scrubs it afterwards.
        """
        sql = "SELECT id FROM passages WHERE step = ? ORDER BY id"
        with self._transaction() as db:
            ids = {number: [i for (i,) in db.execute(sql, (number,))] for number in passages_of}
            if any(len(ids[number]) != len(texts) for number, texts in passages_of.items()):
                return False
            held = self.setting(UNSPLIT) or ""
            unsplit = int(held) if held.isdecimal() else self._number("SELECT max(id) FROM passages")
            for number, texts in passages_of.items():
                self._fulltext.remove(zip(ids[number], texts, strict=True), unsplit)
                db.executemany("DELETE FROM vectors WHERE passage = ?", ((id,) for id in ids[number]))
                db.execute("DELETE FROM passages WHERE step = ?", (number,))
                db.execute("DELETE FROM steps WHERE number = ?", (number,))
                db.execute("DELETE FROM labels WHERE step = ?", (number,))
                db.execute("DELETE FROM files WHERE step = ?", (number,))
                db.execute("DELETE FROM summaries WHERE first <= ?1 AND last >= ?1", (number,))
            if replaced:
                self._note_changes(chain.from_iterable(ids.values()))
            else:
                self._outdate_indexes()
            self._count_up(WINDOW_CHANGES)
            self._count_up(REWRITES)
            self.keep({UNSCRUBBED: self.setting(REWRITES) or ""})
        if not self._db.in_transaction:
            self.scrub("the steps are deleted", "their text stays")
        return True

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
                f"{self.path}: {done}, but another process or thread reads the file, so {what} in it until that reader "
                "and this memory are closed"
            )

    def _scrub(self) -> bool:
        until = self.setting(UNSCRUBBED)
        with self._lock:
            with self._transaction():
                self._fulltext.purge()
            self.compact()
            with guarded(self.path):
                busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            return False
        with suppress(StorageError), self._transaction():  # or it is done once more
            if self.setting(UNSCRUBBED) == until:  # nobody has removed more meanwhile
                self.keep({UNSCRUBBED: ""})
        return True

    def finish_scrub(self) -> None:
        """Do what waits to be scrubbed, unless there is no space, or somebody reads or writes at this moment."""
        if self.is_read_only or not self.setting(UNSCRUBBED):
            return
        with self._lock, suppress(StorageError):
            try:
                self._db.execute("PRAGMA busy_timeout=0")
                self._scrub()
            finally:
                self._db.execute(f"PRAGMA busy_timeout={int(1_000 * self._timeout)}")

    def compact(self) -> None:
        """Give the room of removed rows back; this writes the whole file again."""
        with self._lock, guarded(self.path):
            self._db.execute("VACUUM")

    def size(self) -> int:
        """Return the bytes of the file that are in use."""
        pages, free, each = (self._number(f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size"))
        return (pages - free) * each

    # -- checks for the doctor: anything that is read here may be damaged ----------------------------------------------

    def check_files(self) -> list[str]:
        """Return the faults that SQLite's own check finds in the file, but for the full-text index (`check_terms`)."""
        with self._lock, guarded(self.path):
            try:
                rows = self._db.execute(f"PRAGMA integrity_check({FAULTS})").fetchall()
            except sqlite3.DatabaseError as error:  # SQLite 3.44 and newer look into full-text indexes, and stop there
                rows = [(error,)]
                if "fts5" not in str(error):
                    raise
        return [fault for (row,) in rows if (fault := str(row)) != "ok" and "fts5" not in fault.lower()]

    def check_terms(self) -> TermCheck:
        """Compare the full-text index with the passages."""
        with self._lock, guarded(self.path):
            fault = self._terms_fault()
        return TermCheck(self._number("SELECT count(*) FROM fulltext_docsize"), fault)

    def _terms_fault(self) -> str | None:
        try:
            if self.is_read_only:  # SQLite's check counts as a write
                with closing(copy_of(self._db)) as copy:
                    copy.execute(CHECK_TERMS)
            else:
                self._db.execute(CHECK_TERMS)
        except sqlite3.DatabaseError as error:
            if "locked" in str(error) or "is full" in str(error):
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
            of = f"FROM vectors WHERE embedder = {USED}"
            lengths = dict(self._read(f"SELECT length(vector), count(*) {of} GROUP BY 1 ORDER BY 2"))
            odd = self._number("SELECT count(*) FROM passages WHERE length(identifiers) % 4")
            vectors = self._db.execute(f"SELECT vector {of} AND length(vector) % 2 = 0")
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
            after = 0
            while steps := self.filed(after):
                for step in steps:
                    self._fulltext.add(zip((place.id for place in step.places), texts(step), strict=True))
                after = steps[-1].number
        return True
