"""A temporary folder for a memory of this process alone, removed with the memory or, after a kill, by the next one."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["private_folder"]

PREFIX, LOCK, MEMORY = "tinymem-process-", "alive.lock", "memory"


def private_folder(owner: object) -> tuple[Path, Callable[[], object]]:
    """Make a folder that only this user can read, and that is removed with `owner` or when the process ends.

    Each process holds a lock in its folder as long as it lives. A killed process leaves its folder behind, and the next
    one that makes a folder removes it.

    Returns:
        The path of the memory's folder, which does not exist yet, and a function that removes everything at once.
    """
    _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = FileLock(folder / LOCK)
    lock.acquire()
    return folder / MEMORY, weakref.finalize(owner, _remove, folder, lock, os.getpid())


def _remove(folder: Path, lock: FileLock, owner: int) -> None:
    if os.getpid() == owner:  # a forked child leaves this to its parent
        lock.release(force=True)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned() -> None:
    """Remove the folders of processes that are gone.

    Without a memory in it a folder may be one that another process makes just now, and has not locked yet.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink() or not _is_own(folder) or not (folder / MEMORY).exists():
                continue
            with FileLock(folder / LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
        except (OSError, Timeout):  # the folder is in use, or another process removes it
            continue


def _is_own(folder: Path) -> bool:
    return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
