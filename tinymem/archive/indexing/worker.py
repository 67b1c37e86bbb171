"""The work of the index's process (`tinymem.archive.indexing.process`), which has one store open at a time.

It reads the journals by itself, and ends when the pipe does.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from tinymem.archive.folders import INDEX
from tinymem.archive.indexing.mirror import Mirror
from tinymem.archive.indexing.notes import is_taken
from tinymem.errors import StorageError, TinymemError, safe_summary
from tinymem.protocols import Journal
from tinymem.stores.journals import open_journal

__all__ = ["follow", "main", "release"]

TURN = 1.0  # seconds after which others have their turn

_open: dict[tuple[Path, str], Mirror] = {}


def follow(folder: Path, name: str) -> bool:
    """Have the store of a journal follow it for a turn; False once it has everything, and is closed."""
    mirror, until = _mirror_of(folder, name), time.monotonic() + TURN
    while mirror.advance():
        if time.monotonic() > until:
            return True
    release(folder)
    return False


def release(folder: Path) -> None:
    """Let go of a folder."""
    for key in [*_open]:
        if key[0] == folder:
            _open.pop(key).end()


def _mirror_of(folder: Path, name: str) -> Mirror:
    for other, _ in {*_open} - {(folder, name)}:
        release(other)
    return _open.setdefault((folder, name), Mirror(name, folder / INDEX, partial(_reading, folder)))


@contextmanager
def _reading(folder: Path) -> Iterator[Journal]:
    """Open a journal for a moment, so that nobody finds it in use."""
    with closing(open_journal(folder, create=False, read_only=True)) as journal:
        yield journal


def _answer(function: Callable[..., object], *arguments: object) -> tuple[bool, object]:
    """Return True and what a function returns, or False, the name of its error, its text, and if it `is_taken`."""
    try:
        return True, function(*arguments)
    except TinymemError as error:
        return False, (type(error).__name__, str(error), is_taken(error))
    except Exception as error:
        return False, (StorageError.__name__, safe_summary(error), False)


def main() -> None:
    """Answer the program at the other end of the pipe whose number is the last argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program
    pipe = Connection(int(sys.argv[-1]))
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_answer(*pipe.recv()))
    os._exit(0)  # the interpreter's end takes longer
