"""AsyncMemories: the memories of many users for asyncio programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tinymem.memory.aio.hierarchy import AsyncHierarchicalMemory
from tinymem.memory.aio.worker import Facade, Worker, awaited, opening
from tinymem.memory.memories import Memories

__all__ = ["AsyncMemories"]


class AsyncMemories(Facade[Memories]):
    """Memories whose calls are awaited; `async with` opens them, and `open` lends an AsyncHierarchicalMemory.

    >>> import asyncio, tempfile
    >>> from tinymem import MessageStep
    >>> async def main() -> list[str]:
    ...     async with AsyncMemories(tempfile.mkdtemp(), max_open=2) as memories:
    ...         for name in ("ann", "bob", "cid"):
    ...             async with memories.open(name) as memory:
    ...                 await memory.add(MessageStep("user", f"I am {name}."))
    ...         return await memories.namespaces()
    >>> asyncio.run(main())
    ['ann', 'bob', 'cid']
    """

    @opening(Memories)
    def __init__(self, *args: Any, **options: Any) -> None: ...

    @property
    def memories(self) -> Memories:
        """The Memories below."""
        return self._opened()

    @property
    def path(self) -> Path | str:
        """The folder, or the address without its password."""
        return self.memories.path

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[AsyncHierarchicalMemory]:
        """Lend the memory of a namespace for an `async with` block, as `Memories.open` does; other calls go on."""
        lent, worker = self.memories.open(namespace), Worker()
        try:
            yield AsyncHierarchicalMemory.over(await worker.run(lent.__enter__))
        finally:
            try:
                await worker.run(partial(lent.__exit__, None, None, None))
            finally:
                worker.end()

    namespaces = awaited(Memories.namespaces)

    def __len__(self) -> int:
        """The number of namespaces that are open."""
        return len(self.memories)
