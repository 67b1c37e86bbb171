"""An agent of the Microsoft Agent Framework, whose sessions know what others were told: a recipe to copy.

    pip install tinymem-agents agent-framework-core
    python examples/frameworks/agent_framework_agent.py

The model is a script that only knows its request. Put yours in its place.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, ContextProvider, Message

from tinymem import AsyncHierarchicalMemory, HierarchicalMemory


class Recalling(ContextProvider):
    """Recalls before a run, and keeps what was said in it."""

    def __init__(self, memory: HierarchicalMemory) -> None:
        super().__init__("tinymem")
        self.memory = AsyncHierarchicalMemory.over(memory)

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
        """Add what bears on the new messages; the framework sends the history of the session itself."""
        asked = "\n".join(message.text for message in context.input_messages)
        own = [step.step_number or 0 async for step in self.memory.history(context.session_id)]
        found = await self.memory.recall(asked, 1_000, without=own)
        if found.is_relevant and found.text:
            context.extend_messages(self, [Message(role="user", contents=[found.text])])

    async def after_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
        """Archive what was said."""
        said = [*context.input_messages, *(context.response.messages if context.response else ())]
        messages = [{"role": str(message.role), "content": message.text} for message in said if message.text]
        await self.memory.archive_messages(messages, session=context.session_id, on_conflict="add")


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
        agent = Agent(Scripted(), context_providers=[Recalling(memory)])
        await agent.run("The Vault server of staging listens on port 18443.", session=AgentSession(session_id="monday"))
        asked = "Which port does Vault listen on in staging?"
        print((await agent.run(asked, session=AgentSession(session_id="tuesday"))).text)


asyncio.run(main())
