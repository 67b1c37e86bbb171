"""Files and folders that only their owner can read, whatever the umask: what tinymem makes is 0600 and 0700."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["NewFiles", "opener", "private_file", "private_folder", "warn_if_open"]

logger = logging.getLogger(__name__)

FILE, FOLDER = 0o600, 0o700
OTHERS = 0o077  # what group and others may do
_warned: set[Path] = set()


def private_folder(path: Path) -> None:
    """Make the folder and those above it that are missing; what is there stays as it is. Raises OSError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process was quicker
            folder.mkdir(FOLDER)
            folder.chmod(FOLDER)  # a umask can only have taken rights away, of the owner too


def private_file(path: Path) -> bool:
    """Make an empty file unless there is one; whether it was made. Raises OSError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE)
    except FileExistsError:
        return False
    os.close(handle)
    path.chmod(FILE)
    return True


def opener(path: str, flags: int) -> int:
    """For `open`: a file that it makes is for its owner only; one that is there keeps its rights."""
    return os.open(path, flags, FILE)


def warn_if_open(folder: Path) -> None:
    """Log once, for each folder, that others than its owner may look into it, as after a copy."""
    with suppress(OSError):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if os.name == "posix" and mode & OTHERS and folder not in _warned:
            _warned.add(folder)
            logger.warning("other users may look into %s (mode %03o): chmod -R go-rwx it, or leave it so", folder, mode)


class NewFiles:
    """The files in `folder` that are not there yet: others write them, with rights of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = {*folder.rglob("*")}

    def make_private(self) -> None:
        """Take rights away from group and others, of what is there by now."""
        for path in {*self._folder.rglob("*")} - self._before:
            with suppress(FileNotFoundError):  # deleted meanwhile
                path.chmod(FOLDER if path.is_dir() else FILE)
                self._before.add(path)
