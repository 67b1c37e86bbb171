"""The journal: one SQLite file with every step, passage, vector and term of a namespace, the source of truth.

Beside its steps and passages: its small tables, its maintenance, and forgetting.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tinymem.errors import StorageError
from tinymem.protocols import Maintenance, MessageRow, MessageRows, StepNote, SummaryRow, SummaryRows, TermCheck
from tinymem.protocols.settings import DELETIONS, EMBEDDER, EMBEDDER_NAME, MADE, REWRITES, UNSCRUBBED
from tinymem.stores.sqlite.database import LAST, WAITING, SqliteDatabase, guarded
from tinymem.stores.sqlite.fulltext import Lengths
from tinymem.stores.sqlite.opening import open_file
from tinymem.stores.sqlite.passages import SqlitePassages

__all__ = ["SqliteJournal"]

_COUNTS = (
    "SELECT count(*), sum(window), sum(number >= first), sum(tokens), sum(tokens * window), "
    f"(SELECT count(*) FROM passages WHERE id <= {LAST}) FROM steps, (SELECT {WAITING} AS first)"
)
_NOTE = (int, int, str, bytes)
_MESSAGES = "SELECT said, nth, step, is_last FROM messages"
_MESSAGE = (str, int, int, int)
CHECK_TERMS = "INSERT INTO fulltext(fulltext) VALUES ('integrity-check')"
LACKING = "SELECT count(*) FROM passages WHERE id NOT IN (SELECT id FROM fulltext_docsize)"
UNKNOWN = "SELECT count(*) FROM fulltext_docsize WHERE id NOT IN (SELECT id FROM passages)"
FAULTS = 3  # faults of the file that are named


class SqliteJournal(SqlitePassages):
    """A namespace's journal at `path`, made if `create`. Safe to use from several threads.

    `tinymem.protocols.Journal` documents the methods. They wait up to `timeout` seconds for another process that
    writes, and then raise StorageError.
    """

    def __init__(self, path: Path, create: bool = True, timeout: float = 30, read_only: bool = False) -> None:
        with guarded(path):
            opened = open_file(path, create, timeout, read_only)
        super().__init__(path, opened, timeout)
        self.messages: MessageRows = SqliteMessages(self)
        self.summaries: SummaryRows = SqliteSummaries(self)
        self.maintenance: Maintenance = self

    @contextmanager
    def reading(self) -> Iterator[SqliteJournal]:
        """Open a second journal that reads the present state.

        While it is open, `scrub` fails everywhere, since the text of forgotten steps is still there.
        """
        self.check_file()
        other = SqliteJournal(self.path, create=False)
        try:
            with guarded(self.path):
                other.connection.execute("BEGIN")
            other.setting("")  # SQLite fixes the state at the first read
            yield other
        finally:
            other.close()

    # -- counts, marks and notes of steps --------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Count steps, passages and tokens."""
        values = [int(value or 0) for value in self.read(_COUNTS, (self._made(),))[0]]
        names = ("steps", "window_steps", "waiting_steps", "tokens", "window_tokens", "passages")
        return dict(zip(names, values, strict=True))

    def set_milestones(self, numbers: Iterable[int], milestone: bool) -> None:
        """Mark these steps as milestones, or remove the mark."""
        with self.transaction() as db:
            db.executemany("UPDATE steps SET milestone = ? WHERE number = ?", ((milestone, n) for n in numbers))
            self.count_up(REWRITES)

    def notes_of(self, steps: Sequence[int]) -> list[StepNote]:
        """Return the notes of these steps, in order."""
        return sorted(map(StepNote._make, self.read_each("SELECT * FROM notes WHERE step IN ({})", steps, _NOTE)))

    def notes_with(self, keys: Iterable[str]) -> list[StepNote]:
        """Return the notes with these keys, of all steps, in order."""
        return sorted(map(StepNote._make, self.read_each("SELECT * FROM notes WHERE key IN ({})", [*keys], _NOTE)))

    # -- maintenance -----------------------------------------------------------------------------------------------

    def scrub(self) -> None:
        """Remove all traces of removed steps from the file; StorageError while another connection reads.

        The file is written again, since `secure_delete` overwrites a row that is deleted, but not the copy that stays
        behind where a page was split: it was found in half of the files of a random test.
        """
        with self.lock, guarded(self.path):
            with self.transaction() as db:
                (until,) = db.execute("SELECT max(value) FROM meta WHERE key = ?", (UNSCRUBBED,)).fetchone()
                self.fulltext.purge()
            db.execute("VACUUM")
            busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            with suppress(
                sqlite3.OperationalError
            ):  # or it is done once more, as where somebody has removed more meanwhile
                db.execute(
                    "UPDATE meta SET value = '' WHERE key = ? AND value = ? AND NOT ?", (UNSCRUBBED, until, busy)
                )
        if busy:
            raise StorageError(
                f"another process or thread reads the file {self.path}: what was removed is in it until that "
                "reader and this memory are closed"
            )

    def finish_scrub(self) -> None:
        """Do what waits to be scrubbed, unless there is no space, or somebody reads or writes at this moment."""
        if self.is_read_only or not self.setting(UNSCRUBBED):
            return
        with self.lock, suppress(StorageError):
            try:
                self.connection.execute("PRAGMA busy_timeout=0")
                self.scrub()
            finally:
                self.connection.execute(f"PRAGMA busy_timeout={int(1_000 * self.timeout)}")

    def size(self) -> int:
        """Return the bytes of the file that are in use."""
        pages, free, each = (
            self.read_number(f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * each

    def go_on_from(self, number: int) -> None:
        """Reserve all numbers below `number`, so that no new step gets one of them."""
        with self.transaction() as db:
            if not db.execute("SELECT 1 FROM sqlite_sequence WHERE name = 'steps'").fetchone():
                db.execute("INSERT INTO sqlite_sequence VALUES ('steps', 0)")
            db.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'steps'", (number - 1,))

    def switch(self, embedder: str, name: str) -> bool:
        """Use the vectors of `embedder`, and delete all others; return False if a passage has none yet."""
        with self.transaction() as db:
            settings = {EMBEDDER_NAME: name}
            if embedder != self.embedder():
                if self.passages(0, 1, lacking=embedder):
                    return False
                settings[EMBEDDER] = embedder
            db.execute("DELETE FROM vectors WHERE embedder != ?", (embedder,))
            self.keep(settings)
            return True

    # -- checks for the doctor: anything that is read here may be damaged ----------------------------------------------

    def check_files(self) -> list[str]:
        """Return the faults that SQLite's own check finds in the file, but for the full-text index (`check_terms`)."""
        with self.lock, guarded(self.path):
            try:
                rows = self.connection.execute(f"PRAGMA integrity_check({FAULTS})").fetchall()
            except sqlite3.DatabaseError as error:  # SQLite 3.44 and newer look into full-text indexes, and stop there
                rows = [(error,)]
                if "fts5" not in str(error):
                    raise
        return [fault for (row,) in rows if (fault := str(row)) != "ok" and "fts5" not in fault.lower()]

    def check_terms(self) -> TermCheck:
        """Compare the full-text index with the passages."""
        with self.lock, guarded(self.path):
            fault = self._terms_fault()
        return TermCheck(self.read_number("SELECT count(*) FROM fulltext_docsize"), fault)

    def _terms_fault(self) -> str | None:
        try:
            if not self.is_read_only:  # SQLite's check counts as a write
                self.connection.execute(CHECK_TERMS)
            lengths = Lengths(self.connection)
            lengths.read_new()
        except sqlite3.DatabaseError as error:
            if "locked" in str(error) or "is full" in str(error):
                raise
            return str(error)
        lacking, unknown = (self.read_number(sql) for sql in (LACKING, UNKNOWN))
        words = self.read_number("SELECT sum(cnt) FROM vocabulary")
        if lacking or unknown or words != lengths.total:  # SQLite's own check compares no contents: there are no texts
            counts = f"has {unknown} too many, and {words} of {lengths.total} words"
            return f"it lacks {lacking} passages, {counts}"
        return None

    def clear_passages(self) -> None:
        """Remove all passages, with their words, vectors and notes, so that they are made of the steps again."""
        with self.transaction() as db:
            self.fulltext.clear()
            db.execute("DELETE FROM passages")
            db.execute("DELETE FROM vectors")
            db.execute("DELETE FROM notes")
            self.keep({MADE: "1"})
            self.count_up(DELETIONS, REWRITES)


class SqliteMessages:
    """The table `messages`: `tinymem.protocols.MessageRows` documents the methods."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._db = database

    def put(self, rows: Sequence[MessageRow]) -> None:
        """Keep messages that are not there yet."""
        with self._db.transaction() as db:
            db.executemany("INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?)", rows)

    def find(self, said: Collection[str], most: int) -> list[MessageRow]:
        """Return the messages with these hashes that are the `most`-th of their hash at most."""
        sql = f"{_MESSAGES} WHERE said IN ({{}}) AND nth <= {int(most)}"
        return [*map(_message, self._db.read_each(sql, [*said], _MESSAGE))]

    def count(self, said: Collection[str]) -> dict[str, int]:
        """Return how many messages there are with each of these hashes."""
        sql = "SELECT said, max(nth) FROM messages WHERE said IN ({}) GROUP BY said"
        return dict(self._db.read_each(sql, [*said], (str, int)))

    def page(self, after: tuple[str, int], limit: int) -> list[MessageRow]:
        """Return up to `limit` messages behind one, in their order."""
        sql = f"{_MESSAGES} WHERE (said, nth) > (?, ?) ORDER BY said, nth LIMIT ?"
        rows = self._db.read(sql, (*after, limit), _MESSAGE)
        places = [after, *(row[:2] for row in rows)]
        if places != sorted(set(places)):  # a damaged tree may loop
            raise self._db.damaged("the keys of its messages are not in order")
        return [*map(_message, rows)]


class SqliteSummaries:
    """The table `summaries`: `tinymem.protocols.SummaryRows` documents the methods."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._db = database

    def all(self) -> list[SummaryRow]:
        """Return all summaries, in order."""
        sql = "SELECT first, last, session, text FROM summaries ORDER BY first"
        return [SummaryRow(*row) for row in self._db.read(sql, kinds=(int, int, (str, type(None)), str))]

    def put(self, rows: Sequence[SummaryRow]) -> int:
        """Store summaries, except of steps that another one covers, and return how many were stored."""
        sql = (
            "INSERT INTO summaries SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS "
            "(SELECT 1 FROM summaries WHERE first <= ?2 AND last >= ?1)"
        )
        with self._db.transaction(derived=True) as db:
            return db.executemany(sql, rows).rowcount


def _message(row: tuple[str, int, int, int]) -> MessageRow:
    said, nth, step, is_last = row
    return MessageRow(said, nth, step, bool(is_last))
