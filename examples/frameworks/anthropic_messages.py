"""A program that keeps the messages of a conversation with Claude, and sends what fits with what the memory recalls.

    pip install "tinymem-agents[anthropic]"
    export ANTHROPIC_API_KEY=...
    python examples/frameworks/anthropic_messages.py

Without a key, it shows what it would send.
"""

from __future__ import annotations

import os
from typing import Any

from anthropic import Anthropic

from tinymem import HierarchicalMemory
from tinymem.integrations.anthropic import messages_request

MARK = {"type": "ephemeral"}  # prompt caches hold up to the newest messages


def ask(memory: HierarchicalMemory, history: list[Any], text: str, session: str) -> str:
    """Say something to the model, and keep its answer."""
    history.append({"role": "user", "content": text})
    options: Any = {"session": session, "max_tokens": 1_000, "system": "Be brief.", "cache_control": MARK}
    request = messages_request(memory, history, **options)
    if not os.environ.get("ANTHROPIC_API_KEY"):
        return str(request["messages"])
    reply = Anthropic().messages.create(model="claude-sonnet-4-5", max_tokens=1_024, **request)
    history.append({"role": "assistant", "content": reply.content})
    memory.archive_messages(history, session=session, format="anthropic")
    return "".join(block.text for block in reply.content if block.type == "text")


with HierarchicalMemory("./memory") as memory:
    ask(memory, [], "The Vault server of staging listens on port 18443.", "monday")
    print(ask(memory, [], "Which port does Vault listen on in staging?", "tuesday"))
