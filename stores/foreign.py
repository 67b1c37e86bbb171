"""Databases of other programs, which are read and never written, nor trusted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tinymem.errors import StorageError

__all__ = ["ForeignTable", "open_table"]

LONGEST = 256 << 20  # bytes of a value; longer ones read as none
EVERY, MOST = 1_000_000, 20_000  # instructions of SQLite's between two looks, and looks until it is stopped
PLAIN = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? AND sql NOT LIKE 'CREATE VIRTUAL%'"


class ForeignTable(Mapping[str, Any]):
    """A table of keys and values, as editors and browsers keep their state."""

    def __init__(self, database: sqlite3.Connection, table: str) -> None:
        self._database, self._table = database, table.replace('"', '""')

    def __getitem__(self, key: str) -> Any:
        value = "CASE WHEN length(value) <= ? THEN value END"
        known = key.encode("utf-8", "replace").decode()  # no database has half a character
        row = self._database.execute(f'SELECT {value} FROM "{self._table}" WHERE key = ?', (LONGEST, known)).fetchone()
        if row is None:
            raise KeyError(key)
        return row[0]

    def __iter__(self) -> Iterator[str]:
        sql = f"SELECT key FROM \"{self._table}\" WHERE typeof(key) = 'text' ORDER BY key"
        return (key for (key,) in self._database.execute(sql))

    def __len__(self) -> int:
        return int(self._database.execute(f'SELECT count(*) FROM "{self._table}"').fetchone()[0])


@contextmanager
def open_table(path: Path, table: str) -> Iterator[ForeignTable]:
    """Open the table of a database to read it.

    Raises:
        StorageError: Here or while it is read: this is no such database, or it has no such table. A view, and a table
            that computes its values, are none: they could run for ever.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            looks = count(1)
            database.set_progress_handler(lambda: next(looks) > MOST, EVERY)
            database.text_factory = lambda value: value.decode("utf-8", "replace")
            for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
                database.execute(f"PRAGMA {setting}")
            columns = database.execute("SELECT hidden FROM pragma_table_xinfo(?)", (table,)).fetchall()
            if database.execute(PLAIN, (table,)).fetchone() is None or any(hidden for (hidden,) in columns):
                raise StorageError(f"{path} cannot be read: it has no plain table {table}")
            yield ForeignTable(database, table)
    except (sqlite3.Error, OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
