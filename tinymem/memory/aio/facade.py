"""The awaited calls of an object: each runs on the object's worker, under the signature that it has without `await`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from functools import partial, wraps
from itertools import islice
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from tinymem.errors import ClosedError
from tinymem.memory.aio.worker import Begun, Worker

__all__ = ["Facade", "awaited", "iterated", "opening"]

PAGE = 500  # items of an iterator that are taken at once


class _Closes(Protocol):
    def close(self) -> None: ...


SyncT = TypeVar("SyncT", bound=_Closes)
SelfT = TypeVar("SelfT", bound="Facade[Any]")
T = TypeVar("T")
P = ParamSpec("P")


class Facade(Generic[SyncT]):
    """The awaited calls of an object, which `async with` or `await` opens and `close` closes."""

    _open: Callable[[], SyncT]
    _sync: SyncT | None
    _worker: Worker

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
