"""A memory of LlamaIndex with a block that recalls what left its short-term memory, and other conversations: a recipe.

    pip install tinymem-agents llama-index-core
    python examples/frameworks/llama_index_memory.py

Give the memory to an agent: `await agent.run("...", memory=memory)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.memory.memory import BaseMemoryBlock

from tinymem import AsyncHierarchicalMemory, HierarchicalMemory


class Recalling(BaseMemoryBlock):
    """Recalls what bears on the newest message of the user, and archives what leaves the short-term memory."""

    memory: Any  # an AsyncHierarchicalMemory
    session: str
    name: str = "tinymem"

    async def _aget(self, messages: Sequence[Any] | None = None, **_: Any) -> str:
        asked = [message.content for message in messages or () if message.role == "user" and message.content]
        return (await self.memory.recall(asked[-1], 1_000)).text if asked else ""

    async def _aput(self, messages: Sequence[Any]) -> None:
        said = [{"role": str(each.role.value), "content": each.content} for each in messages if each.content]
        await self.memory.archive_messages(said, session=self.session, on_conflict="add")

    async def atruncate(self, content: str, tokens_to_truncate: int) -> None:
        """Leave the block out where the budget of the framework has no room for it."""


def framework(own: HierarchicalMemory, session: str) -> Memory:
    """Make a short memory of LlamaIndex."""
    block = Recalling(memory=AsyncHierarchicalMemory.over(own), session=session)
    return Memory.from_defaults(
        session_id=session, token_limit=400, chat_history_token_ratio=0.2, memory_blocks=[block]
    )


async def main() -> None:
    """Tell one session, let that be pushed out, and ask another."""
    with HierarchicalMemory("./memory") as own:
        monday, tuesday = framework(own, "monday"), framework(own, "tuesday")
        await monday.aput(ChatMessage(role="user", content="The Vault server of staging listens on port 18443."))
        for at in range(12):
            await monday.aput(ChatMessage(role="assistant", content=f"Noted, line {at}."))
            await monday.aput(ChatMessage(role="user", content=f"Line {at} of the log is quiet."))
        await tuesday.aput(ChatMessage(role="user", content="Which port does Vault listen on in staging?"))
        for message in await tuesday.aget():
            print(message.content)


asyncio.run(main())
