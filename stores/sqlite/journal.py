"""The journal: one SQLite file that holds every step, passage, vector and term of a namespace. The source of truth.

WAL with synchronous FULL: what `add` acknowledged survives a killed process and a lost power supply.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from tinymem.errors import FormatError, InputError, shown
from tinymem.protocols import Ids, PassageRow, StepRow, TokenIds, Vectors
from tinymem.stores.forking import ProcessLock, leave_to_parent
from tinymem.stores.sqlite.fulltext import FullText
from tinymem.stores.sqlite.rows import Mark, Outlined, SummaryRow
from tinymem.stores.sqlite.schema import damaged, guarded, opened
from tinymem.stores.sqlite.upkeep import EMBEDDER, Upkeep
from tinymem.stores.sqlite.waiting import NOTHING, Waiting

__all__ = ["REWRITES", "WINDOW_CHANGES", "Mark", "Outlined", "SqliteJournal", "SummaryRow"]

_COLUMNS = "number, id, type, session, speaker, time, tokens, position, record, window, view, milestone"
_MARK = "made"  # the setting that keeps the mark
# Settings that count how often the window was changed other than by adding; how often steps were forgotten or marked.
WINDOW_CHANGES, REWRITES = "window_changes", "rewrites"
_END = 1 << 62  # above every number
_NAME, _NUMBER = (str, type(None)), (int,)
_STEP = (int, str, str, _NAME, _NAME, (int, float), int, int, str, int, _NAME, int)  # what its columns hold


class SqliteJournal(Upkeep):
    """A namespace's journal at `path`, made if `create`. Safe to use from several threads.

    Vectors are kept as float16 (`(n, dimensions)`), token ids as uint16. While another process writes, it is waited for
    up to `timeout` seconds; then it is a StorageError.
    """

    def __init__(self, path: Path, create: bool = True, timeout: float = 30) -> None:
        self.path = path
        self._lock = ProcessLock(f"the memory at {path}")
        self._db = opened(path, create, timeout)
        leave_to_parent(self)
        try:
            with guarded(path):
                self._fulltext = FullText(self._db)
        except BaseException:
            self._db.close()
            raise

    @contextmanager
    def _transaction(self, derived: bool = False) -> Iterator[sqlite3.Connection]:
        """All or nothing; one inside another is part of that one. The lock is held, so that threads do not share a
        transaction.

        What is `derived` from steps that are on disk is not waited for: it survives a killed process, and where the
        power fails before the next step is written, it is made again.
        """
        with self._lock, guarded(self.path):
            if self._db.in_transaction:
                yield self._db
                return
            if derived:
                self._db.execute("PRAGMA synchronous=NORMAL")
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            finally:
                if derived:
                    self._db.execute("PRAGMA synchronous=FULL")

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that is written through this journal inside is one transaction; nobody else writes meanwhile."""
        with self._transaction():
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read inside is read of one state, whoever else writes."""
        with self._lock, guarded(self.path):
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                if self._db.in_transaction:
                    self._db.execute("COMMIT")

    def version(self) -> int:
        """A number that is another one when somebody else, in this process or not, has written since."""
        return int(self._read("PRAGMA data_version")[0][0])

    def _read(self, sql: str, values: Sequence[Any] = (), kinds: Sequence[Any] = ()) -> list[Any]:
        """The rows; FormatError where a value is not of its kind, if `kinds` are given: any column may hold any."""
        with self._lock, guarded(self.path):
            rows = self._db.execute(sql, values).fetchall()
        if kinds and (wrong := [row for row in rows if not all(map(isinstance, row, kinds))]):
            raise damaged(self.path, f"a row of {[type(value).__name__ for value in wrong[0]]}")
        return rows

    def _along(self, sql: str, values: Sequence[Any], kinds: Sequence[Any] = (), down: bool = False) -> list[Any]:
        """The rows, whose numbers grow from the first of the `values`, or fall: a damaged tree may lead in circles."""
        rows = self._read(sql, values, kinds)
        numbers = [values[0], *(row[0] for row in rows)]
        if any(one >= other for one, other in pairwise(numbers[::-1] if down else numbers)):
            raise damaged(self.path, "numbers of its rows are not in order")
        return rows

    # -- settings -----------------------------------------------------------------------------------------------------

    def setting(self, key: str) -> str | None:
        """A value that was kept, or None."""
        rows = self._read("SELECT value FROM meta WHERE key = ?", (key,), [str])
        return rows[0][0] if rows else None

    def keep(self, settings: Mapping[str, str], replace: bool = True) -> None:
        """Keep values under keys, all or none; unless `replace`, those that are there stay."""
        with self._transaction() as db:
            db.executemany(f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO meta VALUES (?, ?)", settings.items())

    def _count_up(self, key: str) -> None:
        sql = "INSERT INTO meta VALUES (?, '1') ON CONFLICT (key) DO UPDATE SET value = value + 1"
        self._db.execute(sql, (key,))

    # -- steps --------------------------------------------------------------------------------------------------------

    def add(self, rows: Sequence[StepRow]) -> None:
        """Write steps, durably, all or none. InputError for an id that is there, or a number from before the mark."""
        sql = f"INSERT INTO steps ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        try:
            with self._transaction() as db:
                mark = self.mark
                for r in rows:
                    if (r.number, 0) < mark:  # nobody would make its passages
                        raise InputError(f"the number {r.number} was given before, elsewhere: open the memory again")
                    place = (r.number, r.id, r.type, r.session, r.speaker, r.time, r.tokens, r.position)
                    db.execute(sql, (*place, r.record, r.window, r.view, r.milestone))
        except FormatError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                ids = ", ".join(row.id for row in rows[:3])
                raise InputError(f"a step with this id or number is in the memory already ({ids})") from error
            raise

    def next_number(self) -> int:
        """The number that the next step gets; never one that was used before."""
        rows = self._read("SELECT seq FROM sqlite_sequence WHERE name = 'steps'")
        return int(rows[0][0]) + 1 if rows else 1

    def end(self) -> int:
        """Tokens of all steps since the memory began: the position of the next one."""
        rows = self._read("SELECT position + tokens FROM steps ORDER BY number DESC LIMIT 1")
        return int(rows[0][0]) if rows else 0

    def window(self, after: int = 0) -> list[StepRow]:
        """The steps of the window with numbers above `after`, in order."""
        sql = f"SELECT {_COLUMNS} FROM steps WHERE window = 1 AND number > ? ORDER BY number"
        return [StepRow(*row) for row in self._read(sql, (after,), _STEP)]

    def any_archived(self) -> bool:
        """Whether a step has left the window; found at once, since the oldest leave first."""
        return bool(self._read("SELECT 1 FROM steps WHERE window = 0 LIMIT 1"))

    def set_window(
        self, removed: Iterable[int], views: Mapping[int, str | None], changed: Mapping[int, str | None] | None = None
    ) -> list[int]:
        """Take the steps `removed` out of the window; the numbers of those that were in it. Let it show `views` (JSON,
        None: the original) of others, whether they were in it or not, and `changed` of those that are in it still."""
        with self._transaction(derived=not (views or changed)) as db:
            out = "UPDATE steps SET window = 0, view = NULL WHERE number = ? AND window = 1"
            taken = [number for number in removed if db.execute(out, (number,)).rowcount]
            put = "UPDATE steps SET window = 1, view = ? WHERE number = ?"
            db.executemany(put, ((view, number) for number, view in views.items()))
            still = "UPDATE steps SET view = ? WHERE number = ? AND window = 1"
            db.executemany(still, ((view, number) for number, view in (changed or {}).items()))
            self._count_up(WINDOW_CHANGES)
            return taken

    def set_milestones(self, numbers: Iterable[int], milestone: bool) -> None:
        """Make these steps milestones, or none."""
        with self._transaction() as db:
            db.executemany("UPDATE steps SET milestone = ? WHERE number = ?", ((milestone, n) for n in numbers))
            self._count_up(REWRITES)

    def steps(self, numbers: Sequence[int]) -> dict[int, str]:
        """The JSON of these steps, by number; those that are not there are left out."""
        found: dict[int, str] = {}
        for i in range(0, len(numbers), 500):
            some = [int(n) for n in numbers[i : i + 500]]
            marks = ",".join("?" * len(some))
            found.update(self._read(f"SELECT number, record FROM steps WHERE number IN ({marks})", some))
        return found

    def _has(self, number: int) -> bool:
        """Whether there is a step of this number; without reading it, since it may be large."""
        return bool(self._read("SELECT 1 FROM steps WHERE number = ?", (number,)))

    def find(self, id: str) -> str | None:
        """The JSON of the step with this id, or None."""
        rows = self._read("SELECT record FROM steps WHERE id = ?", (id,))
        return rows[0][0] if rows else None

    def numbers(self, ids: Sequence[str] = (), session: str | None = None, before: float | None = None) -> list[int]:
        """Numbers of the steps with one of the ids, of the session, or from before a time (seconds since 1970)."""
        found = [n for id in ids for (n,) in self._read("SELECT number FROM steps WHERE id = ?", (id,), _NUMBER)]
        if session is not None:
            found += [n for (n,) in self._read("SELECT number FROM steps WHERE session = ?", (session,), _NUMBER)]
        if before is not None:
            found += [n for (n,) in self._read("SELECT number FROM steps WHERE time < ?", (before,), _NUMBER)]
        return sorted(set(found))

    def rows(self, after: int = 0, limit: int = 1000) -> list[StepRow]:
        """Up to `limit` steps with numbers above `after`, in order."""
        sql = f"SELECT {_COLUMNS} FROM steps WHERE number > ? ORDER BY number LIMIT ?"
        return [StepRow(*row) for row in self._along(sql, (after, limit), _STEP)]

    def newest(
        self, limit: int, before: int = _END, *, type: str | None = None, session: str | None = None
    ) -> list[StepRow]:
        """Up to `limit` steps, of a type and of the session if one is given, with numbers below `before`: the newest
        first."""
        wanted = {"type": type, "session": session}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = "".join(f" AND {name} = ?" for name in given)
        sql = f"SELECT {_COLUMNS} FROM steps WHERE number < ?{where} ORDER BY number DESC LIMIT ?"
        return [StepRow(*row) for row in self._along(sql, (before, *given.values(), limit), _STEP, down=True)]

    def newest_ids(self, limit: int, type: str) -> list[str]:
        """The ids of up to `limit` steps of a type, the newest first."""
        sql = "SELECT id FROM steps WHERE type = ? ORDER BY number DESC LIMIT ?"
        return [id for (id,) in self._read(sql, (type, limit))]

    def count(self, type: str) -> int:
        """How many steps of a type there are."""
        return int(self._read("SELECT count(*) FROM steps WHERE type = ?", (type,))[0][0])

    def delete(self, passages_of: Mapping[int, Sequence[str]]) -> bool:
        """Remove steps for good, and the summaries that tell of them. `passages_of` has for each number the texts of
        its passages, in order.

        Freed pages are overwritten, terms merged away, the write-ahead log emptied: nothing is left in the file.
        False, and nothing is removed, when a step has not as many passages: another process made or removed some.
        """
        sql = "SELECT id FROM passages WHERE step = ? ORDER BY id"
        with self._transaction() as db:
            ids = {number: [i for (i,) in db.execute(sql, (number,))] for number in passages_of}
            if any(len(ids[number]) != len(texts) for number, texts in passages_of.items()):
                return False
            for number, texts in passages_of.items():
                self._fulltext.remove(zip(ids[number], texts, strict=True))
                db.executemany("DELETE FROM reindexed WHERE passage = ?", ((id,) for id in ids[number]))
                db.execute("DELETE FROM passages WHERE step = ?", (number,))
                db.execute("DELETE FROM steps WHERE number = ?", (number,))
                db.execute("DELETE FROM summaries WHERE first <= ?1 AND last >= ?1", (number,))
            self._fulltext.optimize()
            self._count_up(WINDOW_CHANGES)
            self._count_up(REWRITES)
        self.scrub("the steps are deleted", "their text stays")
        return True

    # -- passages -----------------------------------------------------------------------------------------------------

    def last_passage(self) -> int:
        """The id of the newest passage; 0 when there is none."""
        return int(self._read("SELECT ifnull(max(id), 0) FROM passages")[0][0])

    def passages_until(self, last: int) -> int:
        """How many passages have ids up to `last`."""
        return int(self._read("SELECT count(*) FROM passages WHERE id <= ?", (last,))[0][0])

    def places(self, number: int) -> list[tuple[int, int, int, int]]:
        """Where the passages of a step are, in order: (step, part, start, end)."""
        sql = "SELECT step, part, start, end FROM passages WHERE step = ? ORDER BY id"
        return self._read(sql, (number,), (int, int, int, int))

    @property
    def mark(self) -> Mark:
        """Up to where passages were made."""
        kept = self.setting(_MARK) or "1 0"
        try:
            step, passages = map(int, kept.split())
        except ValueError as error:
            raise damaged(self.path, f"{shown(kept)} is no mark") from error
        return Mark(step, passages)

    def waiting(self) -> int:
        """Tokens of the steps from the mark on."""
        sql = "SELECT position FROM steps WHERE number >= ? ORDER BY number LIMIT 1"
        first = self._read(sql, (self.mark.step,))
        return self.end() - int(first[0][0]) if first else 0

    def records(self, first: int, limit: int) -> list[tuple[int, str]]:
        """Up to `limit` steps with numbers of `first` or more, in order: (number, JSON)."""
        sql = "SELECT number, record FROM steps WHERE number > ? ORDER BY number LIMIT ?"
        return self._along(sql, (first - 1, limit), (int, str))

    def put_passages(
        self,
        since: Mark,
        until: Mark,
        passages: Sequence[tuple[int, PassageRow]],
        vectors: Vectors,
        tokens: Sequence[TokenIds],
        embedder: str | None = None,
    ) -> bool:
        """Keep the `passages` (number of the step, passage) between two marks with their terms, vectors `(n,
        dimensions)` and token ids, and move the mark.

        False, and nothing is kept, when somebody else was there first: the mark is not `since`, a step is gone, or the
        journal's vectors are no longer those of `embedder` (its fingerprint, if given).
        """
        sql = (
            "INSERT INTO passages (step, part, start, end, kind, asks, vector, tokens, identifiers, tools) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        halves = vectors.astype("<f2")
        with self._transaction(derived=True) as db:
            if self.mark != since or not all(map(self._has, {number for number, _ in passages})):
                return False
            if embedder not in (None, self.setting(EMBEDDER)):
                return False
            ids: list[int] = []
            for (number, p), vector, some in zip(passages, halves, tokens, strict=True):
                place = (number, p.part, p.start, p.end, p.kind, p.asks)
                ids.append(
                    db.execute(sql, (*place, vector.tobytes(), some.tobytes(), p.identifiers, p.tools)).lastrowid or 0
                )
            self._fulltext.add(zip(ids, (p.text for _, p in passages), strict=True))
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_MARK, f"{until.step} {until.passages}"))
            return True

    def passages(self, after: int = 0, limit: int = 2_000) -> list[Any]:
        """Passages with ids above `after`: (id, step, part, start, end, kind, asks, vector, tokens, type, session,
        speaker, time, identifiers, tools, milestone)."""
        sql = (
            "SELECT p.id, p.step, p.part, p.start, p.end, p.kind, p.asks, p.vector, p.tokens, s.type, s.session, "
            "s.speaker, s.time, p.identifiers, p.tools, s.milestone FROM passages p JOIN steps s ON s.number = p.step "
            "WHERE p.id > ? ORDER BY p.id LIMIT ?"
        )
        return self._along(sql, (after, limit))

    # -- summaries ----------------------------------------------------------------------------------------------------

    def summaries(self) -> list[SummaryRow]:
        """All summaries, by level and in order."""
        sql = "SELECT level, first, last, session, text FROM summaries ORDER BY level, first"
        return [SummaryRow(*row) for row in self._read(sql, kinds=(int, int, int, _NAME, str))]

    def put_summaries(self, rows: Sequence[SummaryRow]) -> int:
        """Keep summaries, but none of steps that another one tells of: of two processes, the first is heard. How many
        were kept."""
        sql = (
            "INSERT OR IGNORE INTO summaries SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?1 > 1 OR NOT EXISTS "
            "(SELECT 1 FROM summaries WHERE level = 1 AND first <= ?3 AND last >= ?2)"
        )
        with self._transaction(derived=True) as db:
            return db.executemany(sql, rows).rowcount

    def outline(self, after: int = 0, until: int = 1 << 62) -> list[Outlined]:
        """The steps with numbers above `after` and up to `until`, in order, without their texts."""
        sql = "SELECT number, type, session, tokens, window FROM steps WHERE number > ? AND number <= ? ORDER BY number"
        return [Outlined(*row) for row in self._read(sql, (after, until), (int, str, _NAME, int, int))]

    def archived_ids(self, first: int, last: int) -> list[str]:
        """The ids of the steps from `first` to `last` that are not in the window, in order."""
        sql = "SELECT id FROM steps WHERE number BETWEEN ? AND ? AND window = 0 ORDER BY number"
        return [id for (id,) in self._read(sql, (first, last))]

    # -- search and size ----------------------------------------------------------------------------------------------

    def search_text(self, query: str, waiting: Waiting = NOTHING) -> tuple[Ids, Vectors]:
        """Passage ids by BM25, best first, and their scores on a scale that no query or collection shifts; those that
        are `waiting` too, unless somebody has brought them in meanwhile."""
        with self.snapshot():
            try:
                return self._fulltext.search(query, waiting if waiting.since == self.mark else NOTHING)
            except (TypeError, ValueError, IndexError, MemoryError) as error:  # FTS5's tables do not fit each other
                raise damaged(self.path, f"in the full text, {error}") from error

    def close(self) -> None:
        """Close the file. Closing twice is no error; a forked child leaves it to its parent."""
        if not self._lock.inherited:
            with self._lock:
                self._db.close()
