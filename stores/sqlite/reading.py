"""Connections to a journal that may only be read: on a read-only disk, or where this user has no rights to write."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tinymem.stores.sqlite.schema import check_format

__all__ = ["FileState", "file_of", "is_read_only", "open_to_read", "state_of"]

LOGS = ("-wal", "-shm")  # what SQLite puts beside the file, and its index
LOOKS = 4


class FileState(NamedTuple):
    """The time, size and inode of a journal, and the size of its log: another state shows that it was written."""

    time: int
    size: int
    inode: int
    logged: int


def is_read_only(path: Path) -> bool:
    """Return True if the journal is there, and it, its log or their folder may not be written."""
    logs = (path.with_name(f"{path.name}{end}") for end in LOGS)
    return os.access(path, os.F_OK) and any(map(_is_refused, (path.parent, path, *logs)))


def _is_refused(place: Path) -> bool:
    """Return True if a file or folder is there and may not be written; a log may go and come between two looks."""
    by_effective_user = os.access in os.supports_effective_ids
    return all(
        not os.access(place, os.W_OK, effective_ids=by_effective_user) and os.access(place, os.F_OK)
        for _ in range(LOOKS)
    )


def file_of(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of the file at a path; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def state_of(path: Path) -> FileState | None:
    """Return the state of a journal's files; None where they cannot be reached any more."""
    logged = 0
    try:
        file = path.stat()
        with suppress(FileNotFoundError):
            logged = path.with_name(f"{path.name}-wal").stat().st_size
    except OSError:
        return None
    return FileState(file.st_mtime_ns, file.st_size, file.st_ino, logged)


def open_to_read(path: Path, timeout: float, alone: bool = False) -> tuple[sqlite3.Connection, FileState | None]:
    """Connect to a journal that may only be read, and write nothing beside it.

    A log is read with its index, which others may go on writing. A process that has no other connection to it, `alone`,
    does not write the index even where it could: a writer may have lost its locks by reading the file. Without a log
    SQLite would have to make one, so the file is opened as one that nobody writes.

    Returns:
        The connection, and the state in which the files must stay; None where they may be written.

    Raises:
        sqlite3.Error: The journal cannot be read, as where a killed process left a log without its index.
        FormatError: It has another format.
    """
    state = state_of(path)
    has_log = state is not None and state.logged > 0
    if alone:
        has_log |= all(path.with_name(f"{path.name}{end}").exists() for end in LOGS)
    how = f"mode=ro&readonly_shm={int(alone)}" if has_log else "immutable=1"
    uri = f"{path.absolute().as_uri()}?{how}"
    db = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None, timeout=timeout)
    try:
        check_format(db, path)
        db.execute("PRAGMA temp_store=MEMORY")
    except BaseException:
        db.close()
        raise
    return db, None if has_log else state
