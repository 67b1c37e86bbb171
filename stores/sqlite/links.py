"""The links of messages that came with histories."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

from tinymem.protocols import LinkedMessage, LinkRow
from tinymem.stores.sqlite.database import Database

__all__ = ["Links"]

_COLUMNS = "SELECT link, step, place, id IS NOT NULL FROM links LEFT JOIN steps ON id = link"
_ALIKE = f"{_COLUMNS} WHERE alike = ? ORDER BY step DESC LIMIT ?"
_ROW = (str, int, int, int)


class Links(Database):
    """The table `links`."""

    def put_links(self, links: Sequence[LinkRow]) -> None:
        """Keep links of messages that are not there yet."""
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO links VALUES (?, ?, ?, ?)", links)

    def links(self, after: str = "", limit: int = 1_000) -> list[LinkRow]:
        """Return up to `limit` links behind one, in their order."""
        sql = "SELECT link, alike, step, place FROM links WHERE link > ? ORDER BY link LIMIT ?"
        return [LinkRow(*row) for row in self._along(sql, (after, limit), (str, str, int, int))]

    def linked(self, links: Sequence[str]) -> list[LinkedMessage]:
        """Return the messages with these links, by them and by the ids of steps."""
        ids = self._each("SELECT id, number, number, 1 FROM steps WHERE id IN ({})", links, _ROW)
        kept = self._each(_COLUMNS + " WHERE link IN ({})", links, _ROW)
        return [*starmap(_message, ids), *starmap(_message, kept)]

    def alike(self, hashes: Sequence[str], limit: int) -> dict[str, list[LinkedMessage]]:
        """Return, by hash, up to `limit` messages that say the same, the newest first."""
        found = {each: self._read(_ALIKE, (each, limit), _ROW) for each in hashes}
        return {each: [*starmap(_message, rows)] for each, rows in found.items() if rows}


def _message(link: str, step: int, place: int, ends: int) -> LinkedMessage:
    return LinkedMessage(link, step, place, bool(ends))
