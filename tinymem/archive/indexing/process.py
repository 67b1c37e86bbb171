"""The process that this program's mirrors run in (`tinymem.archive.indexing.worker`), and what it is told and asked.

Importing chromadb takes most of a second of the interpreter, and Chroma's threads do not outlive a fork. A program that
archives in the background would feel both: its own calls would wait, libraries that look into `sys.modules` would find
modules half imported, and children could not use their memories.

The process goes on after the end of the program, until its mirrors have all that they lack.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any

from filelock import Timeout

import tinymem.errors
from tinymem.errors import StorageError

__all__ = ["EndedError", "can_start", "process"]

logger = logging.getLogger(__name__)

ANSWERS_WITHIN = (30.0, 60.0, 120.0, 240.0)  # seconds; more after each kill: a large index on a slow disk takes long
ENDS_WITHIN = 10.0  # seconds
SENT_WITHIN = 0.1  # seconds
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
    """The process has ended, by itself or not; the next request starts another."""


class Process:
    """The process, started when it is first needed. Any number of threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._child: subprocess.Popen[bytes] | None = None
        self._left: list[subprocess.Popen[bytes]] = []  # which end by themselves
        self._pipe: Connection | None = None
        self._asked = 0  # the number of the last request
        self._kills = 0

    @property
    def is_running(self) -> bool:
        """True while there is a process."""
        return self._child is not None and self._child.poll() is None

    def tell(self, *request: object) -> None:
        """Send a request that has no answer; where the process is busy, it is not sent."""
        with suppress(StorageError, TimeoutError), self._lock:
            self._send(0, request)

    def ask(self, *request: object, within: float | None = None) -> Any:
        """Return the answer to a request. A process that does not give one in time is killed, unless `within` is given.

        Raises:
            TinymemError: The process raised it, ended, or was killed.
            TimeoutError: There is no answer `within` so many seconds, or another thread asks just now.
        """
        patience = ANSWERS_WITHIN[min(self._kills, len(ANSWERS_WITHIN) - 1)] if within is None else within
        if not self._lock.acquire(timeout=-1 if within is None else within):
            raise TimeoutError
        try:
            self._asked += 1
            self._send(self._asked, request)
            return self._answer(self._asked, time.monotonic() + patience)
        except TimeoutError as error:
            if within is not None:
                raise
            raise self._kill(f"did not answer a request ({request[0]}) within {patience:g} seconds") from error
        finally:
            self._lock.release()

    def _send(self, number: int, request: tuple[object, ...]) -> None:
        """Send a request. Raises TimeoutError where the process does not read."""
        pipe = self._begin()
        writable = select.poll()  # and not select, which takes small numbers of files only
        writable.register(pipe, select.POLLOUT)
        if not writable.poll(SENT_WITHIN * 1_000):
            raise TimeoutError
        try:
            pipe.send((number, *request))
        except OSError as error:
            self._leave()
            raise EndedError("the process of the index has ended; the next call starts another") from error

    def _answer(self, number: int, until: float) -> Any:
        """Return the answer to the request with this number, and drop those that came too late."""
        answered, kind = 0, ""
        value: Any = None
        try:
            while answered != number:
                if self._pipe is None or not self._pipe.poll(max(0.0, until - time.monotonic())):
                    raise TimeoutError
                answered, kind, value = self._pipe.recv()
        except TimeoutError:
            raise
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self._leave()
            raise EndedError("the process of the index has ended; the next call starts another") from error
        except BaseException:  # an interrupt may have come in the middle of an answer
            self._leave()
            raise
        if kind == "done":
            return value
        name, text, is_taken = value
        raise getattr(tinymem.errors, name, StorageError)(text) from (Timeout("") if is_taken else None)

    def _begin(self) -> Connection:
        """Return the pipe of the process, which is started unless it runs."""
        if self._pipe is not None and self.is_running:
            return self._pipe
        self._leave()
        self._left = [child for child in self._left if child.poll() is None]
        paths = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        nowhere = subprocess.DEVNULL
        mine, its = Pipe()
        try:
            # A session of its own, so that Ctrl-C does not reach it
            self._child = subprocess.Popen(
                [sys.executable, *COMMAND, paths, str(its.fileno())], pass_fds=[its.fileno()], stdin=nowhere,
                stdout=nowhere, stderr=nowhere, start_new_session=True, env={**os.environ, **CLEAN_MEMORY},
            )  # fmt: skip
        except OSError as error:
            raise StorageError(f"the process of the index could not be started: {error}") from error
        finally:
            its.close()
        self._pipe = mine
        return mine

    def end(self) -> None:
        """End the process, so that it lets go of all folders; it is killed where it takes too long."""
        with self._lock:
            if self._child is None or not self.is_running:
                return
            self.tell("end")
            try:
                self._child.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                self._kill(f"did not end within {ENDS_WITHIN:g} seconds")
            self._leave()

    def stop(self) -> None:
        """End the process at once, whatever it does, also where a thread waits for its answer, which gets an error.

        Those that were left to end by themselves end as well.
        """
        for child in (self._child, *self._left):
            if child is not None:
                child.kill()
                with suppress(subprocess.TimeoutExpired):
                    child.wait(ENDS_WITHIN)

    def _kill(self, why: str) -> StorageError:
        """Kill the process, and return the error that says why."""
        if self._child is not None:
            self._child.kill()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(ENDS_WITHIN)
        self._leave()
        self._kills += 1
        logger.warning("the process of the index %s, and was killed; the memory goes on, and starts another", why)
        return EndedError(f"the process of the index {why}, and was killed; the next call starts another")

    def _leave(self) -> None:
        """Let the process do what it has to do, and end."""
        if self._pipe is not None:
            self._pipe.close()
        if self._child is not None:
            self._left.append(self._child)
        self._pipe = self._child = None

    def leave_for_good(self) -> None:
        """Let go of the process at the end of this one, and of the parent's after a fork.

        With a pipe open in the child, the process would not see the parent's end.
        """
        self._leave()
        for child in self._left:
            child.returncode = 0  # nobody waits for it, and nobody is to be warned of that
        self.__init__()  # type: ignore[misc]


process = Process()
