"""The journal: one SQLite file with every step, passage, vector and term of a namespace, the source of truth.

With WAL and synchronous FULL, a step survives a killed process and a power failure once `add` has returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tinymem.protocols import Maintenance, MessageRows, SummaryRows
from tinymem.protocols.settings import DELETIONS, REWRITES, UNSCRUBBED
from tinymem.stores.sqlite.database import guarded
from tinymem.stores.sqlite.maintenance import SqliteMaintenance
from tinymem.stores.sqlite.passages import SqlitePassages
from tinymem.stores.sqlite.steps import SqliteSteps
from tinymem.stores.sqlite.tables import SqliteMessages, SqliteSummaries

__all__ = ["SqliteJournal"]


class SqliteJournal(SqliteSteps, SqlitePassages):
    """A namespace's journal at `path`, made if `create`. Safe to use from several threads.

    `tinymem.protocols.Journal` documents the methods. They wait up to `timeout` seconds for another process that
    writes, and then raise StorageError.
    """

    def __init__(self, path: Path, create: bool = True, timeout: float = 30, read_only: bool = False) -> None:
        super().__init__(path, create, timeout, read_only)
        self.messages: MessageRows = SqliteMessages(self)
        self.summaries: SummaryRows = SqliteSummaries(self)
        self.maintenance: Maintenance = SqliteMaintenance(self)

    @contextmanager
    def reading(self) -> Iterator[SqliteJournal]:
        """Open a second journal that reads the present state.

        While it is open, `scrub` fails everywhere, since the text of forgotten steps is still there.
        """
        self.check_file()
        other = SqliteJournal(self.path, create=False)
        try:
            with guarded(self.path):
                other.connection.execute("BEGIN")
            other.setting("")  # SQLite fixes the state at the first read
            yield other
        finally:
            other.close()

    def delete(self, passages_of: Mapping[int, Sequence[str]]) -> bool:
        """Remove steps for good, and the summaries that cover them; False if a number of passages does not match.

        The caller scrubs the file afterwards.
        """
        sql = "SELECT id FROM passages WHERE step = ? ORDER BY id"
        with self.transaction() as db:
            ids: dict[int, list[int]] = {}
            for number, texts in passages_of.items():
                ids[number] = [id for (id,) in db.execute(sql, (number,))]
                if len(ids[number]) != len(texts):
                    return False
            for number, texts in passages_of.items():
                self.fulltext.remove(zip(ids[number], texts, strict=True))
                db.executemany("DELETE FROM vectors WHERE passage = ?", ((id,) for id in ids[number]))
                db.execute("DELETE FROM passages WHERE step = ?", (number,))
                db.execute("DELETE FROM steps WHERE number = ?", (number,))
                db.execute("DELETE FROM labels WHERE step = ?", (number,))
                db.execute("DELETE FROM notes WHERE step = ?", (number,))
                db.execute("DELETE FROM summaries WHERE first <= ?1 AND last >= ?1", (number,))
            self.count_up(DELETIONS, REWRITES)
            self.keep({UNSCRUBBED: self.setting(REWRITES) or ""})
        return True
