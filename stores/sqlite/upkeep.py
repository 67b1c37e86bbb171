"""What is done to a journal as a whole: looked through, measured, copied from, cleaned, given another embedder."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tinymem.errors import StorageError
from tinymem.protocols import TokenIds, Vectors
from tinymem.stores.forking import ProcessLock
from tinymem.stores.sqlite.fulltext import FullText
from tinymem.stores.sqlite.rows import Mark
from tinymem.stores.sqlite.schema import guarded
from tinymem.stores.sqlite.waiting import Waiting

__all__ = ["CHANGES", "EMBEDDER", "EMBEDDER_NAME", "FENCE_KEY", "FILLED", "WATERMARK", "Placed", "Upkeep"]

# Settings of a journal.
EMBEDDER, EMBEDDER_NAME = "embedder", "embedder_name"  # the fingerprint that its vectors have, and who gives such ones
REINDEXING = "reindexing"  # the fingerprint that the vectors get that are being made
WATERMARK = "indexed"  # the id of the last passage that the store holds
FILLED = "store_filled"  # names of the stores whose files may hold vectors, a line each
FENCE_KEY = "fence_key"  # the key, in hexadecimal digits, that fences are derived with
CHANGES = "embedder_changes"  # how often the embedder was changed; and, with a store's name, when this was last cleared

_LIMITS = {
    **{name: f"{name} = ?" for name in ("session", "speaker", "type")},
    **{"since": "time >= ?", "until": "time <= ?", "before": "time < ?"},
}
_MARKS = 500  # values in one statement
_NEWEST_OF = "SELECT id FROM steps WHERE session IS ? AND type != 'system_prompt' ORDER BY number DESC LIMIT 1"
_WEIGHTS = """
SELECT number, length(record) + ifnull(length(view), 0) + ifnull(derived, 0) FROM steps LEFT JOIN (
    SELECT step, sum(length(vector) + length(tokens) + length(identifiers)) derived FROM passages GROUP BY step
) ON step = number
"""
# Ids of passages only grow, so all above the newest vector that was made anew are still to come.
_BEHIND = (
    "FROM passages p JOIN steps s ON s.number = p.step WHERE p.id > (SELECT ifnull(max(passage), 0) FROM reindexed)"
)

_JournalT = TypeVar("_JournalT", bound="Upkeep")


class Placed(NamedTuple):
    """A passage, `id`: a slice `[start, end)` of a part of a step."""

    id: int
    step: int
    part: int
    start: int
    end: int


class Upkeep(ABC):
    """The part of a journal that its users seldom need. See `tinymem.stores.sqlite.journal.SqliteJournal`."""

    path: Path
    _lock: ProcessLock
    _db: sqlite3.Connection
    _fulltext: FullText

    @abstractmethod
    def _transaction(self, derived: bool = False) -> AbstractContextManager[sqlite3.Connection]: ...
    @abstractmethod
    def _read(self, sql: str, values: Sequence[Any] = (), kinds: Sequence[Any] = ()) -> list[Any]: ...
    @abstractmethod
    def setting(self, key: str) -> str | None:
        """A value that was kept, or None."""

    @property
    @abstractmethod
    def mark(self) -> Mark:
        """Up to where passages were made."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    # -- what came before ---------------------------------------------------------------------------------------------

    def held(self, ids: Sequence[str]) -> set[str]:
        """Those of the ids that steps have."""
        found: set[str] = set()
        for at in range(0, len(ids), _MARKS):
            some = ids[at : at + _MARKS]
            marks = ",".join("?" * len(some))
            found.update(id for (id,) in self._read(f"SELECT id FROM steps WHERE id IN ({marks})", some))
        return found

    def newest_of(self, session: str | None) -> str | None:
        """The id of the session's newest step that is no system prompt."""
        rows = self._read(_NEWEST_OF, (session,), (str,))
        return rows[0][0] if rows else None

    # -- looked through and measured ----------------------------------------------------------------------------------

    def matching(self, limits: Mapping[str, str | float]) -> list[int]:
        """Numbers of the steps that are within all `limits`: `session`, `speaker` and `type` are equal; `since` (at or
        after), `until` (at or before) and `before` are seconds since 1970."""
        where = "".join(f" AND {_LIMITS[name]}" for name in limits)
        sql = f"SELECT number FROM steps WHERE 1{where} ORDER BY number"
        return [number for (number,) in self._read(sql, [*limits.values()], (int,))]

    def size(self) -> int:
        """Bytes of the file that are in use."""
        pages, free, each = (
            int(self._read(f"PRAGMA {name}")[0][0]) for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * each

    def weights(self) -> dict[int, int]:
        """Bytes that each step takes, by its number, without what serves to find it: JSON, vectors and token ids."""
        return {number: int(weight) for number, weight in self._read(_WEIGHTS)}

    def vectors(self, number: int) -> list[tuple[bytes, bytes]]:
        """The vector and the token ids of each passage of a step, in order, as they are kept."""
        return self._read("SELECT vector, tokens FROM passages WHERE step = ? ORDER BY id", (number,))

    def tally(self) -> list[tuple[str | None, str, int, int, float, float]]:
        """The steps by session and type, in the order in which these begin: (session, type, how many, tokens, first and
        last time)."""
        return self._read(
            "SELECT session, type, count(*), sum(tokens), min(time), max(time) FROM steps "
            "GROUP BY session, type ORDER BY min(number)"
        )

    def counts(self) -> dict[str, int]:
        """How many `steps`, `window_steps`, `waiting_steps` (not embedded yet) and `passages`, and their `tokens` and
        `window_tokens`."""
        sql = "SELECT count(*), sum(window), sum(number >= ?), sum(tokens), sum(tokens * window) FROM steps"
        values = [int(value or 0) for value in self._read(sql, (self.mark.step,))[0]]
        names = ("steps", "window_steps", "waiting_steps", "tokens", "window_tokens")
        return {
            **dict(zip(names, values, strict=True)),
            "passages": int(self._read("SELECT count(*) FROM passages")[0][0]),
        }

    def waiting_steps(self) -> int:
        """How many steps are not embedded yet."""
        return int(self._read("SELECT count(*) FROM steps WHERE number >= ?", (self.mark.step,))[0][0])

    def dimensions(self) -> int | None:
        """The length of the vectors in the journal; None where there is none yet."""
        rows = self._read("SELECT length(vector) FROM passages LIMIT 1")
        return int(rows[0][0]) // 2 if rows else None

    # -- found before it is embedded ----------------------------------------------------------------------------------

    def begin_waiting(self) -> Waiting:
        """The passages that wait to be embedded: none yet, from the mark on."""
        rows = self._read("SELECT seq FROM sqlite_sequence WHERE name = 'passages'")
        return Waiting(self.mark, int(rows[0][0]) + 1 if rows else 1)

    def wait(self, waiting: Waiting, until: Mark, texts: Iterable[str]) -> range:
        """Let `search_text` find passages of these texts, which end at a mark; the ids that they will have."""
        with self._lock, guarded(self.path):
            return waiting.extend(until, self._fulltext.terms(texts))

    # -- copied -------------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self: _JournalT) -> Iterator[_JournalT]:
        """The journal as it is now, to read from, whoever writes meanwhile.

        As long as this lasts, whoever forgets steps is told that somebody reads, and that their text is still there.
        """
        other = type(self)(self.path, create=False)  # type: ignore[call-arg]
        try:
            with guarded(self.path):
                other._db.execute("BEGIN")
            other.setting("")  # it is the first look that counts
            yield other
        finally:
            other.close()

    def go_on_from(self, number: int) -> None:
        """Let no step that is yet to come have a number below `number`."""
        with self._transaction() as db:
            if not db.execute("SELECT 1 FROM sqlite_sequence WHERE name = 'steps'").fetchone():
                db.execute("INSERT INTO sqlite_sequence VALUES ('steps', 0)")
            db.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'steps'", (number - 1,))

    # -- cleaned ------------------------------------------------------------------------------------------------------

    def scrub(self, done: str, what: str) -> None:
        """Leave nothing in the file of what was removed. While somebody else reads, that is a StorageError which says
        what was `done`, and `what` is still there."""
        with self._lock, guarded(self.path):
            self._db.execute("VACUUM")
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StorageError(
                f"{self.path}: {done}, but somebody else reads the file, so {what} in it until that reader and this "
                "memory are closed"
            )

    # -- another embedder ---------------------------------------------------------------------------------------------

    def begin_reindexing(self, embedder: str) -> None:
        """From now on, vectors of `embedder` (a fingerprint) are made; those of a third one, half made, are dropped."""
        with self._transaction() as db:
            if self.setting(REINDEXING) != embedder:
                db.execute("DELETE FROM reindexed")
                db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (REINDEXING, embedder))

    def stop_reindexing(self) -> None:
        """Drop the vectors of the other embedder, if there are some."""
        if self.setting(REINDEXING):
            with self._transaction() as db:
                db.execute("DELETE FROM reindexed")
                db.execute("DELETE FROM meta WHERE key = ?", (REINDEXING,))

    def reindexed(self) -> tuple[int, int]:
        """How many passages have a vector of the other embedder, and how many are to get one, in sum."""
        done = int(self._read("SELECT count(*) FROM reindexed")[0][0])
        return done, done + int(self._read(f"SELECT count(*) {_BEHIND}")[0][0])

    def to_reindex(self, limit: int) -> list[Placed]:
        """Up to `limit` passages that have no vector of the other embedder, in order."""
        sql = f"SELECT p.id, p.step, p.part, p.start, p.end {_BEHIND} ORDER BY p.id LIMIT ?"
        return [Placed(*row) for row in self._read(sql, (limit,))]

    def put_reindexed(self, embedder: str, ids: Sequence[int], vectors: Vectors, tokens: Sequence[TokenIds]) -> None:
        """Keep vectors `(n, dimensions)` and token ids of the other embedder; those of passages that were forgotten
        meanwhile are not. StorageError when somebody began to reindex with a third embedder."""
        sql = "INSERT OR IGNORE INTO reindexed SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM passages WHERE id = ?1)"
        halves = vectors.astype("<f2")
        with self._transaction(derived=True) as db:
            if (now := self.setting(REINDEXING)) != embedder:
                what = f"began to reindex it with {now}" if now else "has reindexed it"
                raise StorageError(f"{self.path}: another process {what} meanwhile; run one of them at a time")
            blobs = ((id, half.tobytes(), some.tobytes()) for id, half, some in zip(ids, halves, tokens, strict=True))
            db.executemany(sql, blobs)

    def switch(self, embedder: str, name: str) -> bool:
        """Put the vectors of the other embedder in the place of those in use; what stores hold is stale then.

        False, and nothing changes, when some passage has none yet.
        """
        with self._transaction() as db:
            if self.setting(REINDEXING) != embedder or self.to_reindex(1):
                return False
            db.execute(
                "UPDATE passages SET (vector, tokens) = (SELECT r.vector, r.tokens FROM reindexed r "
                "WHERE r.passage = passages.id) WHERE id IN (SELECT passage FROM reindexed)"
            )
            db.execute("DELETE FROM reindexed")
            db.execute("DELETE FROM meta WHERE key = ?", (REINDEXING,))
            changes = str(int(self.setting(CHANGES) or 0) + 1)
            settings = {EMBEDDER: embedder, EMBEDDER_NAME: name, WATERMARK: "0", CHANGES: changes}
            db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", settings.items())
            return True
