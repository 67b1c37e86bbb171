"""Locks that survive forks: no child waits for what its parent held, or frees what its parent holds.

The reference counting at a fork must stay: a child frees what it has ordinary references to when it ends. With its
parent's SQLite connection that deletes the log of other processes, and with it steps that they added; with its parent's
Chroma it waits for ever for threads that it does not have (both in tests/reliability/test_processes.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from tinymem.errors import ClosedError, StorageError

__all__ = ["ProcessLock", "leave_to_parent"]

_RLock: Any = type(threading.RLock())
_LEFT: WeakSet[object] = WeakSet()


class ProcessLock(_RLock):  # type: ignore[misc]
    """A re-entrant lock of `what`, which this process has opened and may have closed.

    Acquiring it in a forked child is a StorageError, since the child might wait for a plain lock for ever.

    >>> with ProcessLock("the journal"):
    ...     pass
    """

    def __init__(self, what: str) -> None:
        self._what, self._process, self.is_closed = what, os.getpid(), False

    @property
    def inherited(self) -> bool:
        """True in a child of the process that opened `what`."""
        return os.getpid() != self._process

    def __enter__(self) -> None:
        if self.inherited:
            raise StorageError(f"{self._what} was opened before a fork, in another process: open it in the child")
        super().__enter__()

    def check_open(self) -> None:
        """Raise ClosedError once `is_closed` is set."""
        if self.is_closed:
            raise ClosedError(f"{self._what} is closed: open it again")

    @contextmanager
    def while_open(self) -> Iterator[None]:
        """Hold the lock of what is open."""
        with self:
            self.check_open()
            yield


def leave_to_parent(thing: object) -> None:
    """Prevent forked children from freeing `thing`, even at their end."""
    _LEFT.add(thing)


def _inherit() -> None:
    import ctypes

    for thing in list(_LEFT):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inherit)
