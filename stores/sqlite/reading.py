"""Connections to a journal that may only be read: on a read-only disk, or where this user has no rights to write."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tinymem.protocols.settings import MADE
from tinymem.stores.sqlite.schema import check_format

__all__ = ["FileState", "OpenedToRead", "copy_of", "file_of", "is_read_only", "open_to_read", "state_of"]

LOGS = ("-wal", "-shm")  # what SQLite puts beside the file, and its index
LOOKS = 4


class FileState(NamedTuple):
    """The time, size and inode of a journal, and the size of its log: another state shows that it was written."""

    time: int
    size: int
    inode: int
    logged: int


class OpenedToRead(NamedTuple):
    """A connection to a journal that may only be read, or to a copy of it that has no name and goes with it.

    `state` is the one in which the files must stay; None where they may be written.
    """

    db: sqlite3.Connection
    state: FileState | None
    is_copy: bool


# Steps that no passages were made of, as a killed process leaves them.
UNCUT = (
    "SELECT 1 FROM steps WHERE number >= coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?), 1) LIMIT 1"
)


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


def open_to_read(path: Path, timeout: float, alone: bool = False) -> OpenedToRead:
    """Connect to a journal that may only be read, and write nothing beside it.

    A log is read with its index, which others may go on writing. A process that has no other connection to it, `alone`,
    does not write the index even where it could: a writer may have lost its locks by reading the file. Without a log
    SQLite would have to make one, so the file is opened as one that nobody writes. Where the index cannot be used, or
    some steps have no passages yet, a copy is read that has no name and goes with the connection: it is the journal as
    it is now. One that is `alone` follows a writer, and needs not all passages.

    Raises:
        sqlite3.Error: The journal cannot be read.
        FormatError: It has another format.
        OSError: It cannot be copied.
    """
    state = state_of(path)
    has_log = state is not None and state.logged > 0
    if alone:
        has_log |= all(path.with_name(f"{path.name}{end}").exists() for end in LOGS)
    how = f"mode=ro&readonly_shm={int(alone)}" if has_log else "immutable=1"
    uri = f"{path.absolute().as_uri()}?{how}"
    db = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None, timeout=timeout)
    is_copied = True
    try:
        try:
            check_format(db, path)
            is_copied = not alone and db.execute(UNCUT, (MADE,)).fetchone() is not None
            return (
                OpenedToRead(copy_of(db), None, True)
                if is_copied
                else OpenedToRead(db, None if has_log else state, False)
            )
        except sqlite3.OperationalError:
            if not has_log:
                raise
            return OpenedToRead(_copy_files(path), None, True)
    finally:
        if is_copied:
            db.close()


def copy_of(db: sqlite3.Connection) -> sqlite3.Connection:
    """Copy a journal to a database that SQLite keeps without a name."""
    copy = sqlite3.connect("", check_same_thread=False, isolation_level=None)
    try:
        db.backup(copy)
    except BaseException:
        copy.close()
        raise
    return copy


def _copy_files(path: Path) -> sqlite3.Connection:
    with TemporaryDirectory(prefix="tinymem-journal-") as folder:
        for file in (path, path.with_name(f"{path.name}-wal")):
            shutil.copyfile(file, Path(folder, file.name))
        with closing(sqlite3.connect(Path(folder, path.name))) as copied:
            check_format(copied, path)
            return copy_of(copied)
