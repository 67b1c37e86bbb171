"""The awaited calls of an object, and the one thread on which they are made: no event loop waits for a disk.

Each call has the signature that it has without `await`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from tinymem.errors import ClosedError
from tinymem.steps.collection import refuse_attribute

if TYPE_CHECKING:  # who awaits has imported asyncio, and no other pays for it
    import asyncio
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Begun", "Facade", "Worker", "awaited", "iterated", "opening"]

PAGE = 500  # items of an iterator that are taken at once


class _Closes(Protocol):
    def close(self) -> None: ...


SyncT = TypeVar("SyncT", bound=_Closes)
SelfT = TypeVar("SelfT", bound="Facade[Any]")
T = TypeVar("T")
P = ParamSpec("P")

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


class Facade(Generic[SyncT]):
    """The awaited calls of an object, which `async with` or `await` opens and `close` closes."""

    _open: Callable[[], SyncT]
    _sync: SyncT | None
    _worker: Worker

    if not TYPE_CHECKING:
        __getattr__ = refuse_attribute

    @classmethod
    def _over(cls: type[SelfT], sync: Any, worker: Worker) -> SelfT:
        """Return the awaited calls of an object that is open."""
        self = cls.__new__(cls)
        self._open, self._sync, self._worker = lambda: sync, sync, worker
        return self

    def _opened(self) -> SyncT:
        """Return the object; ClosedError before it was opened."""
        if self._sync is None:
            raise ClosedError(f"this {type(self).__name__} is not open: use `async with`, or await it first")
        return self._sync

    async def run(self, function: Callable[Concatenate[SyncT, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function with the object without `await`, in its turn on the worker thread.

        Once the call has begun it is awaited to its end, though the task is cancelled meanwhile.
        """
        return await self._worker.run(partial(function, self._opened(), *args, **kwargs))

    async def close(self) -> None:
        """Close it behind the calls that wait, whatever is cancelled meanwhile. Closing twice is no error."""
        await self._worker.run(self._close, "always")

    def _close(self) -> None:
        try:
            if self._sync is not None:
                self._sync.close()
        finally:
            self._worker.end()

    def _take(self) -> None:
        if self._sync is None:
            self._sync = self._open()

    def __await__(self: SelfT) -> Generator[Any, None, SelfT]:
        return self.__aenter__().__await__()

    async def __aenter__(self: SelfT) -> SelfT:
        try:
            await self._worker.run(self._take)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'not open' if self._sync is None else f'over {self._sync!r}'}>"


def opening(
    kind: Callable[P, SyncT],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Facade[SyncT], P], None]]:
    """Make an `__init__` that takes the arguments of a class, and opens one of it on a worker of its own."""

    def decorated(method: Callable[..., None]) -> Callable[Concatenate[Facade[SyncT], P], None]:
        @wraps(kind.__init__)
        def init(self: Facade[SyncT], /, *args: P.args, **kwargs: P.kwargs) -> None:
            self._open, self._sync, self._worker = partial(kind, *args, **kwargs), None, Worker()

        return init

    return decorated


def awaited(
    method: Callable[Concatenate[Any, P], T], begun: Begun = "finish"
) -> Callable[Concatenate[Facade[Any], P], Coroutine[Any, Any, T]]:
    """Make a method awaited; see `Worker.run` for the fate of a call that has `begun`."""

    @wraps(method)
    async def called(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._worker.run(partial(method, self._opened(), *args, **kwargs), begun)

    return called


def iterated(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Facade[Any], P], AsyncIterator[T]]:
    """Make the iterator that a method returns one for `async for`."""

    @wraps(method)
    async def called(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        items = await self._worker.run(partial(method, self._opened(), *args, **kwargs), "abandon")
        while page := await self._worker.run(lambda: list(islice(items, PAGE)), "abandon"):
            for item in page:
                yield item

    return called
