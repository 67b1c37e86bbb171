"""The passages of a journal, with their vectors and terms, and the summaries of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from psycopg import OperationalError
from psycopg.errors import LockNotAvailable

from tinymem.protocols import EmbeddedPassage, Mark, PassageRow, Place, SummaryRow, Vectors
from tinymem.protocols import Waiting as AnyWaiting
from tinymem.protocols.settings import EMBEDDER, MARK, UNSPLIT
from tinymem.stores.postgres.fulltext import FullText
from tinymem.stores.postgres.server.errors import guarded
from tinymem.stores.postgres.server.pool import Connection
from tinymem.stores.postgres.server.values import Planned, halves
from tinymem.stores.postgres.statistics import Statistics
from tinymem.stores.postgres.steps import Steps
from tinymem.stores.waiting import Waiting

__all__ = ["Passages", "Summaries"]

_PUT = Planned(
    "INSERT INTO passages (namespace, id, step, part, start, finish, kind, asks, vector, identifiers, tools) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %b, %s, %s)"
)
_GET = (
    "SELECT p.id, p.step, p.part, p.start, p.finish, p.kind, p.asks, p.vector, s.type, s.session, s.speaker, "
    "s.time, p.identifiers, p.tools, s.milestone FROM passages p "
    "JOIN steps s ON s.namespace = p.namespace AND s.number = p.step "
    "WHERE p.namespace = %s AND p.id > %s ORDER BY p.id LIMIT %s"
)
_LAST = Planned("SELECT max(id) FROM passages WHERE namespace = %s")
_HELD = "SELECT count(*) FROM steps WHERE namespace = %s AND number = ANY(%s::bigint[])"
_SUMMARY = (
    "INSERT INTO summaries SELECT %(ns)s, %(level)s, %(first)s, %(last)s, %(session)s, %(text)s "
    "WHERE %(level)s > 1 OR NOT EXISTS (SELECT 1 FROM summaries WHERE namespace = %(ns)s AND level = 1 "
    "AND first <= %(last)s AND last >= %(first)s) ON CONFLICT (namespace, level, first) DO NOTHING RETURNING 1"
)


class Passages(Steps, FullText, Statistics):
    """The table `passages`, the full-text index, and the statistics."""

    _newest: tuple[int, int] | None = None  # the last passage of a version, so that it is asked for once

    def put_passages(
        self,
        since: Mark,
        until: Mark,
        passages: Sequence[tuple[int, PassageRow]],
        vectors: Vectors,
        embedder: str | None = None,
    ) -> bool:
        """Store the passages between two marks, each with its step's number, and move the mark.

        Returns False and stores nothing if another process was first.
        """
        numbers = {number for number, _ in passages}
        made = halves(vectors) if passages else []
        with self._transaction():
            if self.mark != since or embedder not in (None, self.setting(EMBEDDER)):
                return False
            if numbers and self._number(_HELD, (self._id, list(numbers))) != len(numbers):
                return False
            if self.setting(UNSPLIT) is None:
                self.keep({UNSPLIT: str(self.last_passage())})
            first = self._written.next_passage
            for id, ((number, p), vector) in enumerate(zip(passages, made, strict=True), first):
                place = (id, number, p.part, p.start, p.end, p.kind, bool(p.asks))
                self._write(_PUT, self._id, *place, vector, p.identifiers, p.tools)
            self._written.next_passage += len(passages)
            self._index((id, p.text) for id, (_, p) in enumerate(passages, first))
            self._count((id, p) for id, (_, p) in enumerate(passages, first))
            self.keep({MARK: f"{until.step} {until.passages}"})
            return True

    def passages(self, after: int = 0, limit: int = 2_000) -> list[EmbeddedPassage]:
        """Return up to `limit` passages with ids above `after`, in order."""
        if self._newest and self._newest == (self._seen_version(), after):
            return []
        return list(map(EmbeddedPassage._make, self._read(_GET, (self._id, after, limit))))

    def places(self, number: int) -> list[Place]:
        """Return the places of a step's passages, in order."""
        sql = "SELECT id, step, part, start, finish FROM passages WHERE namespace = %s AND step = %s ORDER BY id"
        return list(map(Place._make, self._read(sql, (self._id, number))))

    def vectors(self, number: int) -> list[bytes]:
        """Return the vectors of a step's passages, in order."""
        sql = "SELECT vector FROM passages WHERE namespace = %s AND step = %s ORDER BY id"
        return [vector for (vector,) in self._read(sql, (self._id, number))]

    def last_passage(self) -> int:
        """Return the id of the newest passage; 0 if there is none."""
        version = self._seen_version()
        if version is None or not self._newest or self._newest[0] != version:
            last = self._number(_LAST, (self._id,))
            self._newest = None if version is None else (version, last)
            return last
        return self._newest[1]

    def _seen_version(self) -> int | None:
        """Return the version that a snapshot reads; None outside of one, and while this journal writes."""
        with self._lock, guarded(self._location):
            head = None if self._is_writing else self._known()
            return head.version if head else None

    def passages_until(self, last: int) -> int:
        """Count the passages with ids up to `last`."""
        return self._number("SELECT count(*) FROM passages WHERE namespace = %s AND id <= %s", (self._id, last))

    def dimensions(self) -> int | None:
        """Return the length of the vectors; None if there are none yet."""
        rows = self._read("SELECT vector_dims(vector) FROM passages WHERE namespace = %s LIMIT 1", (self._id,))
        return int(rows[0][0]) if rows else None

    @contextmanager
    def turn(self, seconds: float) -> Iterator[bool]:
        """Be the only one who makes passages of this namespace; False if another still does after `seconds`.

        The lock is one of a transaction, on a connection of its own: it is free once that ends, as when this process is
        killed. Where connections are few, there is no lock; nor behind a pooler, whose connections might all be held by
        those who wait for one to store what they made.
        """
        self._check_open()
        if self._pool.opening:
            yield True
            return
        with self._pool.spare() as connection:
            yield connection is None or self._locked(connection, seconds)

    def _locked(self, connection: Connection, seconds: float) -> bool:
        """Begin a transaction that has the lock; a lost connection is no reason to wait."""
        wait = "SELECT true FROM pg_advisory_xact_lock(%s)" if seconds else "SELECT pg_try_advisory_xact_lock(%s)"
        try:
            with connection.pipeline():
                connection.execute("BEGIN")
                connection.execute(f"SET LOCAL lock_timeout = {round(1_000 * seconds)}".encode())
                found = connection.execute(wait.encode(), (self._id,))
            row = found.fetchone()
            return row is None or bool(row[0])
        except LockNotAvailable:
            return False
        except OperationalError:
            return True

    def begin_waiting(self) -> Waiting:
        """Return an empty record of the passages from the mark on that wait to be embedded."""
        with self.snapshot():
            head = self._known()
            return Waiting(self.mark, head.next_passage if head else 1)

    def wait(self, waiting: AnyWaiting, until: Mark, texts: Iterable[str]) -> range:
        """Let `search_text` find passages of these texts, up to a mark; return the ids that they will have."""
        assert isinstance(waiting, Waiting), "what begin_waiting gave"
        with self._lock, guarded(self._location):
            return waiting.extend(until, self._stems.counted([*texts]))


class Summaries(Steps):
    """The table `summaries`."""

    def summaries(self) -> list[SummaryRow]:
        """Return all summaries, by level and in order."""
        sql = "SELECT level, first, last, session, text FROM summaries WHERE namespace = %s ORDER BY level, first"
        return [SummaryRow(*row) for row in self._read(sql, (self._id,))]

    def put_summaries(self, rows: Sequence[SummaryRow]) -> int:
        """Store summaries, except of steps that another one covers, and return how many were stored."""
        with self._transaction():
            return sum(len(self._changed(_SUMMARY, {"ns": self._id, **row._asdict()})) for row in rows)
