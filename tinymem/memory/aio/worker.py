"""The one thread on which asyncio programs call a memory, so that no event loop waits for a disk or an embedder."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from tinymem.memory.base import BaseMemory

__all__ = ["Begun", "Worker", "worker_of"]

T = TypeVar("T")

Begun: TypeAlias = Literal["abandon", "finish", "always"]

_guard = threading.Lock()


class Worker:
    """A thread that makes one call after the other, for any number of event loops.

    It starts with the first call. Python waits at its end for the calls that it was given, so none is cut in two.
    """

    def __init__(self) -> None:
        self._pid, self._pool = os.getpid(), ThreadPoolExecutor(1, "tinymem-calls")

    async def run(
        self, call: Callable[[], T], begun: Begun = "finish", undo: Callable[[T], object] = lambda _: None
    ) -> T:
        """Make a call in its turn, with the context variables of the task that awaits it.

        Args:
            call: The call. Behind `end` it is made at once: a closed memory refuses it without waiting.
            begun: The fate of a call whose task is cancelled. One that has not begun is withdrawn. With `"finish"`, one
                that has begun is awaited to its end before CancelledError is raised; with `"abandon"`, nobody waits for
                it; with `"always"`, it is made and awaited even where it has not begun.
            undo: Called with the result of a call that was abandoned.
        """
        future = self._submitted(call)
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def end(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                loop.call_soon_threadsafe(ended.set)

        future.add_done_callback(end)
        try:
            try:
                await ended.wait()
            except asyncio.CancelledError as cancelled:
                if begun == "abandon":
                    if not future.cancel():
                        future.add_done_callback(lambda done: None if done.exception() else undo(done.result()))
                elif begun == "always" or not future.cancel():
                    await _until(ended)
                    raise cancelled from future.exception()
                raise
            return future.result()
        finally:
            del future  # or an error would hold itself by its own trace

    def _submitted(self, call: Callable[[], T]) -> Future[T]:
        if os.getpid() != self._pid:  # a forked child has no threads of its parent
            self.__init__()  # type: ignore[misc]
        try:
            return self._pool.submit(copy_context().run, call)
        except RuntimeError:
            future: Future[T] = Future()
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)
            return future

    def end(self) -> None:
        """End the thread once it has made the calls that wait."""
        self._pool.shutdown(wait=False)


async def _until(ended: asyncio.Event) -> None:
    """Wait for the end of a call, however often the task is cancelled meanwhile."""
    while not ended.is_set():
        with suppress(asyncio.CancelledError):
            await ended.wait()


def worker_of(memory: BaseMemory, worker: Worker | None = None) -> Worker:
    """Return the worker of a memory, which has only one; `worker` is used where it has none yet, and else ended."""
    with _guard:
        if memory._worker is None:
            memory._worker = worker or Worker()
    if worker is not None and memory._worker is not worker:
        worker.end()
    return memory._worker
