"""Chroma in a process of its own, which all named stores of this process share.

Importing chromadb takes most of a second of the interpreter, and Chroma's threads do not outlive a fork. A program that
archives in the background would feel both: its own calls would wait, libraries that look into `sys.modules` would find
modules half imported, and children could not use their memories. So `store="chroma"` runs Chroma elsewhere, and a
program that wants it in its own process passes a `ChromaStore`.

Nobody waits for that process for ever: when it does not answer in time, it is killed, which frees the files.
"""

from __future__ import annotations

import atexit
import io
import json
import logging
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import Timeout

import tinymem.errors
from tinymem.errors import ClosedError, StorageError
from tinymem.protocols import Ids, Metadata, Vectors, VectorStore
from tinymem.stores.chroma.store import ChromaStore

__all__ = ["ChromaProcess"]

logger = logging.getLogger(__name__)

ANSWERS_WITHIN = (30.0, 60.0, 120.0, 240.0)  # seconds; more after each kill: a large index on a slow disk takes long
ENDS_WITHIN = 10.0  # seconds
RUN = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tinymem.stores.chroma.worker import main; main()"
COMMAND = ("-I", "-c", RUN)  # isolated, since nothing in the current folder or the environment may get in the way
# Chroma writes uninitialised memory into new files. With this the C library gives out zeros, and overwrites what is
# given back, so that no vector of another namespace gets there.
CLEAN_MEMORY = {"MALLOC_PERTURB_": "255"}


class _EndedError(StorageError):
    """The process has ended, by itself or not."""


class _SilentError(_EndedError):
    """The process did not answer in time, and was killed."""


class ChromaProcess:
    """A `ChromaStore` in the process that all stores of this class share. Any number of threads may use one."""

    def __init__(self, argument: str, path: Path) -> None:
        self._argument, self._path, self._is_closed = argument, path, False
        self._life, self._number = -1, 0  # of the process that has the store open, and its number there
        self._pid = os.getpid()
        with _chroma.lock:
            self._open()

    @classmethod
    def from_name(cls, argument: str, path: Path) -> VectorStore:
        """Return the store that `ChromaStore.from_name` would open here."""
        return cls(argument, path.absolute()) if sys.executable else ChromaStore.from_name(argument, path)

    @property
    def name(self) -> str:
        """The name of the store: `"chroma"`, or `"chroma:http://host:8000"`."""
        return f"chroma:{self._argument}" if self._argument else "chroma"

    def upsert(self, ids: Sequence[int], vectors: Vectors, metadata: Sequence[Metadata] | None = None) -> None:
        """Add or replace vectors, with metadata beside them."""
        self._ask("upsert", list(ids), np.asarray(vectors), None if metadata is None else list(metadata))

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
        """Return ids and cosine similarities of the `k` vectors closest to `vector`, best first."""
        found: tuple[Ids, Vectors] = self._ask("query", np.asarray(vector), k)
        return found

    def delete(self, ids: Sequence[int]) -> None:
        """Remove these ids; unknown ids are no error."""
        self._ask("delete", list(ids))

    def ids(self) -> Ids:
        """Return all ids, in any order."""
        found: Ids = self._ask("ids")
        return found

    def count(self) -> int:
        """Count the vectors."""
        return int(self._ask("count"))

    def clear(self) -> None:
        """Remove everything, the files too."""
        self._ask("clear")

    def close(self) -> None:
        """Release the files; any other call is a ClosedError from then on."""
        if not self._is_closed and os.getpid() == self._pid:
            self._is_closed = True
            with _chroma.lock, suppress(_EndedError):  # its end has released the files too
                if self._life == _chroma.life:
                    _chroma.ask(self._number, "close")

    @staticmethod
    def erase(argument: str, path: Path) -> bool:
        """Delete the files of the store without opening them; False for a server, which has none there.

        The process ends, since it may hold their vectors in its memory; the next call starts another.
        """
        with _chroma.lock:
            _chroma.end()
        return ChromaStore.erase(argument, path)

    def _ask(self, method: str, *arguments: object) -> Any:
        """Return what the store's method returns; another process opens the store again after the end of one."""
        if os.getpid() != self._pid:
            raise StorageError("this store was opened before a fork: open it in the child")
        if self._is_closed:
            raise ClosedError("this store was closed: open it again")
        with _chroma.lock:
            try:
                return self._ask_running(method, *arguments)
            except _SilentError:  # each request may be done twice
                return self._ask_running(method, *arguments)

    def _ask_running(self, method: str, *arguments: object) -> Any:
        _chroma.begin()
        if self._life != _chroma.life:
            self._open()
        return _chroma.ask(self._number, method, *arguments)

    def _open(self) -> None:
        _chroma.begin()
        try:
            self._number = _chroma.ask(0, "open", self._argument, str(self._path))
        except _EndedError:  # it had nothing to do, and ended just now
            _chroma.begin()
            self._number = _chroma.ask(0, "open", self._argument, str(self._path))
        self._life = _chroma.life


class _Chroma:
    """The process, started when it is first needed; `life` counts its starts."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.life = 0
        self._kills = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _patience(self) -> float:
        """The seconds that an answer may take."""
        return ANSWERS_WITHIN[min(self._kills, len(ANSWERS_WITHIN) - 1)]

    def begin(self) -> None:
        """Start the process, unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        self.end()
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        command = [sys.executable, *COMMAND, json.dumps([entry for entry in sys.path if isinstance(entry, str)])]
        try:
            # A session of its own, so that Ctrl-C does not reach it; unbuffered, so that a fork copies nothing unsent
            self._process = subprocess.Popen(
                command, bufsize=0, stdin=pipe, stdout=pipe, stderr=nowhere, start_new_session=True,
                env={**os.environ, **CLEAN_MEMORY},
            )  # fmt: skip
        except OSError as error:
            raise StorageError(f"Chroma's process could not be started: {error}") from error
        assert self._process.stdin is not None
        if os.name == "posix":
            os.set_blocking(self._process.stdin.fileno(), False)  # what it does not read is waited for here
        self.life += 1

    def ask(self, number: int, method: str, *arguments: object) -> Any:
        """Send a request and return what is answered; errors of the store are raised here."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise _EndedError("Chroma's process has ended; the next call starts another")
        try:
            requests, until = process.stdin.fileno(), time.monotonic() + self._patience
            left = memoryview(pickle.dumps((number, method, arguments), pickle.HIGHEST_PROTOCOL))
            while left:
                _wait(requests, "POLLOUT", until)
                left = left[os.write(requests, left) :]
            kind, *answer = pickle.load(io.BufferedReader(_Answers(process.stdout.fileno(), until)))
        except TimeoutError as error:
            raise self._kill(process, method) from error
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            status = self.end()
            raise _EndedError(f"Chroma's process ended (status {status}); the next call starts another") from error
        except BaseException:  # an interrupt: the answer would be taken for that of the next request
            self.end()
            raise
        if kind == "done":
            return answer[0]
        name, text, is_held = answer
        raise getattr(tinymem.errors, name, StorageError)(text) from (Timeout("") if is_held else None)

    def _kill(self, process: subprocess.Popen[bytes], method: str) -> _SilentError:
        """Kill the process, which has not answered, and return the error that says so."""
        message = f"Chroma's process did not answer a request ({method}) within {self._patience:g} seconds"
        process.kill()
        self.end()
        self._kills += 1
        logger.warning("%s, and was killed; the memory goes on, and starts another for its index", message)
        return _SilentError(f"{message}, and was killed; the next call starts another")

    def end(self) -> int | None:
        """End the process, and return its exit status; None where it cannot even be killed."""
        process, self._process = self._process, None
        if process is None:
            return None
        _close_pipes(process)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(ENDS_WITHIN)
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            return process.wait(ENDS_WITHIN)
        return None

    def leave(self) -> None:
        """Let go of the parent's process, after a fork: with a pipe open here it would not see the parent's end."""
        if self._process is not None:
            self._process.returncode = 0  # not ours to wait for
            _close_pipes(self._process)
        self.__init__()  # type: ignore[misc]

    def leave_at_exit(self) -> None:
        """End the process once nobody waits for its answer."""
        is_free = self.lock.acquire(timeout=ENDS_WITHIN)
        try:
            self.end()
        finally:
            if is_free:
                self.lock.release()


class _Answers(io.RawIOBase):
    """The output of a process, read from its pipe; reading after `until` is a TimeoutError."""

    def __init__(self, pipe: int, until: float) -> None:
        self._pipe, self._until = pipe, until

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there, once something is, and return its length."""
        _wait(self._pipe, "POLLIN", self._until)
        part = os.read(self._pipe, len(buffer))
        buffer[: len(part)] = part
        return len(part)


def _wait(pipe: int, event: str, until: float) -> None:
    """Wait until the pipe can be read or written. Raises TimeoutError at `until`, but not where there is no poll."""
    if hasattr(select, "poll"):  # and not select, which takes small numbers of files only
        poll = select.poll()
        poll.register(pipe, getattr(select, event))
        if not poll.poll(max(0.0, until - time.monotonic()) * 1_000):
            raise TimeoutError


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


_chroma = _Chroma()
atexit.register(lambda: _chroma.leave_at_exit())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _chroma.leave())
