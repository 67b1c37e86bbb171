"""Locks that survive forks and interrupts: no child frees what its parent holds, no Ctrl-C leaves a lock behind.

The reference counting at a fork must stay: a child frees what it has ordinary references to when it ends. With its
parent's SQLite connection that deletes the log of other processes, and with it steps that they added; with its parent's
Chroma it waits for ever for threads that it does not have (both in tests/reliability/test_processes.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from tinymem.errors import ClosedError, StorageError

__all__ = ["ProcessLock", "leave_to_parent", "release_when_interrupted"]

CONTEXTLIB = contextmanager.__code__.co_filename

_RLock: Any = type(threading.RLock())
_LEFT: WeakSet[object] = WeakSet()
_LOCKS: WeakSet[ProcessLock] = WeakSet()


class ProcessLock(_RLock):  # type: ignore[misc]
    """A re-entrant lock of `what`, which this process has opened and may have closed.

    Acquiring it in a forked child is a StorageError, since the child might wait for a plain lock for ever. It gets
    another class there: with a method in Python in this one, Ctrl-C could come between the lock and its block.

    >>> with ProcessLock("the journal"):
    ...     pass
    """

    inherited = False  # True in a child of the process that opened `what`

    def __init__(self, what: str) -> None:
        self._what, self.is_closed = what, False
        _LOCKS.add(self)

    def check_open(self) -> None:
        """Raise ClosedError once `is_closed` is set."""
        if self.is_closed:
            raise ClosedError(f"{self._what} is closed: open it again")

    @contextmanager
    def while_open(self) -> Iterator[None]:
        """Hold the lock of what is open; an interrupt releases it."""
        with release_when_interrupted(), self:
            self.check_open()
            yield


class _InheritedLock(ProcessLock):
    """A lock in a child of the process that made it."""

    inherited = True

    def __enter__(self) -> None:
        raise StorageError(f"{self._what} was opened before a fork, in another process: open it in the child")


def leave_to_parent(thing: object) -> None:
    """Prevent forked children from freeing `thing`, even at their end."""
    _LEFT.add(thing)


@contextmanager
def release_when_interrupted() -> Iterator[None]:
    """Let no lock and no transaction that is held inside outlive an interrupt, as Ctrl-C or a handler's exception.

    One that comes just as a block ends, before the `finally` of its context manager is reached, leaves that waiting for
    as long as the error's frames live. A prompt keeps these until the next error, and a handler until its end.
    """
    try:
        yield
    except BaseException as error:
        frame = error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == CONTEXTLIB:
                with suppress(RuntimeError):  # it still runs
                    frame.tb_frame.clear()
            frame = frame.tb_next
        raise


def _inherit() -> None:
    for lock in list(_LOCKS):
        lock.__class__ = _InheritedLock
    _LOCKS.clear()
    import ctypes

    for thing in list(_LEFT):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inherit)
