"""The small tables of a journal: messages that were heard, and summaries."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tinymem.protocols import MessageRow, SummaryRow
from tinymem.stores.sqlite.database import SqliteDatabase

__all__ = ["SqliteMessages", "SqliteSummaries"]

_MESSAGES = "SELECT said, nth, step, is_last FROM messages"
_MESSAGE = (str, int, int, int)


class SqliteMessages:
    """The table `messages`: `tinymem.protocols.MessageRows` documents the methods."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._db = database

    def put(self, rows: Sequence[MessageRow]) -> None:
        """Keep messages that are not there yet."""
        with self._db.transaction() as db:
            db.executemany("INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?)", rows)

    def find(self, said: Collection[str], most: int) -> list[MessageRow]:
        """Return the messages with these hashes that are the `most`-th of their hash at most."""
        sql = f"{_MESSAGES} WHERE said IN ({{}}) AND nth <= {int(most)}"
        return [*map(_message, self._db.read_each(sql, [*said], _MESSAGE))]

    def count(self, said: Collection[str]) -> dict[str, int]:
        """Return how many messages there are with each of these hashes."""
        sql = "SELECT said, max(nth) FROM messages WHERE said IN ({}) GROUP BY said"
        return dict(self._db.read_each(sql, [*said], (str, int)))

    def page(self, after: tuple[str, int], limit: int) -> list[MessageRow]:
        """Return up to `limit` messages behind one, in their order."""
        sql = f"{_MESSAGES} WHERE (said, nth) > (?, ?) ORDER BY said, nth LIMIT ?"
        rows = self._db.read(sql, (*after, limit), _MESSAGE)
        places = [after, *(row[:2] for row in rows)]
        if places != sorted(set(places)):  # a damaged tree may loop
            raise self._db.damaged("the keys of its messages are not in order")
        return [*map(_message, rows)]


class SqliteSummaries:
    """The table `summaries`: `tinymem.protocols.SummaryRows` documents the methods."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._db = database

    def all(self) -> list[SummaryRow]:
        """Return all summaries, in order."""
        sql = "SELECT first, last, session, text FROM summaries ORDER BY first"
        return [SummaryRow(*row) for row in self._db.read(sql, kinds=(int, int, (str, type(None)), str))]

    def put(self, rows: Sequence[SummaryRow]) -> int:
        """Store summaries, except of steps that another one covers, and return how many were stored."""
        sql = (
            "INSERT INTO summaries SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS "
            "(SELECT 1 FROM summaries WHERE first <= ?2 AND last >= ?1)"
        )
        with self._db.transaction(derived=True) as db:
            return db.executemany(sql, rows).rowcount


def _message(row: tuple[str, int, int, int]) -> MessageRow:
    said, nth, step, is_last = row
    return MessageRow(said, nth, step, bool(is_last))
