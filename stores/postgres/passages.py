"""The passages of a journal, their terms, and their vectors: of the embedder in use, and of one that is to follow."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.protocols import EmbeddedPassage, Ids, Lexical, PassageRow, StepNote, Vectors
from tinymem.protocols.settings import MADE
from tinymem.stores.postgres.database import PostgresDatabase
from tinymem.stores.postgres.fulltext import PostgresFullText
from tinymem.stores.postgres.server.errors import guarded
from tinymem.stores.postgres.server.head import LAST, USED
from tinymem.stores.postgres.server.values import Planned

__all__ = ["PostgresPassages"]

EVERY = 1 << 62  # more than there are

_PUT = Planned(
    "INSERT INTO passages (namespace, id, step, part, start, finish, kind, asks, identifiers, tools) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_GET = (
    "SELECT p.id, p.step, p.part, p.start, p.finish, p.kind, p.asks, {vector}, s.type, s.session, s.speaker, "
    "s.time, p.identifiers, p.tools, s.milestone FROM passages p "
    "JOIN steps s ON s.namespace = p.namespace AND s.number = p.step {joined} "
    "WHERE p.namespace = %(ns)s AND p.id > {after} {condition} ORDER BY p.id LIMIT %(most)s"
)
_PUT_NOTE = Planned("INSERT INTO notes VALUES (%s, %s, %s, %s, %s)")
_ITS = "v.namespace = p.namespace AND v.passage = p.id AND v.embedder = "
_EMBEDDED = _GET.format(vector="v.vector", joined=f"JOIN vectors v ON {_ITS}{USED}", after="%(after)s", condition="")
_LACKING = _GET.format(
    vector="''::bytea",
    joined="",
    after="%(after)s",
    condition=f"AND NOT EXISTS (SELECT 1 FROM vectors v WHERE {_ITS}%(embedder)s)",
)
_OF = _GET.format(vector="''::bytea", joined="", after="%(after)s", condition="AND p.step = %(step)s")
_LAST = Planned(f"SELECT {LAST}")
_UNTIL = f"SELECT count(*) FROM passages WHERE namespace = %(ns)s AND id <= least(%(last)s, {LAST})"
_HELD = "SELECT count(*) FROM steps WHERE namespace = %s AND number = ANY(%s::bigint[])"
_PUT_VECTOR = Planned(
    "INSERT INTO vectors SELECT %(ns)s, %(id)s, %(embedder)s, %(vector)s WHERE EXISTS (SELECT 1 FROM passages "
    "WHERE namespace = %(ns)s AND id = %(id)s) ON CONFLICT (namespace, passage, embedder) DO NOTHING"
)


class PostgresPassages(PostgresDatabase):
    """The tables `passages` and `vectors`, and the full-text index.

    Vectors are made in the order of ids, which only grow: of the embedder in use, all passages behind the newest that
    has one have none.
    """

    def __init__(self, url: str, name: str, create: bool = True, timeout: float = 30) -> None:
        super().__init__(url, name, create, timeout)
        self.fulltext = PostgresFullText(self)
        self._newest: tuple[int, int] | None = (
            None  # the last embedded passage of a version, so that it is asked for once
        )

    def close(self) -> None:
        """Give back the connection; closing twice is no error, and a forked child leaves all to its parent."""
        super().close()
        if not self.lock.inherited:
            with self.lock:
                self.fulltext.close()

    def put_passages(
        self, steps: Sequence[int], passages: Sequence[tuple[int, PassageRow]], notes: Sequence[StepNote] = ()
    ) -> bool:
        """Store the passages of these steps, each with its step's number; False if another process was first."""
        with self._transaction():
            if self.made() > steps[0] or self.read_number(_HELD, (self.id, list(steps))) != len(steps):
                return False
            first = self.head.next_passage
            for id, (number, p) in enumerate(passages, first):
                place = (id, number, p.part, p.start, p.end, p.kind, bool(p.asks))
                self.write(_PUT, self.id, *place, p.identifiers, p.tools)
            self.head.next_passage += len(passages)
            self.fulltext.add((id, p.text) for id, (_, p) in enumerate(passages, first))
            for note in notes:
                self.write(_PUT_NOTE, self.id, *note)
            self.keep({MADE: str(steps[-1] + 1)})
            return True

    def passages(
        self, after: int = 0, limit: int = 2_000, *, lacking: str | None = None, step: int | None = None
    ) -> list[EmbeddedPassage]:
        """Return up to `limit` passages with ids above `after`, in order: embedded ones, lacking ones, or a step's."""
        if lacking is not None:
            return self._passages(_LACKING, after, limit, embedder=lacking)
        if step is not None:
            return self._passages(_OF, after, EVERY, step=step)
        if self._newest and self._newest == (self._seen_version(), after):
            return []
        rows = self._passages(_EMBEDDED, after, limit)
        version = self._seen_version()
        if version is not None and 0 < len(rows) < limit:
            self._newest = version, rows[-1].id
        return rows

    def _passages(self, sql: str, after: int, limit: int, **more: str | int) -> list[EmbeddedPassage]:
        return list(map(EmbeddedPassage._make, self.read(sql, {"ns": self.id, "after": after, "most": limit, **more})))

    def last_passage(self) -> int:
        """Return the id of the newest embedded passage; 0 if there is none."""
        version = self._seen_version()
        if version is None or not self._newest or self._newest[0] != version:
            last = self.read_number(_LAST, {"ns": self.id})
            self._newest = None if version is None else (version, last)
            return last
        return self._newest[1]

    def _seen_version(self) -> int | None:
        """Return the version that a snapshot reads; None outside of one, and while this journal writes."""
        with self.lock, guarded(self.location):
            head = None if self.is_writing else self.known_head()
            return head.version if head else None

    def passages_until(self, last: int) -> int:
        """Count the embedded passages with ids up to `last`."""
        return self.read_number(_UNTIL, {"ns": self.id, "last": last})

    # -- vectors -------------------------------------------------------------------------------------------------------

    def put_vectors(self, ids: Sequence[int], vectors: Vectors, embedder: str, in_use: str) -> bool:
        """Store vectors of `embedder`, except of passages that were removed; False if that `in_use` is another one."""
        halves = vectors.astype("<f2")
        with self._transaction():
            if self.embedder() != in_use:
                return False
            for id, half in zip(ids, halves, strict=True):
                self.write(_PUT_VECTOR, ns=self.id, id=id, embedder=embedder, vector=half.tobytes())
            return True

    # -- full-text search ----------------------------------------------------------------------------------------------

    def search_text(self, query: str, among: Ids | None = None) -> Lexical:
        """Return passages by BM25, best first; with `among`, ids in ascending order, no others."""
        with self.lock, guarded(self.location):
            return self.fulltext.search(query, among)
