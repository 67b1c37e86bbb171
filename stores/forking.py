"""Protection against forks: a child process may neither use nor free the locks and connections of its parent.

The reference counting at a fork must stay. A child with an ordinary reference to its parent's Chroma frees it when it
ends, and waits for ever for threads that it does not have (tests/reliability/test_processes.py hangs).
"""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

from tinymem.errors import StorageError

__all__ = ["ProcessLock", "leave_to_parent"]

_RLock: Any = type(threading.RLock())
_LEFT: WeakSet[object] = WeakSet()
_LOCKS: WeakSet[ProcessLock] = WeakSet()


class ProcessLock(_RLock):  # type: ignore[misc]
    """A re-entrant lock of `what`, which this process has opened.

    Acquiring it in a forked child is a StorageError, since the child might wait for a plain lock for ever. It gets
    another class there: with a method in Python in this one, Ctrl-C could come between the lock and its block.

    >>> with ProcessLock("the journal"):
    ...     pass
    """

    inherited = False  # True in a child of the process that opened `what`

    def __init__(self, what: str) -> None:
        self._what = what
        _LOCKS.add(self)


class _InheritedLock(ProcessLock):
    """A lock in a child of the process that made it."""

    inherited = True

    def __enter__(self) -> None:
        raise StorageError(f"{self._what} was opened before a fork, in another process: open it in the child")


def leave_to_parent(thing: object) -> None:
    """Prevent forked children from freeing `thing`, even at their end.

    Closing an SQLite connection in a child can harm the parent's file, and Chroma waits there for missing threads.
    """
    _LEFT.add(thing)


def _inherit() -> None:
    for lock in list(_LOCKS):
        lock.__class__ = _InheritedLock
    _LOCKS.clear()
    _never_free()


def _never_free() -> None:
    if not _LEFT:
        return
    import ctypes

    for thing in list(_LEFT):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inherit)
