"""The passages of a journal, with their vectors and terms, and the vectors that a new embedder makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tinymem.errors import StorageError
from tinymem.protocols import EmbeddedPassage, Ids, Lexical, Mark, PassageRow, Place, Vectors
from tinymem.protocols import Waiting as AnyWaiting
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_CHANGES, EMBEDDER_NAME, MARK, REINDEXING, UNSPLIT, WATERMARK
from tinymem.stores.bm25 import NOTHING, Waiting
from tinymem.stores.sqlite.database import Database, guarded

__all__ = ["Passages"]

_PUT = (
    "INSERT INTO passages (step, part, start, end, kind, asks, vector, identifiers, tools) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_HAS_STEP = "SELECT 1 FROM steps WHERE number = ?"  # the step itself may be large
_GET = (
    "SELECT p.id, p.step, p.part, p.start, p.end, p.kind, p.asks, p.vector, s.type, s.session, s.speaker, "
    "s.time, p.identifiers, p.tools, s.milestone FROM passages p JOIN steps s ON s.number = p.step "
    "WHERE p.id > ? ORDER BY p.id LIMIT ?"
)
# Ids of passages only grow, so all passages above the newest new vector still need one.
_BEHIND = (
    "FROM passages p JOIN steps s ON s.number = p.step WHERE p.id > (SELECT ifnull(max(passage), 0) FROM reindexed)"
)


class Passages(Database):
    """The tables `passages` and `reindexed`, and the full-text index."""

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
        halves = vectors.astype("<f2")
        with self._transaction(derived=True) as db:
            if self.mark != since or not all(self._read(_HAS_STEP, (number,)) for number in {n for n, _ in passages}):
                return False
            if embedder not in (None, self.setting(EMBEDDER)):
                return False
            if self.setting(UNSPLIT) is None:
                self.keep({UNSPLIT: str(self.last_passage())})
            ids: list[int] = []
            for (number, p), vector in zip(passages, halves, strict=True):
                place = (number, p.part, p.start, p.end, p.kind, p.asks)
                ids.append(db.execute(_PUT, (*place, vector.tobytes(), p.identifiers, p.tools)).lastrowid or 0)
            self._fulltext.add(zip(ids, (p.text for _, p in passages), strict=True))
            self.keep({MARK: f"{until.step} {until.passages}"})
            return True

    def passages(self, after: int = 0, limit: int = 2_000) -> list[EmbeddedPassage]:
        """Return up to `limit` passages with ids above `after`, in order."""
        return list(map(EmbeddedPassage._make, self._along(_GET, (after, limit))))

    def places(self, number: int) -> list[Place]:
        """Return the places of a step's passages, in order."""
        sql = "SELECT id, step, part, start, end FROM passages WHERE step = ? ORDER BY id"
        return list(map(Place._make, self._read(sql, (number,), (int,) * 5)))

    def last_passage(self) -> int:
        """Return the id of the newest passage; 0 if there is none."""
        return self._number("SELECT max(id) FROM passages")

    def passages_until(self, last: int) -> int:
        """Count the passages with ids up to `last`."""
        return self._number("SELECT count(*) FROM passages WHERE id <= ?", (last,))

    def dimensions(self) -> int | None:
        """Return the length of the vectors; None if there are none yet."""
        rows = self._read("SELECT length(vector) FROM passages LIMIT 1")
        return int(rows[0][0]) // 2 if rows else None

    # -- full-text search -------------------------------------------------------------------------------------------

    def search_text(self, query: str, waiting: AnyWaiting | None = None, among: Ids | None = None) -> Lexical:
        """Return passages by BM25, best first.

        Passages that are `waiting` are found too, unless another process has stored them since. With `among`, ids in
        ascending order, no others are found.
        """
        with self.snapshot():
            is_current = isinstance(waiting, Waiting) and waiting.since == self.mark
            try:
                return self._fulltext.search(query, waiting if is_current else NOTHING, among)  # type: ignore[arg-type]
            except (TypeError, ValueError, IndexError, MemoryError) as error:  # FTS5's tables contradict each other
                raise self.damaged(f"in the full text, {error}") from error

    @contextmanager
    def turn(self, seconds: float) -> Iterator[bool]:
        """Give True: only processes of this machine make passages here, and the first one's are stored."""
        self._check_writable()  # before anything is embedded in vain
        yield True

    def begin_waiting(self) -> Waiting:
        """Return an empty record of the passages from the mark on that wait to be embedded."""
        return Waiting(self.mark, self._number("SELECT seq FROM sqlite_sequence WHERE name = 'passages'") + 1)

    def wait(self, waiting: AnyWaiting, until: Mark, texts: Iterable[str]) -> range:
        """Let `search_text` find passages of these texts, up to a mark; return the ids that they will have."""
        assert isinstance(waiting, Waiting), "what begin_waiting gave"
        with self._lock, guarded(self.path):
            return waiting.extend(until, self._fulltext.terms(texts))

    # -- the vectors of a new embedder, made beside those in use, and then put in their place --------------------------

    def begin_reindexing(self, embedder: str) -> None:
        """Begin or continue the vectors of `embedder` (a fingerprint), and drop unfinished ones of a third embedder."""
        with self._transaction() as db:
            if self.setting(REINDEXING) != embedder:
                db.execute("DELETE FROM reindexed")
                self.keep({REINDEXING: embedder})

    def stop_reindexing(self) -> None:
        """Drop the vectors of the new embedder, if there are any."""
        if self.setting(REINDEXING):
            with self._transaction():
                self._drop()

    def _drop(self) -> None:
        self._db.execute("DELETE FROM reindexed")
        self._db.execute("DELETE FROM meta WHERE key = ?", (REINDEXING,))

    def reindexed(self) -> tuple[int, int]:
        """Count the passages that have a vector of the new embedder, and all that need one."""
        done = self._number("SELECT count(*) FROM reindexed")
        return done, done + self._number(f"SELECT count(*) {_BEHIND}")

    def to_reindex(self, limit: int) -> list[Place]:
        """Return up to `limit` passages without a vector of the new embedder, in order."""
        sql = f"SELECT p.id, p.step, p.part, p.start, p.end {_BEHIND} ORDER BY p.id LIMIT ?"
        return list(map(Place._make, self._read(sql, (limit,))))

    def put_reindexed(self, embedder: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Store vectors of the new embedder, except of passages that were removed."""
        sql = "INSERT OR IGNORE INTO reindexed SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM passages WHERE id = ?1)"
        halves = vectors.astype("<f2")
        with self._transaction(derived=True) as db:
            if (now := self.setting(REINDEXING)) != embedder:
                what = f"began to reindex it with {now}" if now else "has reindexed it"
                raise StorageError(f"{self.path}: another process {what} meanwhile; run one of them at a time")
            db.executemany(sql, ((id, half.tobytes()) for id, half in zip(ids, halves, strict=True)))

    def switch(self, embedder: str, name: str) -> bool:
        """Replace the vectors in use by those of the new embedder; return False if a passage has none yet."""
        with self._transaction() as db:
            if self.setting(REINDEXING) != embedder or self.to_reindex(1):
                return False
            db.execute(
                "UPDATE passages SET vector = (SELECT r.vector FROM reindexed r WHERE r.passage = passages.id) "
                "WHERE id IN (SELECT passage FROM reindexed)"
            )
            self._drop()
            changes = str(int(self.setting(EMBEDDER_CHANGES) or 0) + 1)
            self.keep({EMBEDDER: embedder, EMBEDDER_NAME: name, WATERMARK: "0", EMBEDDER_CHANGES: changes})
            return True
