"""A program that keeps the history of a chat, and sends what fits of it with what the memory recalls.

    pip install "tinymem-agents[openai]"
    export OPENAI_API_KEY=...
    python examples/frameworks/openai_chat.py

Without a key, it shows what it would send.
"""

from __future__ import annotations

import os
from typing import Any

from openai import OpenAI

from tinymem import HierarchicalMemory
from tinymem.integrations.openai import chat_request


def ask(memory: HierarchicalMemory, history: list[Any], text: str, session: str) -> str:
    """Say something to the model, and keep its answer."""
    history.append({"role": "user", "content": text})
    request = chat_request(memory, history, session=session, max_tokens=1_000)
    if not os.environ.get("OPENAI_API_KEY"):
        return "\n".join(message["content"] for message in request["messages"])
    reply = OpenAI().chat.completions.create(model="gpt-4o-mini", **request).choices[0].message
    history.append(reply)
    memory.archive_messages(history, session=session)
    return reply.content or ""


with HierarchicalMemory("./memory") as memory:
    ask(memory, [], "The Vault server of staging listens on port 18443.", "monday")
    print(ask(memory, [], "Which port does Vault listen on in staging?", "tuesday"))
