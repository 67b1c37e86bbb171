"""A memory of LlamaIndex with a block that recalls what left its short-term memory, and other conversations.

    pip install "tinymem-agents[llama-index]"
    python examples/frameworks/llama_index_memory.py

Give the memory to an agent: `await agent.run("...", memory=memory)`.
"""

from __future__ import annotations

import asyncio

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from tinymem import HierarchicalMemory
from tinymem.integrations.llama_index import TinymemMemoryBlock


def framework(own: HierarchicalMemory, session: str) -> Memory:
    """Make a short memory of LlamaIndex."""
    block = TinymemMemoryBlock(memory=own)
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
