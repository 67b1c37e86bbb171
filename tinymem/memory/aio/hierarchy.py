"""AsyncHierarchicalMemory: a HierarchicalMemory for asyncio programs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, overload

from tinymem.memory.aio.worker import Facade, awaited, iterated, opening
from tinymem.memory.context.context import Shares
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.memory.scratchpad import AgentMemory
from tinymem.steps.content import Content
from tinymem.steps.step import Step, StepT

__all__ = ["AsyncHierarchicalMemory"]


class AsyncHierarchicalMemory(Facade[HierarchicalMemory]):
    """A HierarchicalMemory whose calls are awaited: the same names, arguments, results and errors.

    `async with`, or `await`, opens it. All calls of one memory run on one thread of its own, in the order in which they
    were made, from any event loop, with the context variables of the task. A task that is cancelled waits no longer;
    its call is made to its end all the same: what is added is there, and later calls come behind it.

    `steps`, `tokens`, `system_prompt`, `action_count` and `scratchpad` read the disk, so they are methods here;
    `history` is for `async for`. Other attributes stay as they are. `run` calls a function with the HierarchicalMemory,
    for what else needs one: `await memory.run(debug_memory)`.

    >>> import asyncio
    >>> async def main() -> str:
    ...     async with AsyncHierarchicalMemory() as memory:
    ...         await memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])
    ...         return (await memory.recall("Where is staging?")).text
    >>> "10.0.0.7" in asyncio.run(main())
    True
    """

    @opening(HierarchicalMemory)
    def __init__(self, *args: Any, **options: Any) -> None: ...

    @property
    def memory(self) -> HierarchicalMemory:
        """The HierarchicalMemory below."""
        return self._opened()

    # -- attributes ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The folder."""
        return self.memory.path

    @property
    def namespace(self) -> str:
        """The namespace in the folder."""
        return self.memory.namespace

    @property
    def max_tokens(self) -> int:
        """The tokens of a context, unless `context` is given others."""
        return self.memory.max_tokens

    @property
    def window_tokens(self) -> int:
        """The tokens of the window, about."""
        return self.memory.window_tokens

    @property
    def shares(self) -> Shares:
        """The share of a context that each part gets."""
        return self.memory.shares

    @property
    def closed(self) -> bool:
        """True once it was closed."""
        return self.memory.closed

    # -- in -----------------------------------------------------------------------------------------------------------

    add = awaited(HierarchicalMemory.add)
    add_steps = awaited(HierarchicalMemory.add_steps)
    add_messages = awaited(HierarchicalMemory.add_messages)
    add_message = awaited(HierarchicalMemory.add_message)
    archive = awaited(HierarchicalMemory.archive)
    archive_messages = awaited(HierarchicalMemory.archive_messages)
    apply_redaction = awaited(HierarchicalMemory.apply_redaction)
    mark = awaited(HierarchicalMemory.mark)
    correct = awaited(HierarchicalMemory.correct)

    # -- the window ---------------------------------------------------------------------------------------------------

    async def steps(self) -> tuple[Step, ...]:
        """Return the steps of the window, oldest first."""
        return await self.run(lambda memory: memory.steps)

    async def tokens(self) -> int:
        """Count the tokens of `to_messages()` by the memory's own counter."""
        return await self.run(lambda memory: memory.tokens)

    async def system_prompt(self) -> Content | None:
        """Return the newest system prompt in the window, or None."""
        return await self.run(lambda memory: memory.system_prompt)

    async def action_count(self) -> int:
        """Count the ActionSteps that are in the window."""
        return await self.run(lambda memory: memory.action_count)

    @overload
    async def get_steps_by_type(self, kind: type[StepT]) -> list[StepT]: ...
    @overload
    async def get_steps_by_type(self, kind: str) -> list[Step]: ...
    async def get_steps_by_type(self, kind: type[Step] | str) -> list[Any]:
        """Find the steps of the window of one type, in order; arguments and errors as without `await`."""
        return await self.run(lambda memory: memory.get_steps_by_type(kind))

    to_messages = awaited(HierarchicalMemory.to_messages)
    prune = awaited(HierarchicalMemory.prune)
    clear = awaited(HierarchicalMemory.clear)
    restore = awaited(HierarchicalMemory.restore)

    # -- out ----------------------------------------------------------------------------------------------------------

    context = awaited(HierarchicalMemory.context)
    fit = awaited(HierarchicalMemory.fit)
    recall = awaited(HierarchicalMemory.recall)
    explain = awaited(HierarchicalMemory.explain)
    open = awaited(HierarchicalMemory.open)
    get = awaited(HierarchicalMemory.get)
    history = iterated(HierarchicalMemory.history)
    tools = awaited(HierarchicalMemory.tools)
    stats = awaited(HierarchicalMemory.stats)

    async def scratchpad(self) -> AgentMemory:
        """Return the agent's scratchpad. Its updates write to the disk: make them in a function given to `run`."""
        return await self.run(lambda memory: memory.scratchpad)

    # -- upkeep -------------------------------------------------------------------------------------------------------

    flush = awaited(HierarchicalMemory.flush)
    export = awaited(HierarchicalMemory.export)
    forget = awaited(HierarchicalMemory.forget)
    retain = awaited(HierarchicalMemory.retain)

    @staticmethod
    async def forget_namespace(path: str | Path, namespace: str) -> None:
        """Remove a namespace for good, as `HierarchicalMemory.forget_namespace` does."""
        await asyncio.to_thread(HierarchicalMemory.forget_namespace, path, namespace)
