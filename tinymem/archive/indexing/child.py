"""A process that does one thing for a memory and ends: it has a store follow the journal, or examines one.

In the program's own process Chroma would cost it 120 MB, hold its interpreter, end it where a file is damaged, hang in
forked children, and leave threads behind after the memory is closed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from tinymem.archive.folders import INDEX
from tinymem.archive.indexing.mirror import Mirror
from tinymem.errors import StorageError, TakenError, TinymemError, safe_summary
from tinymem.protocols import Journal
from tinymem.stores.journals import open_journal

__all__ = ["Child", "EndedError", "can_start", "follow", "main"]

ENDS_WITHIN = 5.0  # seconds until one that was told to end is killed
STUCK = 60.0  # seconds after which one that has written nothing ends by itself
RUN = (
    "import json, sys; sys.path[:], *call = json.loads(sys.argv[1]); "
    "from tinymem.archive.indexing.child import main; main(*call)"
)
# Chroma writes uninitialised memory into new files. With this the C library gives out zeros, and overwrites what is
# given back, so that no vector of another namespace gets there.
CLEAN_MEMORY = {"MALLOC_PERTURB_": "255"}

_is_told_to_end = threading.Event()


def can_start() -> bool:
    """Return whether this program can start such a process."""
    return os.name == "posix" and bool(sys.executable)


class EndedError(StorageError):
    """The process has ended without an answer; another one may do better."""


class Child:
    """A process that calls `function(folder, name)`, whose result is JSON, and ends."""

    newest: ClassVar[Child | None] = None  # of this program

    def __init__(self, function: Callable[[str, str], Any], folder: Path, name: str) -> None:
        paths = [entry for entry in sys.path if isinstance(entry, str)]
        call = json.dumps([paths, function.__module__, function.__name__, str(folder.absolute()), name])
        self.began = time.monotonic()
        # Isolated, since nothing in the current folder or the environment may get in the way, and in a session of its
        # own, so that Ctrl-C does not reach it.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", RUN, call], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, **CLEAN_MEMORY},
        )  # fmt: skip
        Child.newest = self

    def runs(self, within: float = 0.0) -> bool:
        """Wait for its end so many seconds, and return whether it still runs."""
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return True
        return False

    def answer(self) -> Any:
        """Return the result of one that has ended.

        Raises:
            TakenError, StorageError: The function raised it.
            EndedError: It ended without an answer.
        """
        lines = self._process.communicate()[0].splitlines()
        if self._process.returncode or not lines:
            code = self._process.returncode
            raise EndedError(f"the process of the index has ended ({code}); the next call starts another")
        answer, fault, is_taken = json.loads(lines[-1])
        if fault:
            raise (TakenError if is_taken else StorageError)(fault)
        return answer

    def end(self, within: float = ENDS_WITHIN) -> None:
        """Have it end after what it does, or kill it after so many seconds."""
        self._process.terminate()
        if self.runs(within):
            self._process.kill()
        self._process.communicate()


# -- in the child -----------------------------------------------------------------------------------------------------


def main(module: str, function: str, *arguments: str) -> None:
    """Call a function, and print what came of it: its result, its fault, and whether another process is the reason."""
    signal.signal(signal.SIGTERM, lambda *_: _is_told_to_end.set())
    said: tuple[Any, str, bool]
    try:
        said = getattr(import_module(module), function)(*arguments), "", False
    except Exception as error:
        fault = str(error) if isinstance(error, TinymemError) else safe_summary(error)
        said = None, fault, isinstance(error, TakenError)
    sys.stdout.write(json.dumps(said))
    sys.stdout.flush()
    os._exit(0)  # the interpreter's end takes longer


def follow(folder: str, name: str) -> None:
    """Have the store of a journal follow it until it has all, or the program ends, or wants this to end."""
    program = os.getppid()

    def is_over() -> bool:
        faulthandler.dump_traceback_later(STUCK, exit=True)
        return _is_told_to_end.is_set() or os.getppid() != program

    if not is_over():
        Mirror(name, Path(folder) / INDEX, partial(_reading, Path(folder))).follow(is_over)


@contextmanager
def _reading(folder: Path) -> Iterator[Journal]:
    """Open a journal for a moment, so that nobody finds it in use."""
    with closing(open_journal(folder, create=False, read_only=True)) as journal:
        yield journal
