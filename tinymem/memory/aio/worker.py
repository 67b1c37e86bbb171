"""The one thread on which asyncio programs call a memory, so that no event loop waits for a disk or an embedder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:  # who awaits has imported asyncio, and no other pays for it
    import asyncio
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Begun", "Worker"]

T = TypeVar("T")

Begun: TypeAlias = Literal["abandon", "finish", "always"]


class Worker:
    """A thread that makes one call after the other, for any number of event loops.

    It starts with the first call. Python waits at its end for the calls that it was given, so none is cut in two.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid, self._has_ended = os.getpid(), False

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
        import asyncio

        future = self._submit(call)
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

    def _submit(self, call: Callable[[], T]) -> Future[T]:
        from concurrent.futures import Future, ThreadPoolExecutor

        if os.getpid() != self._pid:  # a forked child has no threads of its parent
            self.__init__()  # type: ignore[misc]
        with self._lock:
            if not self._has_ended:
                self._pool = self._pool or ThreadPoolExecutor(1, "tinymem-calls")
                with suppress(RuntimeError):  # Python ends
                    return self._pool.submit(copy_context().run, call)
        future: Future[T] = Future()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        return future

    def take_over(self, other: Worker) -> None:
        """Go on with the thread of another worker, which ends: with its thread, where this one has its own already."""
        with self._lock, other._lock:
            if self._pool is None and not self._has_ended:
                self._pool, other._pool = other._pool, None
        other.end()

    def end(self) -> None:
        """End the thread once it has made the calls that wait."""
        with self._lock:
            self._has_ended = True
            if self._pool is not None:
                self._pool.shutdown(wait=False)


async def _until(ended: asyncio.Event) -> None:
    """Wait for the end of a call, however often the task is cancelled meanwhile."""
    import asyncio

    while not ended.is_set():
        with suppress(asyncio.CancelledError):
            await ended.wait()
