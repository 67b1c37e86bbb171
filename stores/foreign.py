"""Databases of other programs, which are read and never written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tinymem.errors import StorageError

__all__ = ["ForeignTable", "open_table"]


class ForeignTable(Mapping[str, Any]):
    """A table of keys and values, as editors and browsers keep their state."""

    def __init__(self, database: sqlite3.Connection, table: str) -> None:
        self._database, self._table = database, table.replace('"', '""')

    def __getitem__(self, key: str) -> Any:
        row = self._database.execute(f'SELECT value FROM "{self._table}" WHERE key = ?', (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return row[0]

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._database.execute(f'SELECT key FROM "{self._table}" ORDER BY key'))

    def __len__(self) -> int:
        return int(self._database.execute(f'SELECT count(*) FROM "{self._table}"').fetchone()[0])


@contextmanager
def open_table(path: Path, table: str) -> Iterator[ForeignTable]:
    """Open the table of a database to read it.

    Raises:
        StorageError: Here or while it is read: this is no such database, or it has no such table.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            yield ForeignTable(database, table)
    except sqlite3.Error as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
