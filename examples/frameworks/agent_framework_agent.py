"""An agent of the Microsoft Agent Framework, whose sessions know what others were told.

    pip install "tinymem-agents[agent-framework]"
    python examples/frameworks/agent_framework_agent.py

The model is a script that only knows its request. Put yours in its place.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Message

from tinymem import HierarchicalMemory
from tinymem.integrations.agent_framework import TinymemProvider


class Scripted(BaseChatClient):
    """A model that names the port that it is sent."""

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def reply() -> ChatResponse:
            found = re.search(r"port (\d+)", str([message.text for message in messages]))
            text = f"It is {found[1]}." if found else "I do not know."
            return ChatResponse(messages=[Message(role="assistant", contents=[text])])

        return reply()


async def main() -> None:
    """Tell one session, and ask another."""
    with HierarchicalMemory("./memory") as memory:
        agent = Agent(Scripted(), context_providers=[TinymemProvider(memory)])
        await agent.run("The Vault server of staging listens on port 18443.", session=AgentSession(session_id="monday"))
        asked = "Which port does Vault listen on in staging?"
        print((await agent.run(asked, session=AgentSession(session_id="tuesday"))).text)


asyncio.run(main())
