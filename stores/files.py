"""Files (0600) and folders (0700) that only their owner can read, whatever the umask."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tinymem.errors import TakenError

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "FILE",
    "NewFiles",
    "lock_folder",
    "make_private_file",
    "make_private_folder",
    "open_private",
    "warn_if_open",
]

logger = logging.getLogger(__name__)

FILE, FOLDER = 0o600, 0o700
OTHERS = 0o077  # the permissions of group and others
_warned: set[Path] = set()


def make_private_folder(path: Path) -> None:
    """Make the folder and its missing parents, without changing existing ones. Raises OSError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            folder.mkdir(FOLDER)
            folder.chmod(FOLDER)  # a umask may have removed the owner's permissions too


def make_private_file(path: Path) -> bool:
    """Make an empty file unless there is one, and return whether it was made. Raises OSError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE)
    except FileExistsError:
        return False
    os.close(handle)
    path.chmod(FILE)
    return True


def open_private(path: str, flags: int) -> int:
    """Open a file for `open(opener=...)`: a new one is its owner's only, an existing one keeps its permissions."""
    return os.open(path, flags, FILE)


def lock_folder(folder: Path, wait: float = 0.0, name: str = "tinymem.lock") -> BaseFileLock:
    """Return the lock of an index's folder, which one store at a time holds; waits so many seconds for it.

    Raises:
        StorageError: Another store has the folder open.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / name, timeout=wait, mode=FILE, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise TakenError(
            f"another process, or another store in this one, has the index in {folder} open, and two at once corrupt "
            "it: close the other, or start a server (chroma run) and use 'chroma:http://localhost:8000'"
        ) from error
    return lock


def warn_if_open(folder: Path) -> None:
    """Log, once for each folder, that other users than its owner can read it, as after a copy."""
    with suppress(OSError):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if os.name == "posix" and mode & OTHERS and folder not in _warned:
            _warned.add(folder)
            logger.warning("other users can read %s (mode %03o): to prevent that, chmod -R go-rwx it", folder, mode)


class NewFiles:
    """The files that another library will make in `folder`, with permissions of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = {*folder.rglob("*")}

    def make_private(self) -> None:
        """Remove the permissions of group and others from the files that exist by now."""
        for path in {*self._folder.rglob("*")} - self._before:
            with suppress(FileNotFoundError):  # deleted meanwhile
                path.chmod(FOLDER if path.is_dir() else FILE)
                self._before.add(path)
