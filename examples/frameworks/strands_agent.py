"""A Strands agent whose memory manager finds what was said in earlier conversations.

    pip install "tinymem-agents[strands]"
    python examples/frameworks/strands_agent.py

The model is a script that only knows its request. Put yours in its place.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.memory import MemoryManager
from strands.models import Model

from tinymem import HierarchicalMemory
from tinymem.integrations.strands import TinymemMemoryStore


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
    store = TinymemMemoryStore(memory)
    asyncio.run(store.add("The Vault server of staging listens on port 18443."))
    agent = Agent(Scripted(), memory_manager=MemoryManager([store]), callback_handler=None)
    print(agent("Which port does Vault listen on in staging?"))
