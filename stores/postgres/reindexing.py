"""The vectors of a new embedder, made beside those in use, and then put in their place."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.errors import InsufficientPrivilege

from tinymem.errors import StorageError
from tinymem.protocols import Place, Vectors
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_CHANGES, EMBEDDER_NAME, REINDEXING, WATERMARK
from tinymem.stores.postgres.database import Database
from tinymem.stores.postgres.nearest import index_name
from tinymem.stores.postgres.server.values import halves

__all__ = ["Reindexing"]

# Ids of passages only grow, so all passages above the newest new vector still need one.
_BEHIND = (
    "FROM passages p WHERE p.namespace = %(ns)s AND EXISTS (SELECT 1 FROM steps s WHERE s.namespace = p.namespace AND "
    "s.number = p.step) AND p.id > (SELECT coalesce(max(passage), 0) FROM reindexed WHERE namespace = %(ns)s)"
)
_PUT = (
    "INSERT INTO reindexed SELECT %(ns)s, %(id)s, %(vector)b WHERE EXISTS (SELECT 1 FROM passages "
    "WHERE namespace = %(ns)s AND id = %(id)s) ON CONFLICT (namespace, passage) DO NOTHING"
)


_LENGTHS = (
    "(SELECT vector_dims(vector) FROM passages WHERE namespace = %(ns)s LIMIT 1) UNION "
    "(SELECT vector_dims(vector) FROM reindexed WHERE namespace = %(ns)s LIMIT 1)"
)


class Reindexing(Database):
    """The table `reindexed`."""

    def begin_reindexing(self, embedder: str) -> None:
        """Begin or continue the vectors of `embedder` (a fingerprint), and drop unfinished ones of a third embedder."""
        with self._transaction():
            if self.setting(REINDEXING) != embedder:
                self._write("DELETE FROM reindexed WHERE namespace = %s", self._id)
                self.keep({REINDEXING: embedder})

    def stop_reindexing(self) -> None:
        """Drop the vectors of the new embedder, if there are any."""
        if self.setting(REINDEXING):
            with self._transaction():
                self._drop()

    def _drop(self) -> None:
        self._write("DELETE FROM reindexed WHERE namespace = %s", self._id)
        self._drop_setting(REINDEXING)

    def reindexed(self) -> tuple[int, int]:
        """Count the passages that have a vector of the new embedder, and all that need one."""
        done = "SELECT count(*) FROM reindexed WHERE namespace = %(ns)s"
        made, left = self._read(f"SELECT ({done}), (SELECT count(*) {_BEHIND})", {"ns": self._id})[0]
        return made, made + left

    def to_reindex(self, limit: int) -> list[Place]:
        """Return up to `limit` passages without a vector of the new embedder, in order."""
        sql = f"SELECT p.id, p.step, p.part, p.start, p.finish {_BEHIND} ORDER BY p.id LIMIT %(limit)s"
        return list(map(Place._make, self._read(sql, {"ns": self._id, "limit": limit})))

    def put_reindexed(self, embedder: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Store vectors of the new embedder, except of passages that were removed."""
        made = halves(vectors) if len(ids) else []
        with self._transaction():
            if (now := self.setting(REINDEXING)) != embedder:
                what = f"began to reindex it with {now}" if now else "has reindexed it"
                raise StorageError(f"{self._location}: another process {what} meanwhile; run one of them at a time")
            for id, vector in zip(ids, made, strict=True):
                self._write_named(_PUT, {"ns": self._id, "id": id, "vector": vector})

    def switch(self, embedder: str, name: str) -> bool:
        """Replace the vectors in use by those of the new embedder; return False if a passage has none yet."""
        if len({length for (length,) in self._read(_LENGTHS, {"ns": self._id})}) > 1:
            self._drop_index()
        with self._transaction():
            if self.setting(REINDEXING) != embedder or self.to_reindex(1):
                return False
            self._write(
                "UPDATE passages p SET vector = r.vector FROM reindexed r "
                "WHERE p.namespace = %s AND r.namespace = p.namespace AND r.passage = p.id",
                self._id,
            )
            self._drop()
            changes = str(int(self.setting(EMBEDDER_CHANGES) or 0) + 1)
            self.keep({EMBEDDER: embedder, EMBEDDER_NAME: name, WATERMARK: "0", EMBEDDER_CHANGES: changes})
            return True

    def _drop_index(self) -> None:
        """Drop the index of this namespace's vectors, which takes none of another length."""
        connection = self._pool.take()
        try:
            connection.execute(f"DROP INDEX IF EXISTS tinymem.{index_name(self._id)}".encode())
        except InsufficientPrivilege as error:
            raise StorageError(
                f"{self._location}: this namespace has an index of its vectors, which takes none of another length, "
                "and only the owner of the tables can drop it: reindex as that user"
            ) from error
        finally:
            self._pool.give(connection)
