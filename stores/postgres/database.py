"""A journal's namespace in PostgreSQL: its version and its settings."""

from __future__ import annotations

from collections.abc import Mapping

from tinymem.errors import shown
from tinymem.protocols import Mark
from tinymem.protocols.settings import MARK
from tinymem.stores.postgres.server.errors import guarded
from tinymem.stores.postgres.server.transactions import Transactions
from tinymem.stores.postgres.server.values import Planned

__all__ = ["Database"]

_VERSION = Planned("SELECT version FROM namespaces WHERE id = %s AND identity = %s::uuid")
_VALUE = Planned("SELECT value FROM settings WHERE namespace = %s AND key = %s")
_KEEP = Planned(
    "INSERT INTO settings VALUES (%s, %s, %s) ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value"
)


class Database(Transactions):
    """The counters and settings of a namespace."""

    def version(self) -> int:
        """Return a number that changes whenever another journal has written."""
        with self._lock, guarded(self._location):
            if head := self._known():
                return head.version - self._own
            if not (rows := self._read(_VERSION, (self._id, self.identity))):
                raise self._forgotten()
            return int(rows[0][0]) - self._own

    def setting(self, key: str) -> str | None:
        """Return the value of `key`, or None."""
        with self._lock, guarded(self._location):
            if (head := self._known()) and (key not in head.settings or head.settings[key] is not None):
                return head.settings.get(key)
            rows = self._read(_VALUE, (self._id, key))
        return rows[0][0] if rows else None

    def keep(self, settings: Mapping[str, str], replace: bool = True) -> None:
        """Store values under keys, all or none; unless `replace`, existing values stay."""
        with self._transaction():
            held = self._written.settings
            for key, value in settings.items():
                if replace or key not in held:
                    self._write(_KEEP, self._id, key, value)
                    held[key] = value

    def _drop_setting(self, key: str) -> None:
        self._write("DELETE FROM settings WHERE namespace = %s AND key = %s", self._id, key)
        self._written.settings.pop(key, None)

    def _count_up(self, key: str) -> None:
        self.keep({key: str(int(self.setting(key) or 0) + 1)})

    @property
    def mark(self) -> Mark:
        """The mark up to which passages were made."""
        return self._mark_in({MARK: self.setting(MARK)})

    def _mark_in(self, settings: Mapping[str, str | None]) -> Mark:
        kept = settings.get(MARK) or "1 0"
        try:
            step, passages = map(int, kept.split())
        except ValueError as error:
            raise self.damaged(f"{shown(kept)} is not a mark") from error
        return Mark(step, passages)
