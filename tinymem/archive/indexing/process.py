"""The process in which Chroma runs: it calls functions of `tinymem.archive.indexing.worker`, one after the other.

In the program's own process Chroma would cost it 90 MB, hold its interpreter for .1 seconds at a time, end it where a
file is damaged, hang in forked children, and leave threads behind. So there is one process for all memories of a
program. It starts when one of them first needs it, works while it is asked to, and ends with the last of them, at the
latest: nothing goes on after that.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from filelock import Timeout

import tinymem.errors
from tinymem.archive.indexing.worker import release
from tinymem.errors import StorageError

__all__ = ["EndedError", "can_start", "process"]

logger = logging.getLogger(__name__)

MOST_KILLS = 3  # up to which the next process has twice as long
ENDS_WITHIN = 5.0  # seconds
RELEASES_WITHIN = 10.0  # seconds
LINGER = 30.0  # seconds without a call after which it is not needed
RUN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tinymem.archive.indexing.worker import main; main()"
)
COMMAND = ("-I", "-c", RUN)  # isolated, since nothing in the current folder or the environment may get in the way
# Chroma writes uninitialised memory into new files. With this the C library gives out zeros, and overwrites what is
# given back, so that no vector of another namespace gets there.
CLEAN_MEMORY = {"MALLOC_PERTURB_": "255"}


def can_start() -> bool:
    """Return whether this program can start such a process."""
    return os.name == "posix" and bool(sys.executable)


class EndedError(StorageError):
    """The process has ended, by itself or not; the next call starts another."""


class Process:
    """The process, started when it is first needed. Any number of threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of who waits for an answer
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._due = 0  # answers that nobody has waited for
        self._kills = 0  # of those that did not answer
        self._users: set[Path] = set()
        self._used_at = 0.0

    @property
    def is_running(self) -> bool:
        """True while there is a process."""
        child = self._child
        return child is not None and child.poll() is None

    def call(self, within: float, function: Callable[..., Any], user: Path, *arguments: object) -> Any:
        """Return `function(user, *arguments)`, called in the process; one that gives no answer in time is killed.

        The process does not end by itself until this `user`, a folder, has left.

        Raises:
            TinymemError: The function raised it.
            EndedError: The process ended, or was killed.
            StorageError: Another thread waited for it for all that time (`is_taken`).
        """
        within *= 2 ** min(self._kills, MOST_KILLS)  # a large index on a slow disk takes long
        try:
            return self.ask(within, function, user, *arguments)
        except TimeoutError as error:
            self._kills += 1
            message = f"did not answer within {within:g} seconds, and was killed"
            logger.warning("the process of the index %s; the memory goes on, and starts another", message)
            self._kill()
            raise EndedError(f"the process of the index {message}; the next call starts another") from error

    def ask(self, within: float, function: Callable[..., Any], user: Path, *arguments: object) -> Any:
        """Do as `call`, but let a process that is busy be; then it raises a TimeoutError."""
        until = time.monotonic() + within
        if not self._lock.acquire(timeout=max(0.0, within)):
            raise StorageError("another index is being written") from Timeout("")
        try:
            self._users.add(user)
            pipe = self._started()
            while self._due:
                self._receive(pipe, until)
            self._due += 1
            pipe.send((function, user, *arguments))
            is_done, answer = self._receive(pipe, until)
        except TimeoutError:
            raise
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self._kill()
            raise EndedError("the process of the index has ended; the next call starts another") from error
        except BaseException:  # an interrupt may have come in the middle of an answer
            self._kill()
            raise
        finally:
            self._used_at = time.monotonic()
            self._lock.release()
        if is_done:
            return answer
        name, text, is_taken = answer
        raise getattr(tinymem.errors, name, StorageError)(text) from (Timeout("") if is_taken else None)

    def _receive(self, pipe: Connection, until: float) -> tuple[bool, Any]:
        if not pipe.poll(max(0.0, until - time.monotonic())):
            raise TimeoutError
        self._due -= 1
        answer: tuple[bool, Any] = pipe.recv()
        return answer

    def _started(self) -> Connection:
        """Return the pipe of the process, which is started unless it runs."""
        if self._pipe is not None and self.is_running:
            return self._pipe
        self._kill()
        paths = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        nowhere = subprocess.DEVNULL
        mine, its = Pipe()
        try:
            # A session of its own, so that Ctrl-C does not reach it
            self._child = subprocess.Popen(
                [sys.executable, *COMMAND, paths, str(its.fileno())], pass_fds=[its.fileno()], stdin=nowhere,
                stdout=nowhere, stderr=nowhere, start_new_session=True, env={**os.environ, **CLEAN_MEMORY},
            )  # fmt: skip
        finally:
            its.close()
        self._pipe, self._due = mine, 0
        return mine

    def release(self, user: Path) -> None:
        """Have it close the store of a user who needs it no more. It ends with its last user, or where it hangs."""
        self._users.discard(user)
        if self._users and self.is_running:
            try:
                self.call(RELEASES_WITHIN, release, user)
            except StorageError:
                self.end()
            self._users.discard(user)
        if not self._users:
            self.end()

    def rest(self) -> float | None:
        """End the process if it was not used for a while; the seconds until then, or None if there is none."""
        if not self.is_running:
            return None
        if (left := self._used_at + LINGER - time.monotonic()) <= 0:
            self.end()
        return max(left, 0.0)

    def end(self) -> None:
        """Let the process end after what it does, and wait for that; it is killed where it takes too long."""
        self._users.clear()
        if self._lock.acquire(timeout=ENDS_WITHIN):
            try:
                self._kill(ENDS_WITHIN)
            finally:
                self._lock.release()
        elif self._child is not None:
            self._child.kill()  # and who waits for its answer gets an error

    def _kill(self, within: float = 0.0) -> None:
        """End the process within so many seconds. It sees the end of the pipe, and then dies by itself."""
        pipe, child = self._pipe, self._child
        self._pipe = self._child = None
        if pipe is not None:
            pipe.close()
        if child is None:
            return
        try:
            child.wait(within)
        except subprocess.TimeoutExpired:
            child.kill()
            with suppress(subprocess.TimeoutExpired):
                child.wait(ENDS_WITHIN)

    def leave_to_parent(self) -> None:
        """Let go of the parent's process after a fork: with a pipe open here it would not see the parent's end."""
        if self._pipe is not None:
            self._pipe.close()
        if self._child is not None:
            self._child.returncode = 0  # nobody waits for it here, and nobody is to be warned of that
        self.__init__()  # type: ignore[misc]


process = Process()
