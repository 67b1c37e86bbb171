"""The journal: one SQLite file with every step, passage, vector and term of a namespace, the source of truth.

With WAL and synchronous FULL, a step survives a killed process and a power failure once `add` has returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tinymem.errors import StorageError
from tinymem.protocols.settings import FORGOTTEN, REWRITES, UNSPLIT, WINDOW_CHANGES
from tinymem.stores.sqlite.checks import Checks
from tinymem.stores.sqlite.links import Links
from tinymem.stores.sqlite.passages import Passages, Summaries
from tinymem.stores.sqlite.reindexing import Reindexing
from tinymem.stores.sqlite.schema import guarded
from tinymem.stores.sqlite.scrubbing import scrubbed_in_place

__all__ = ["SqliteJournal"]

FREE = 0.25  # share of free pages from which on the file is written again, so that it becomes smaller

_WEIGHTS = """
SELECT number, length(record) + ifnull(length(view), 0) + ifnull(derived, 0) FROM steps LEFT JOIN (
    SELECT step, sum(length(vector) + length(identifiers)) derived FROM passages GROUP BY step
) ON step = number
"""


class SqliteJournal(Passages, Links, Summaries, Reindexing, Checks):
    """A namespace's journal at `path`, made if `create`. Safe to use from several threads.

    `tinymem.protocols.Journal` documents the methods. They wait up to `timeout` seconds for another process that
    writes, and then raise StorageError.
    """

    @contextmanager
    def reading(self) -> Iterator[SqliteJournal]:
        """Open a second journal that reads the present state.

        While it is open, `scrub` fails everywhere, since the text of forgotten steps is still there.
        """
        other = SqliteJournal(self.path, create=False)
        try:
            with guarded(self.path):
                other._db.execute("BEGIN")
            other.setting("")  # SQLite fixes the state at the first read
            yield other
        finally:
            other.close()

    def delete(self, passages_of: Mapping[int, Sequence[str]]) -> bool:
        """Remove steps for good, and the summaries that cover them; False if a number of passages does not match.

        Freed pages are overwritten, terms merged away and the write-ahead log emptied, so nothing is left in the file.
        Inside `together`, the caller scrubs the file afterwards.
        """
        sql = "SELECT id FROM passages WHERE step = ? ORDER BY id"
        with self._transaction() as db:
            ids = {number: [i for (i,) in db.execute(sql, (number,))] for number in passages_of}
            if any(len(ids[number]) != len(texts) for number, texts in passages_of.items()):
                return False
            held = self.setting(UNSPLIT) or ""
            unsplit = int(held) if held.isdecimal() else self.last_passage()
            for number, texts in passages_of.items():
                self._fulltext.remove(zip(ids[number], texts, strict=True), unsplit)
                db.executemany("DELETE FROM reindexed WHERE passage = ?", ((id,) for id in ids[number]))
                db.execute("DELETE FROM passages WHERE step = ?", (number,))
                db.execute("DELETE FROM steps WHERE number = ?", (number,))
                db.execute("DELETE FROM labels WHERE step = ?", (number,))
                db.execute("DELETE FROM summaries WHERE first <= ?1 AND last >= ?1", (number,))
            self._fulltext.optimize()
            gone = " ".join(str(id) for some in ids.values() for id in some)
            self.keep({FORGOTTEN: f"{self.setting(FORGOTTEN) or ''} {gone}".strip()})
            self._count_up(WINDOW_CHANGES)
            self._count_up(REWRITES)
        if not self._db.in_transaction:
            self.scrub("the steps are deleted", "their text stays")
        return True

    def scrub(self, done: str, what: str) -> None:
        """Remove all traces of removed steps from the file; StorageError while another connection reads."""
        with self._lock, guarded(self.path):
            free, pages = (self._number(f"PRAGMA {name}") for name in ("freelist_count", "page_count"))
            if free > FREE * pages or not scrubbed_in_place(self.path, self._handle, self._timeout):
                self._db.execute("VACUUM")
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StorageError(
                f"{self.path}: {done}, but another process or thread reads the file, so {what} in it until that reader "
                "and this memory are closed"
            )

    def compact(self) -> None:
        """Give the room of removed rows back; this writes the whole file again."""
        with self._lock, guarded(self.path):
            self._db.execute("VACUUM")

    def size(self) -> int:
        """Return the bytes of the file that are in use."""
        pages, free, each = (self._number(f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size"))
        return (pages - free) * each

    def weights(self) -> dict[int, int]:
        """Return the bytes of each step, by number, without those of the search indexes."""
        return {number: int(weight) for number, weight in self._read(_WEIGHTS)}
