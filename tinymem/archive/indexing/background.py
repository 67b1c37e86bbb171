"""The background thread of a memory: it embeds, summarises and indexes what waits, so that no caller has to.

Of all memories of a program one works at a time, and none is kept alive by its thread. A fork waits until a piece of
work is done, since a child cannot go on with half of one, nor import what was half imported; so does the end of the
interpreter.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from math import inf
from weakref import WeakMethod

__all__ = ["Background", "working"]

NAME = "tinymem"  # of the thread
AT_END = 10.0  # seconds that closing, and the end of the interpreter, wait for a piece of work,
AT_FORK = 60.0  # and that a fork does
LOOK = 0.1  # seconds between two looks if a memory that waits for its turn was closed

working = threading.RLock()  # held by the thread that works


class Background:
    """A thread that calls `work`, a method, while that returns in how many seconds it wants to be called again."""

    def __init__(self, work: Callable[[], float | None]) -> None:
        self._work = WeakMethod(work)
        self._changed = threading.Condition()
        self._due = inf
        self._thread: threading.Thread | None = None
        self._runs = self._is_over = False

    def wake(self, delay: float = 0.0) -> None:
        """Let the thread work in `delay` seconds at the latest."""
        with self._changed:
            self._due = min(self._due, time.monotonic() + delay)
            if not (self._runs or self._is_over):
                self._runs, self._thread = True, threading.Thread(target=self._run, name=NAME, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def end(self) -> None:
        """Stop working, and wait for the piece of work that was begun."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(AT_END)

    def _run(self) -> None:
        while self._wait():
            if not working.acquire(timeout=LOOK):
                self.wake()
                continue
            try:
                work = self._work()
                delay = None if work is None else work()
                del work  # or the memory would live on until there is other work
            finally:
                working.release()
            if delay is not None:
                self.wake(delay)

    def _wait(self) -> bool:
        """Wait until there is work to do; False where there is none."""
        with self._changed:
            while self._due < inf and not self._is_over:
                left = self._due - time.monotonic()
                if left <= 0:
                    self._due = inf
                    return True
                self._changed.wait(left)
            self._runs = False
        return False


_is_paused = False


def _pause() -> None:
    global _is_paused
    _is_paused = working.acquire(timeout=AT_FORK)


def _go_on() -> None:
    if _is_paused:
        working.release()


def _begin_in_child() -> None:
    global working
    working = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause, after_in_parent=_go_on, after_in_child=_begin_in_child)
atexit.register(lambda: working.acquire(timeout=AT_END))
