"""A Strands agent whose memory manager finds what was said in earlier conversations: a recipe to copy.

    pip install tinymem-agents strands-agents
    python examples/frameworks/strands_agent.py

The model is a script that only knows its request. Put yours in its place.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from strands import Agent
from strands.memory import MemoryEntry, MemoryManager, MemoryStore
from strands.models import Model

from tinymem import AsyncHierarchicalMemory, HierarchicalMemory


class Recalling(MemoryStore):
    """A store that recalls, and archives what the manager hands over after each turn."""

    name, description, max_search_results = "tinymem", "What was said in earlier conversations, word for word.", 10
    writable = extraction = True

    def __init__(self, memory: HierarchicalMemory, session: str) -> None:
        self.memory, self.session = AsyncHierarchicalMemory.over(memory), session

    async def search(self, query: str, options: Any = None) -> list[MemoryEntry]:
        """Return what bears on a query."""
        found = await self.memory.recall(query, 1_000)
        return [MemoryEntry(item.text, self.name, {"step": item.step.id}) for item in found if found.is_relevant]

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Archive a text."""
        await self.memory.archive_messages([{"role": "user", "content": content}], session=self.session)

    async def add_messages(self, messages: Sequence[Any], context: Any = None) -> None:
        """Archive the texts of messages."""
        said = [(message["role"], [block.get("text", "") for block in message["content"]]) for message in messages]
        given = [{"role": role, "content": "\n".join(texts)} for role, texts in said if any(texts)]
        await self.memory.archive_messages(given, session=self.session, on_conflict="add")


class Scripted(Model):
    """A model that names the port that it is sent."""

    def update_config(self, **_: Any) -> None:
        """Change nothing."""

    def get_config(self) -> Any:
        """Return no settings."""
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        """Refuse."""
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Answer."""
        found = re.search(r"port (\d+)", str(messages))
        text = f"It is {found[1]}." if found else "I do not know."
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


with HierarchicalMemory("./memory") as memory:
    store = Recalling(memory, "monday")
    asyncio.run(store.add("The Vault server of staging listens on port 18443."))
    agent = Agent(Scripted(), memory_manager=MemoryManager([store]), callback_handler=None)
    print(agent("Which port does Vault listen on in staging?"))
