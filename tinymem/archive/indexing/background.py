"""The one background thread of this process: it embeds, summarises and indexes what waits, so that no caller has to.

It works for one memory at a time, and holds no memory alive. A fork waits until the thread is between two pieces of
work, since a child cannot go on with half of one. So does the end of the interpreter, since Chroma aborts a process
whose threads are gone.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from pathlib import Path
from typing import Protocol
from weakref import WeakKeyDictionary

from tinymem.archive.indexing.notes import is_taken
from tinymem.archive.indexing.process import process
from tinymem.errors import ClosedError, safe_summary, warn_hourly

__all__ = ["Background", "BackgroundWorker", "background"]

logger = logging.getLogger(__name__)

NAME = "tinymem"  # of the thread
AT_END = 10.0  # seconds that the end of the interpreter waits for a piece of work,
AT_FORK = 60.0  # and that a fork does: a child could not import what was half imported, nor use what was locked


class BackgroundWorker(Protocol):
    """An archive that has work for the background thread."""

    folder: Path

    def work(self) -> float | None:
        """Do one piece of work; the seconds until there may be more of it, or None for nothing."""

    def has_files(self) -> bool:
        """Return whether the memory's files are where they were."""

    def fail(self, error: Exception) -> float:
        """Note that the work failed; the seconds until it is tried again."""


class Background:
    """The thread, which runs while there is work, and the time at which each worker is due."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working_for: BackgroundWorker | None = None  # for whom it does a piece of work now
        self._pauses = 0  # forks that wait or go on
        self._due: WeakKeyDictionary[BackgroundWorker, float] = WeakKeyDictionary()
        self._thread: threading.Thread | None = None
        self._ends = False

    def wake(self, worker: BackgroundWorker, delay: float = 0.0) -> None:
        """Let the thread work for `worker` in `delay` seconds at the latest."""
        with self._changed:
            due = time.monotonic() + delay
            if self._ends or self._due.get(worker, due + 1) <= due:
                return
            self._due[worker] = due
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def dismiss(self, worker: BackgroundWorker) -> None:
        """Stop working for `worker`, and wait for the piece of work that was begun."""
        thread, mine = self._thread, threading.current_thread()
        with self._changed:
            if thread is not mine:
                self._changed.wait_for(lambda: self._working_for is not worker, AT_END)
            self._due.pop(worker, None)
            is_over = not self._due and self._working_for is None
            self._changed.notify_all()
        if thread is not None and is_over:
            thread.join(AT_END)

    def end(self) -> None:
        """Stop the thread after the piece of work that it is at."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(AT_END)

    def pause(self) -> None:
        """Wait until the thread is between two pieces of work, and keep it there."""
        if threading.current_thread() is not self._thread:
            with self._changed:
                self._pauses += 1
                self._changed.wait_for(lambda: self._working_for is None, AT_FORK)

    def go_on(self) -> None:
        """Let a paused thread go on."""
        if threading.current_thread() is not self._thread:
            with self._changed:
                self._pauses -= 1
                self._changed.notify_all()

    def _run(self) -> None:
        while (worker := self._next()) is not None:
            try:
                delay = self._work_for(worker)
            finally:
                with self._changed:
                    self._working_for = None
                    self._changed.notify_all()
            if delay is not None:
                self.wake(worker, delay)
            del worker  # or it would live on until there is other work

    def _next(self) -> BackgroundWorker | None:
        """Wait for the next piece of work, which no fork may interrupt; None where there is none, or at the end."""
        with self._changed:
            while self._due and not self._is_over():
                worker = min(self._due, key=self._due.__getitem__, default=None)
                left = None if worker is None or self._pauses else self._due[worker] - time.monotonic()
                if worker is not None and left is not None and left <= 0:
                    del self._due[worker]
                    self._working_for = worker
                    return worker
                del worker
                self._changed.wait(left)
            self._thread = None
        return None

    def _work_for(self, worker: BackgroundWorker) -> float | None:
        try:
            return worker.work()
        except ClosedError:
            return None
        except Exception as error:
            # Held: another process works for the same memory. Without its files nobody misses the index.
            if not (is_taken(error) or self._is_over()) and worker.has_files():
                message = "the background goes on without the index, and tries again: %s"
                warn_hourly(logger, worker.folder, message, safe_summary(error))
            try:
                return worker.fail(error)
            except Exception:  # the journal fails as well; the next call raises that
                return None

    def _is_over(self) -> bool:
        """Return True once the interpreter ends; what it ends first may be missing from then on."""
        return self._ends or not threading.main_thread().is_alive()


background = Background()


def _begin_in_child() -> None:
    background.__init__()  # type: ignore[misc]
    process.leave_to_parent()


def _end() -> None:
    background.end()  # first, or it might start another process
    process.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: background.pause(), after_in_parent=lambda: background.go_on(), after_in_child=_begin_in_child
    )
atexit.register(_end)
