"""The small tables of a journal: messages that were heard, and summaries."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tinymem.protocols import MessageRow, SummaryRow
from tinymem.stores.postgres.database import PostgresDatabase
from tinymem.stores.postgres.server.values import Planned

__all__ = ["PostgresMessages", "PostgresSummaries"]

_PUT_MESSAGE = Planned("INSERT INTO messages VALUES (%s, %s, %s, %s, %s) ON CONFLICT (namespace, said, nth) DO NOTHING")
_MESSAGES = "SELECT said, nth, step, is_last FROM messages WHERE namespace = %s"
_SUMMARY = (
    "INSERT INTO summaries SELECT %(ns)s, %(first)s, %(last)s, %(session)s, %(text)s WHERE NOT EXISTS "
    "(SELECT 1 FROM summaries WHERE namespace = %(ns)s AND first <= %(last)s AND last >= %(first)s) RETURNING 1"
)


class PostgresMessages:
    """The table `messages`: `tinymem.protocols.MessageRows` documents the methods."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database

    def put(self, rows: Sequence[MessageRow]) -> None:
        """Keep messages that are not there yet."""
        with self._db.together():
            for row in rows:
                self._db.write(_PUT_MESSAGE, self._db.id, *row)

    def find(self, said: Collection[str], most: int) -> list[MessageRow]:
        """Return the messages with these hashes that are the `most`-th of their hash at most."""
        sql = f"{_MESSAGES} AND said = ANY(%s::text[]) AND nth <= %s"
        return [MessageRow(*row) for row in self._db.read(sql, (self._db.id, [*said], most))] if said else []

    def count(self, said: Collection[str]) -> dict[str, int]:
        """Return how many messages there are with each of these hashes."""
        sql = "SELECT said, max(nth) FROM messages WHERE namespace = %s AND said = ANY(%s::text[]) GROUP BY said"
        return dict(self._db.read(sql, (self._db.id, [*said]))) if said else {}

    def page(self, after: tuple[str, int], limit: int) -> list[MessageRow]:
        """Return up to `limit` messages behind one, in their order."""
        sql = f"{_MESSAGES} AND (said, nth) > (%s, %s) ORDER BY said, nth LIMIT %s"
        return [MessageRow(*row) for row in self._db.read(sql, (self._db.id, *after, limit))]


class PostgresSummaries:
    """The table `summaries`: `tinymem.protocols.SummaryRows` documents the methods."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database

    def all(self) -> list[SummaryRow]:
        """Return all summaries, in order."""
        sql = "SELECT first, last, session, text FROM summaries WHERE namespace = %s ORDER BY first"
        return [SummaryRow(*row) for row in self._db.read(sql, (self._db.id,))]

    def put(self, rows: Sequence[SummaryRow]) -> int:
        """Store summaries, except of steps that another one covers, and return how many were stored."""
        with self._db.together():
            return sum(len(self._db.change(_SUMMARY, {"ns": self._db.id, **row._asdict()})) for row in rows)
