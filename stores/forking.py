"""Protection against forks: a child process may neither use nor free the locks and connections of its parent.

The reference counting at a fork must stay. A child with an ordinary reference to its parent's Chroma frees it when it
ends, and waits for ever for threads that it does not have (tests/reliability/test_processes.py hangs).
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet

from tinymem.errors import StorageError

__all__ = ["ProcessLock", "leave_to_parent"]

_LEFT: WeakSet[object] = WeakSet()


class ProcessLock:
    """A re-entrant lock of `what`, which this process has opened.

    Acquiring it in a forked child is a StorageError, since the child might wait for a plain lock for ever.

    >>> with ProcessLock("the journal"):
    ...     pass
    """

    def __init__(self, what: str) -> None:
        self._what, self._pid = what, os.getpid()
        self._lock = threading.RLock()

    @property
    def inherited(self) -> bool:
        """True in a child of the process that opened `what`."""
        return os.getpid() != self._pid

    def __enter__(self) -> None:
        if self.inherited:
            raise StorageError(f"{self._what} was opened before a fork, in another process: open it in the child")
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def leave_to_parent(thing: object) -> None:
    """Prevent forked children from freeing `thing`, even at their end.

    Closing an SQLite connection in a child can harm the parent's file, and Chroma waits there for missing threads.
    """
    _LEFT.add(thing)


def _never_free() -> None:
    if not _LEFT:
        return
    import ctypes

    for thing in list(_LEFT):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_never_free)
