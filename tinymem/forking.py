"""A lock that knows of forks: in a child process it raises an error, where a plain one might be waited for for ever."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet

from tinymem.errors import StorageError

__all__ = ["ProcessLock"]

_HELD_OVER_FORKS: WeakSet[ProcessLock] = WeakSet()


class ProcessLock:
    """A re-entrant lock of `what` this process has opened. In a child that was forked off, taking it is a StorageError.

    With `over_forks`, a fork waits until no other thread holds it, so that the child inherits nothing half done.

    >>> with ProcessLock("the journal"):
    ...     pass
    """

    def __init__(self, what: str, *, over_forks: bool = False) -> None:
        self._what, self._pid = what, os.getpid()
        self._lock = threading.RLock()
        if over_forks:
            _HELD_OVER_FORKS.add(self)

    @property
    def inherited(self) -> bool:
        """Whether this is a child, and a parent process has opened what the lock is for."""
        return os.getpid() != self._pid

    def __enter__(self) -> None:
        if self.inherited:
            raise StorageError(f"{self._what} was opened before a fork, by another process: open it in the child")
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_forking: list[ProcessLock] = []  # those that are held while a fork is under way


def _hold_all() -> None:
    for lock in sorted(_HELD_OVER_FORKS, key=id):  # in one order, or two threads that fork would wait for each other
        if not lock.inherited:
            lock._lock.acquire()
            _forking.append(lock)


def _release_all() -> None:
    while _forking:
        _forking.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_forking.clear)
