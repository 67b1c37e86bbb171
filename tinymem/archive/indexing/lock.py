"""The lock of an index among the threads of this process."""

from __future__ import annotations

import threading
from pathlib import Path

from filelock import Timeout

from tinymem.errors import StorageError

__all__ = ["BACKGROUND", "SHORTLY", "IndexLock"]

BACKGROUND = "tinymem"  # the name of the background thread
SHORTLY = 1.0  # seconds that it waits for an index


class IndexLock:
    """A re-entrant lock, for which the background thread waits a moment only.

    A thread that has it may wait until the background thread closes the same store for another memory of this process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.RLock()

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; False if another thread has it, after a moment at most where this is the background thread."""
        if blocking and threading.current_thread().name == BACKGROUND:
            return self._lock.acquire(timeout=SHORTLY)
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def __enter__(self) -> None:
        if not self.acquire():
            raise StorageError(f"{self._folder} is in use by another thread") from Timeout(str(self._folder))

    def __exit__(self, *_: object) -> None:
        self.release()
