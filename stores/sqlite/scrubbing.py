"""The overwriting of unused bytes in a journal's file while it is open, in this process and in others."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from tinymem.errors import StorageError
from tinymem.stores.unused import overwrite_unused

__all__ = ["Handles", "handles", "scrub_in_place"]

TRIES = 5  # other processes may write in between
SCRUBS = "INSERT INTO meta VALUES ('scrubs', '1') ON CONFLICT (key) DO UPDATE SET value = value + 1"


class Handles:
    """One open descriptor for each file that has connections in this process, closed after the last of them.

    Closing any descriptor of a file releases the locks that this process has on it, those of SQLite too.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[tuple[int, int], list[int]] = {}  # by device and inode: connections, and the descriptor

    def add(self, path: Path) -> tuple[int, int]:
        """Count a connection to the file; return the key for `release`."""
        found = path.stat()
        with self._guard:
            self._held.setdefault((found.st_dev, found.st_ino), [0])[0] += 1
        return found.st_dev, found.st_ino

    def release(self, key: tuple[int, int]) -> None:
        """Count a connection less."""
        with self._guard:
            held = self._held[key]
            held[0] -= 1
            if not held[0]:
                del self._held[key]
                for descriptor in held[1:]:
                    os.close(descriptor)

    def descriptor(self, path: Path, key: tuple[int, int]) -> int:
        """Return a descriptor to read and write the file, which stays open."""
        with self._guard:
            held = self._held[key]
            if len(held) == 1:
                held.append(os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0)))
            return held[1]


handles = Handles()


def scrub_in_place(path: Path, key: tuple[int, int], timeout: float) -> bool:
    """Overwrite the unused bytes of a journal that nobody reads at this moment; False where that cannot be done.

    Other connections have pages in memory that still hold such bytes, and would write them again with the next change
    of the page. They drop these pages when somebody else has written: so this is done inside a transaction that keeps
    other writers out, and writes something itself, on a connection without pages of its own.
    """
    if os.name != "posix":
        return False
    for _ in range(TRIES):
        with closing(sqlite3.connect(path, isolation_level=None, timeout=timeout)) as db:
            db.execute("PRAGMA secure_delete=ON")
            if db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                return False
            db.execute("BEGIN IMMEDIATE")
            if path.with_name(f"{path.name}-wal").stat().st_size:  # somebody has written since
                db.execute("ROLLBACK")
                continue
            try:
                file = handles.descriptor(path, key)
                overwrite_unused(file)
                os.fsync(file)
            except (StorageError, OSError, AttributeError):  # AttributeError: this system cannot read into a buffer
                db.execute("ROLLBACK")
                return False
            db.execute(SCRUBS)
            db.execute("COMMIT")
            return True
    return False
