"""The links of messages that came with histories."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.protocols import LinkedMessage, LinkRow
from tinymem.stores.postgres.database import Database
from tinymem.stores.postgres.server.values import Planned

__all__ = ["Links"]

_PUT = Planned("INSERT INTO links VALUES (%s, %s, %s, %s, %s) ON CONFLICT (namespace, link) DO NOTHING")
_LINKED = (
    "SELECT id, number, number, true, 1 FROM steps WHERE namespace = %s AND id = ANY(%s::text[]) UNION ALL "
    "SELECT link, step, place, EXISTS (SELECT 1 FROM steps s WHERE s.namespace = k.namespace AND s.id = k.link), 2 "
    "FROM links k WHERE namespace = %s AND link = ANY(%s::text[]) ORDER BY 5"
)
_ALIKE = (
    "SELECT a.alike, k.* FROM unnest(%s::text[]) a(alike) CROSS JOIN LATERAL (SELECT link, step, place, EXISTS "
    "(SELECT 1 FROM steps s WHERE s.namespace = l.namespace AND s.id = l.link) FROM links l "
    "WHERE l.namespace = %s AND l.alike = a.alike ORDER BY step DESC LIMIT %s) k"
)


class Links(Database):
    """The table `links`."""

    def put_links(self, links: Sequence[LinkRow]) -> None:
        """Keep links of messages that are not there yet."""
        with self._transaction():
            for row in links:
                self._write(_PUT, self._id, *row)

    def links(self, after: str = "", limit: int = 1_000) -> list[LinkRow]:
        """Return up to `limit` links behind one, in their order."""
        sql = "SELECT link, alike, step, place FROM links WHERE namespace = %s AND link > %s ORDER BY link LIMIT %s"
        return [LinkRow(*row) for row in self._read(sql, (self._id, after, limit))]

    def linked(self, links: Sequence[str]) -> list[LinkedMessage]:
        """Return the messages with these links, by them and by the ids of steps."""
        if not links:
            return []
        found = self._read(_LINKED, (self._id, list(links), self._id, list(links)))
        return [LinkedMessage(*row[:4]) for row in found]

    def alike(self, hashes: Sequence[str], limit: int) -> dict[str, list[LinkedMessage]]:
        """Return, by hash, up to `limit` messages that say the same, the newest first."""
        found: dict[str, list[LinkedMessage]] = {}
        for said, *message in self._read(_ALIKE, (list(dict.fromkeys(hashes)), self._id, limit)) if hashes else ():
            found.setdefault(said, []).append(LinkedMessage(*message))
        return found
