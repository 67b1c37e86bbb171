"""The vectors of a new embedder, made beside those in use, and then put in their place."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.errors import StorageError
from tinymem.protocols import Place, Vectors
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_CHANGES, EMBEDDER_NAME, REINDEXING, WATERMARK
from tinymem.stores.sqlite.database import Database

__all__ = ["Reindexing"]

# Ids of passages only grow, so all passages above the newest new vector still need one.
_BEHIND = (
    "FROM passages p JOIN steps s ON s.number = p.step WHERE p.id > (SELECT ifnull(max(passage), 0) FROM reindexed)"
)


class Reindexing(Database):
    """The table `reindexed`."""

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
