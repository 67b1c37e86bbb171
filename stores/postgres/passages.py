"""The passages of a journal, with their vectors and terms, and the vectors that a new embedder makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from psycopg import OperationalError
from psycopg.errors import InsufficientPrivilege, LockNotAvailable

from tinymem.errors import StorageError
from tinymem.protocols import EmbeddedPassage, Ids, Lexical, Mark, PassageRow, Place, Vectors
from tinymem.protocols import Waiting as AnyWaiting
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_CHANGES, EMBEDDER_NAME, MARK, REINDEXING, UNSPLIT, WATERMARK
from tinymem.stores.bm25 import NOTHING, Waiting
from tinymem.stores.postgres.database import Database
from tinymem.stores.postgres.fulltext import FullText
from tinymem.stores.postgres.identifiers import Identifiers
from tinymem.stores.postgres.nearest import index_name
from tinymem.stores.postgres.server.errors import guarded
from tinymem.stores.postgres.server.pool import Connection
from tinymem.stores.postgres.server.values import Planned, halves

__all__ = ["Passages"]

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
# Ids of passages only grow, so all passages above the newest new vector still need one.
_BEHIND = (
    "FROM passages p WHERE p.namespace = %(ns)s AND EXISTS (SELECT 1 FROM steps s WHERE s.namespace = p.namespace AND "
    "s.number = p.step) AND p.id > (SELECT coalesce(max(passage), 0) FROM reindexed WHERE namespace = %(ns)s)"
)
_PUT_REINDEXED = (
    "INSERT INTO reindexed SELECT %(ns)s, %(id)s, %(vector)b WHERE EXISTS (SELECT 1 FROM passages "
    "WHERE namespace = %(ns)s AND id = %(id)s) ON CONFLICT (namespace, passage) DO NOTHING"
)
_LENGTHS = (
    "(SELECT vector_dims(vector) FROM passages WHERE namespace = %(ns)s LIMIT 1) UNION "
    "(SELECT vector_dims(vector) FROM reindexed WHERE namespace = %(ns)s LIMIT 1)"
)


class Passages(Database):
    """The tables `passages` and `reindexed`, the full-text index, and the counts of identifiers."""

    def __init__(self, url: str, name: str, create: bool = True, timeout: float = 30) -> None:
        super().__init__(url, name, create, timeout)
        self._fulltext, self._identifiers = FullText(self), Identifiers(self)
        self._newest: tuple[int, int] | None = None  # the last passage of a version, so that it is asked for once

    def close(self) -> None:
        """Give back the connection; closing twice is no error, and a forked child leaves all to its parent."""
        super().close()
        if not self.lock.inherited:
            with self.lock:
                self._fulltext.close()

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
            if numbers and self.read_number(_HELD, (self.id, list(numbers))) != len(numbers):
                return False
            if self.setting(UNSPLIT) is None:
                self.keep({UNSPLIT: str(self.last_passage())})
            first = self.head.next_passage
            for id, ((number, p), vector) in enumerate(zip(passages, made, strict=True), first):
                place = (id, number, p.part, p.start, p.end, p.kind, bool(p.asks))
                self.write(_PUT, self.id, *place, vector, p.identifiers, p.tools)
            self.head.next_passage += len(passages)
            self._fulltext.add((id, p.text) for id, (_, p) in enumerate(passages, first))
            self._identifiers.add((id, p) for id, (_, p) in enumerate(passages, first))
            self.keep({MARK: f"{until.step} {until.passages}"})
            return True

    def passages(self, after: int = 0, limit: int = 2_000) -> list[EmbeddedPassage]:
        """Return up to `limit` passages with ids above `after`, in order."""
        if self._newest and self._newest == (self._seen_version(), after):
            return []
        return list(map(EmbeddedPassage._make, self.read(_GET, (self.id, after, limit))))

    def places(self, number: int) -> list[Place]:
        """Return the places of a step's passages, in order."""
        sql = "SELECT id, step, part, start, finish FROM passages WHERE namespace = %s AND step = %s ORDER BY id"
        return list(map(Place._make, self.read(sql, (self.id, number))))

    def last_passage(self) -> int:
        """Return the id of the newest passage; 0 if there is none."""
        version = self._seen_version()
        if version is None or not self._newest or self._newest[0] != version:
            last = self.read_number(_LAST, (self.id,))
            self._newest = None if version is None else (version, last)
            return last
        return self._newest[1]

    def _seen_version(self) -> int | None:
        """Return the version that a snapshot reads; None outside of one, and while this journal writes."""
        with self.lock, guarded(self.location):
            head = None if self.is_writing else self.known_head()
            return head.version if head else None

    def passages_until(self, last: int) -> int:
        """Count the passages with ids up to `last`."""
        return self.read_number("SELECT count(*) FROM passages WHERE namespace = %s AND id <= %s", (self.id, last))

    def dimensions(self) -> int | None:
        """Return the length of the vectors; None if there are none yet."""
        rows = self.read("SELECT vector_dims(vector) FROM passages WHERE namespace = %s LIMIT 1", (self.id,))
        return int(rows[0][0]) if rows else None

    # -- full-text search ----------------------------------------------------------------------------------------------

    def search_text(self, query: str, waiting: AnyWaiting | None = None, among: Ids | None = None) -> Lexical:
        """Return passages by BM25, best first.

        Passages that are `waiting` are found too, unless another process has stored them since. With `among`, ids in
        ascending order, no others are found.
        """
        with self.lock, guarded(self.location):
            since = waiting.since if isinstance(waiting, Waiting) else None
            found = self._fulltext.search(query, waiting if isinstance(waiting, Waiting) else NOTHING, since, among)
            found = found or self._fulltext.search(query, NOTHING, None, among)
            assert found is not None, "nothing waits, so no mark is compared"
            return found

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
                found = connection.execute(wait.encode(), (self.id,))
            row = found.fetchone()
            return row is None or bool(row[0])
        except LockNotAvailable:
            return False
        except OperationalError:
            return True

    def begin_waiting(self) -> Waiting:
        """Return an empty record of the passages from the mark on that wait to be embedded."""
        with self.snapshot():
            head = self.known_head()
            return Waiting(self.mark, head.next_passage if head else 1)

    def wait(self, waiting: AnyWaiting, until: Mark, texts: Iterable[str]) -> range:
        """Let `search_text` find passages of these texts, up to a mark; return the ids that they will have."""
        assert isinstance(waiting, Waiting), "what begin_waiting gave"
        with self.lock, guarded(self.location):
            return waiting.extend(until, self._fulltext.terms(texts))

    # -- the vectors of a new embedder, made beside those in use, and then put in their place --------------------------

    def begin_reindexing(self, embedder: str) -> None:
        """Begin or continue the vectors of `embedder` (a fingerprint), and drop unfinished ones of a third embedder."""
        with self._transaction():
            if self.setting(REINDEXING) != embedder:
                self.write("DELETE FROM reindexed WHERE namespace = %s", self.id)
                self.keep({REINDEXING: embedder})

    def stop_reindexing(self) -> None:
        """Drop the vectors of the new embedder, if there are any."""
        if self.setting(REINDEXING):
            with self._transaction():
                self._drop()

    def _drop(self) -> None:
        self.write("DELETE FROM reindexed WHERE namespace = %s", self.id)
        self.write("DELETE FROM settings WHERE namespace = %s AND key = %s", self.id, REINDEXING)
        self.head.settings.pop(REINDEXING, None)

    def reindexed(self) -> tuple[int, int]:
        """Count the passages that have a vector of the new embedder, and all that need one."""
        done = "SELECT count(*) FROM reindexed WHERE namespace = %(ns)s"
        made, left = self.read(f"SELECT ({done}), (SELECT count(*) {_BEHIND})", {"ns": self.id})[0]
        return made, made + left

    def to_reindex(self, limit: int) -> list[Place]:
        """Return up to `limit` passages without a vector of the new embedder, in order."""
        sql = f"SELECT p.id, p.step, p.part, p.start, p.finish {_BEHIND} ORDER BY p.id LIMIT %(limit)s"
        return list(map(Place._make, self.read(sql, {"ns": self.id, "limit": limit})))

    def put_reindexed(self, embedder: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Store vectors of the new embedder, except of passages that were removed."""
        made = halves(vectors) if len(ids) else []
        with self._transaction():
            if (now := self.setting(REINDEXING)) != embedder:
                what = f"began to reindex it with {now}" if now else "has reindexed it"
                raise StorageError(f"{self.location}: another process {what} meanwhile; run one of them at a time")
            for id, vector in zip(ids, made, strict=True):
                self.write(_PUT_REINDEXED, ns=self.id, id=id, vector=vector)

    def switch(self, embedder: str, name: str) -> bool:
        """Replace the vectors in use by those of the new embedder; return False if a passage has none yet."""
        if len({length for (length,) in self.read(_LENGTHS, {"ns": self.id})}) > 1:
            self._drop_index()
        with self._transaction():
            if self.setting(REINDEXING) != embedder or self.to_reindex(1):
                return False
            self.write(
                "UPDATE passages p SET vector = r.vector FROM reindexed r "
                "WHERE p.namespace = %s AND r.namespace = p.namespace AND r.passage = p.id",
                self.id,
            )
            self._drop()
            changes = str(int(self.setting(EMBEDDER_CHANGES) or 0) + 1)
            self.keep({EMBEDDER: embedder, EMBEDDER_NAME: name, WATERMARK: "0", EMBEDDER_CHANGES: changes})
            return True

    def _drop_index(self) -> None:
        """Drop the index of this namespace's vectors, which takes none of another length."""
        connection = self._pool.take()
        try:
            connection.execute(f"DROP INDEX IF EXISTS tinymem.{index_name(self.id)}".encode())
        except InsufficientPrivilege as error:
            raise StorageError(
                f"{self.location}: this namespace has an index of its vectors, which takes none of another length, "
                "and only the owner of the tables can drop it: reindex as that user"
            ) from error
        finally:
            self._pool.give(connection)
