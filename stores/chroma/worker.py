"""The process that runs Chroma for `tinymem.stores.chroma.process`: requests come on stdin, answers go to stdout.

Both are pickles. A request is `(number of a store, method, arguments)`, an answer is `("done", value)` or `("failed",
name of an error of tinymem, its text, True if another process holds the store)`. The process ends when stdin does. With
no store open, it also ends when nothing was asked for a while, or when many stores were opened, since Chroma frees
little of what they took; the next request then starts another.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO

from tinymem.errors import StorageError, TinymemError, safe_summary
from tinymem.stores.chroma.store import ChromaStore

__all__ = ["main"]

IDLE = 15.0  # seconds without a request, and without an open store
MOST = 100  # stores opened in one life


class Worker:
    """The stores of one process, by the numbers that it gave them."""

    def __init__(self) -> None:
        self._stores: dict[int, ChromaStore] = {}
        self._opened = 0

    @property
    def is_spent(self) -> bool:
        """True if the process should make room for another one."""
        return not self._stores and self._opened >= MOST

    @property
    def is_idle(self) -> bool:
        """True if no store is open."""
        return not self._stores

    def answer(self, number: int, method: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Do what a request says."""
        from filelock import Timeout

        try:
            return "done", self._do(number, method, arguments)
        except TinymemError as error:
            return "failed", type(error).__name__, str(error), isinstance(error.__cause__, Timeout)
        except Exception as error:
            return "failed", StorageError.__name__, f"Chroma failed: {safe_summary(error)}", False

    def _do(self, number: int, method: str, arguments: tuple[Any, ...]) -> object:
        if method == "open":
            argument, path = arguments
            self._opened += 1
            self._stores[self._opened] = ChromaStore.from_name(argument, Path(path))
            return self._opened
        if method == "close":
            self._stores.pop(number).close()
            return None
        result: object = getattr(self._stores[number], method)(*arguments)
        return result

    def close(self) -> None:
        """Release the files of all stores."""
        for store in self._stores.values():
            store.close()


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks, which then ends this one
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    worker = Worker()
    try:
        while not worker.is_spent and (not worker.is_idle or _waits(requests)):
            request = pickle.load(requests)
            if _is_orphan(requests):
                break
            pickle.dump(worker.answer(*request), answers)
            answers.flush()
    except (EOFError, BrokenPipeError):
        pass
    finally:
        worker.close()
        sys.stderr.flush()
        os._exit(0)  # the interpreter's end takes longer, with all that Chroma has loaded


def _is_orphan(requests: BinaryIO) -> bool:
    """Tell if nobody waits for an answer any more: who opened a store now would keep others out of it for a moment."""
    if not hasattr(select, "poll"):
        return False
    pipe = select.poll()
    pipe.register(requests, select.POLLIN)
    return any(event & select.POLLHUP for _, event in pipe.poll(0))


def _waits(requests: BinaryIO) -> bool:
    """Wait for a request; False if none comes for long."""
    if os.name != "posix":  # select takes no pipes there
        return True
    return bool(select.select([requests], [], [], IDLE)[0])


if __name__ == "__main__":
    main()
