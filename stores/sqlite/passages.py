"""The passages of a journal, their terms, and their vectors: of the embedder in use, and of one that is to follow."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.protocols import EmbeddedPassage, Ids, Lexical, PassageRow, StepNote, Vectors
from tinymem.protocols.settings import MADE
from tinymem.stores.sqlite.database import LAST, USED, SqliteDatabase

__all__ = ["SqlitePassages"]

_PUT = "INSERT INTO passages (step, part, start, end, kind, asks, identifiers, tools) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_HAS_STEP = "SELECT 1 FROM steps WHERE number = ?"  # the step itself may be large
_GET = (
    "SELECT p.id, p.step, p.part, p.start, p.end, p.kind, p.asks, {vector}, s.type, s.session, s.speaker, "
    "s.time, p.identifiers, p.tools, s.milestone FROM passages p JOIN steps s ON s.number = p.step {joined} "
    "WHERE p.id > {after} {condition} ORDER BY p.id {limit}"
)
_EMBEDDED = _GET.format(
    vector="v.vector",
    joined=f"JOIN vectors v ON v.passage = p.id AND v.embedder = {USED}",
    after="?1",
    condition="",
    limit="LIMIT ?2",
)
_LACKING = _GET.format(
    vector="x''",
    joined="",
    after="?1",
    condition="AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.passage = p.id AND v.embedder = ?3)",
    limit="LIMIT ?2",
)
_OF = _GET.format(vector="x''", joined="", after="?1", condition="AND p.step = ?2", limit="")
_PUT_VECTOR = "INSERT OR IGNORE INTO vectors SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM passages WHERE id = ?2)"


class SqlitePassages(SqliteDatabase):
    """The tables `passages` and `vectors`, and the full-text index.

    Vectors are made in the order of ids, which only grow: of the embedder in use, all passages behind the newest that
    has one have none.
    """

    def put_passages(
        self, steps: Sequence[int], passages: Sequence[tuple[int, PassageRow]], notes: Sequence[StepNote] = ()
    ) -> bool:
        """Store the passages of these steps, each with its step's number; False if another process was first."""
        with self.transaction(derived=True) as db:
            if self._made() > steps[0] or not all(self.read(_HAS_STEP, (number,)) for number in steps):
                return False
            texts: list[tuple[int, str]] = []
            for number, p in passages:
                row = (number, p.part, p.start, p.end, p.kind, p.asks, p.identifiers, p.tools)
                texts.append((db.execute(_PUT, row).lastrowid or 0, p.text))
            self.fulltext.add(texts)
            db.executemany("INSERT INTO notes VALUES (?, ?, ?, ?)", notes)
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (MADE, str(steps[-1] + 1)))
            return True

    def passages(
        self, after: int = 0, limit: int = 2_000, *, lacking: str | None = None, step: int | None = None
    ) -> list[EmbeddedPassage]:
        """Return up to `limit` passages with ids above `after`, in order: embedded ones, lacking ones, or a step's."""
        if lacking is not None:
            rows = self.read_along(_LACKING, (after, limit, lacking))
        elif step is not None:
            rows = self.read_along(_OF, (after, step))
        else:
            rows = self.read_along(_EMBEDDED, (after, limit))
        return list(map(EmbeddedPassage._make, rows))

    def last_passage(self) -> int:
        """Return the id of the newest embedded passage; 0 if there is none."""
        return self.read_number(f"SELECT {LAST}")

    def passages_until(self, last: int) -> int:
        """Count the embedded passages with ids up to `last`."""
        return self.read_number(f"SELECT count(*) FROM passages WHERE id <= min(?, {LAST})", (last,))

    # -- vectors ----------------------------------------------------------------------------------------------------

    def put_vectors(self, ids: Sequence[int], vectors: Vectors, embedder: str, in_use: str) -> bool:
        """Store vectors of `embedder`, except of passages that were removed; False if that `in_use` is another one."""
        halves = vectors.astype("<f2")
        rows = [(embedder, int(id), half.tobytes()) for id, half in zip(ids, halves, strict=True)]
        with self.transaction(derived=True) as db:
            if self.embedder() != in_use:
                return False
            db.executemany(_PUT_VECTOR, rows)
            return True

    # -- full-text search -------------------------------------------------------------------------------------------

    def search_text(self, query: str, among: Ids | None = None) -> Lexical:
        """Return passages by BM25, best first; with `among`, ids in ascending order, no others."""
        with self.snapshot():
            try:
                return self.fulltext.search(query, among)
            except (TypeError, ValueError, IndexError, MemoryError) as error:  # FTS5's tables contradict each other
                raise self.damaged(f"in the full text, {error}") from error
