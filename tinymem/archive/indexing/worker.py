"""The process that runs the mirrors of a program (`tinymem.archive.indexing.process`).

It reads the journals by itself, and is told which ones to follow. A request is `(number, method, arguments...)`, with
the number 0 where nobody waits for the answer. An answer is `(number, "done", value)` or `(number, "failed", (name of
an error of tinymem, its text, True if another process has the index))`. After the end of the program it does what is
left to do. With nothing to follow, it ends when nothing was asked for a while.

Where something was forgotten, it ends at once: it may hold the vectors in its memory, and the next one begins with new
files.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tinymem.archive.folders import INDEX
from tinymem.archive.indexing.mirror import Mirror
from tinymem.archive.indexing.notes import is_taken
from tinymem.errors import StorageError, TinymemError, safe_summary
from tinymem.protocols import Ids, Journal, Vectors
from tinymem.stores.journals import has_journal, open_journal

__all__ = ["main"]

LOOK = 0.25  # seconds between two looks if a journal has more
LINGER, ASKED = 2.0, 300.0  # seconds that a store stays open when there is nothing to write, and when it was last asked
HELD, LONGEST_HELD = 1.0, 30.0  # seconds until a store is tried again that another process has, or that fails
IDLE = 15.0  # seconds without a request and without a journal to follow


class Followed:
    """A journal that is followed, and what its mirror is needed for."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = Path(folder)
        self.mirror = Mirror(name, self._folder / INDEX, self._reading)
        self.asked_at, self.used_at = -inf, time.monotonic()
        self.pause, self.paused_until = HELD, 0.0  # where it fails
        self.is_closed = False  # nobody in the program has the memory open any more

    @contextmanager
    def _reading(self) -> Iterator[Journal]:
        """Open the journal for a moment, so that nobody finds it in use."""
        with closing(open_journal(self._folder, create=False, read_only=True)) as journal:
            yield journal

    @property
    def is_needed(self) -> bool:
        """True if somebody is likely to need the store soon."""
        now = time.monotonic()
        return not self.is_closed and (now - self.used_at < LINGER or now - self.asked_at < ASKED)

    def advance(self) -> None:
        """Give the store a batch. Raises what the store raises."""
        try:
            self.mirror.follow()
        except Exception as error:
            self.pause = HELD if is_taken(error) else min(2 * self.pause, LONGEST_HELD)
            self.paused_until = time.monotonic() + self.pause
            if is_taken(error) or not has_journal(self._folder):
                self.mirror.close()
            else:
                self.mirror.fail(safe_summary(error))
            raise
        self.used_at, self.pause, self.paused_until = time.monotonic(), HELD, 0.0


class IndexWorker:
    """The mirrors of one program, which asks through a pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._followed: dict[tuple[str, str], Followed] = {}
        self._is_alone = self._is_over = False  # the program has ended; this process is to end
        self._asked_at = time.monotonic()

    def run(self) -> None:
        """Follow journals and answer requests until there are no more."""
        while not self._is_over:
            busy = [self._work(key, followed) for key, followed in [*self._followed.items()]]
            self._listen(0.0 if any(busy) else LOOK)
            if not self._followed and (self._is_alone or time.monotonic() - self._asked_at > IDLE):
                self._is_over = True

    def _work(self, key: tuple[str, str], followed: Followed) -> bool:
        """Give a store a batch, or let go of what nobody needs; False where there was nothing to do."""
        if time.monotonic() < followed.paused_until and not followed.is_closed:
            return False
        try:
            is_open = followed.mirror.is_open
            self._is_over |= is_open and followed.mirror.is_outdated()
            if self._is_over:
                return False
            if followed.mirror.lacks() or (not is_open and followed.asked_at > followed.used_at):
                followed.advance()
                return True
            if is_open and followed.is_needed:
                return False
        except Exception:  # which is noted, or another process does the work
            if not followed.is_closed and has_journal(Path(key[0])):
                return False
        followed.mirror.close()
        del self._followed[key]
        return False

    # -- requests -----------------------------------------------------------------------------------------------------

    def _listen(self, patience: float) -> None:
        """Answer what is asked, and wait so many seconds for that."""
        if self._is_alone:
            time.sleep(patience)
            return
        try:
            while self._pipe.poll(patience):
                number, method, *arguments = self._pipe.recv()
                answer = self._answer(getattr(self, method), arguments)
                if number:
                    self._pipe.send((number, *answer))
                self._asked_at, patience = time.monotonic(), 0.0
        except (EOFError, OSError):
            self._is_alone = True
            for followed in self._followed.values():
                followed.is_closed = True

    def _answer(self, method: Callable[..., object], arguments: list[Any]) -> tuple[str, object]:
        try:
            return "done", method(*arguments)
        except TinymemError as error:
            return "failed", (type(error).__name__, str(error), is_taken(error))
        except Exception as error:
            return "failed", (StorageError.__name__, safe_summary(error), False)

    def _of(self, folder: str, name: str) -> Followed:
        return self._followed.setdefault((folder, name), Followed(folder, name))

    def follow(self, folder: str, name: str) -> None:
        """Follow a journal from now on."""
        self._of(folder, name).is_closed = False

    def advance(self, folder: str, name: str) -> None:
        """Give a store a batch now. Raises what the store raises."""
        self._of(folder, name).advance()

    def query(self, folder: str, name: str, vector: Vectors, k: int) -> tuple[Ids, Vectors, int] | None:
        """Return what is nearest, as `Mirror.query`; a store that is not open is opened then."""
        followed = self._of(folder, name)
        followed.asked_at = time.monotonic()
        return followed.mirror.query(vector, k)

    def finish(self, folder: str, name: str) -> None:
        """Do what is left to do for a memory that was closed, and let go of its folder."""
        if (folder, name) in self._followed:
            self._followed[folder, name].is_closed = True

    def call(self, function: Callable[..., object], *arguments: object) -> object:
        """Return what a function returns that may end the process."""
        return function(*arguments)

    def end(self) -> None:
        """End at once."""
        self._is_over = True


def main() -> None:
    """Work for the program at the other end of the pipe whose number is the last argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program
    try:
        IndexWorker(Connection(int(sys.argv[-1]))).run()
    finally:
        os._exit(0)  # the interpreter's end takes longer, and so does closing what is deleted now
