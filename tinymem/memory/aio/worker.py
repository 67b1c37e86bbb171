"""The awaited calls of an object, and the one thread on which they are made: no event loop waits for a disk.

Each call has the signature that it has without `await`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from tinymem.errors import ClosedError
from tinymem.steps.collection import refuse_attribute

__all__ = ["Facade", "Worker", "awaited", "iterated", "opening"]

PAGE = 500  # items of an iterator that are taken at once


class _Closes(Protocol):
    def close(self) -> None: ...


SyncT = TypeVar("SyncT", bound=_Closes)
SelfT = TypeVar("SelfT", bound="Facade[Any]")
T = TypeVar("T")
P = ParamSpec("P")


class Worker:
    """A thread that makes one call after the other, for any number of event loops; it starts with the first.

    Python waits at its end for the calls that it was given, so none is cut in two.
    """

    def __init__(self) -> None:
        self._pools: dict[int, ThreadPoolExecutor] = {}  # by process: a forked child has no threads of its parent

    @property
    def _pool(self) -> ThreadPoolExecutor:
        return self._pools.setdefault(os.getpid(), ThreadPoolExecutor(1, "tinymem-calls"))

    async def run(self, call: Callable[[], T]) -> T:
        """Make a call in its turn, with the context variables of the task that awaits it.

        A task that is cancelled waits no longer; the call is made to its end all the same.
        """
        import asyncio  # who awaits has imported it, and no other pays for it

        try:
            future = self._pool.submit(copy_context().run, call)
        except RuntimeError:  # behind `end`, where a closed memory refuses the call; or Python ends
            return call()
        return await asyncio.shield(asyncio.wrap_future(future))

    def end(self) -> None:
        """End the thread once it has made the calls that wait."""
        self._pool.shutdown(wait=False)


class Facade(Generic[SyncT]):
    """The awaited calls of an object, which `async with` or `await` opens and `close` closes."""

    _open: Callable[[], SyncT]
    _sync: SyncT | None
    _opener: Worker

    if not TYPE_CHECKING:
        __getattr__ = refuse_attribute

    @classmethod
    def over(cls: type[SelfT], sync: SyncT) -> SelfT:
        """Return the awaited calls of one that is open.

        However often this is called, all calls of one memory run on one thread, which ends when the memory is closed.
        """
        self = cls.__new__(cls)
        self._sync, self._opener = sync, Worker()
        return self

    @property
    def _worker(self) -> Worker:
        return getattr(self._sync, "_worker", self._opener)

    def _opened(self) -> SyncT:
        """Return the object; ClosedError before it was opened."""
        if self._sync is None:
            raise ClosedError(f"this {type(self).__name__} is not open: use `async with`, or await it first")
        return self._sync

    async def run(self, function: Callable[Concatenate[SyncT, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function with the object without `await`, in its turn on the worker thread."""
        return await self._worker.run(partial(function, self._opened(), *args, **kwargs))

    async def close(self) -> None:
        """Close it behind the calls that wait. Closing twice is no error."""
        await self._worker.run(self._close)

    def _close(self) -> None:
        try:
            if self._sync is not None:
                self._sync.close()
        finally:
            self._opener.end()

    def _take(self) -> None:
        if self._sync is None:
            self._sync = self._open()
            if self._worker is not self._opener:
                self._opener.end()

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

    def init(self: Facade[SyncT], /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._open, self._sync, self._opener = partial(kind, *args, **kwargs), None, Worker()

    return lambda method: wraps(kind.__init__)(init)


def awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Facade[Any], P], Coroutine[Any, Any, T]]:
    """Make a method awaited."""

    @wraps(method)
    async def called(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._worker.run(partial(getattr(self._opened(), method.__name__), *args, **kwargs))

    return called


def iterated(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Facade[Any], P], AsyncIterator[T]]:
    """Make the iterator that a method returns one for `async for`."""

    @wraps(method)
    async def called(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        items = await self.run(method, *args, **kwargs)
        while page := await self._worker.run(lambda: list(islice(items, PAGE))):
            for item in page:
                yield item

    return called
