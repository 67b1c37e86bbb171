"""A smolagents agent with a budget, which knows what others were told.

    pip install "tinymem-agents[smolagents]"
    python examples/frameworks/smolagents_agent.py

The model is a script that only knows its request. Put yours in its place.
"""

from __future__ import annotations

import re
from typing import Any

from smolagents import ChatMessage, CodeAgent, LogLevel, Model
from smolagents.models import MessageRole

from tinymem import HierarchicalMemory
from tinymem.integrations.smolagents import remember


class Scripted(Model):
    """A model that names the port that it is sent."""

    def generate(self, messages: list[Any], **_: Any) -> ChatMessage:
        """Answer by code, as the framework wants it."""
        found = re.search(r"port (\d+)", str([message.content for message in messages[1:]]))
        answer = f"It is {found[1]}." if found else "I do not know."
        return ChatMessage(MessageRole.ASSISTANT, f"<code>\nfinal_answer({answer!r})\n</code>")


with HierarchicalMemory("./memory") as memory:
    for session, text in (("monday", "Vault listens on port 18443 in staging."), ("tuesday", "Which port has Vault?")):
        agent = CodeAgent([], Scripted(model_id="scripted"), verbosity_level=LogLevel.OFF)
        print(remember(agent, memory, max_tokens=8_000, session=session).run(text))
