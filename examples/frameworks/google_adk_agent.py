"""A Google ADK agent that knows a user's earlier sessions, and no other user's.

    pip install "tinymem-agents[google-adk]"
    python examples/frameworks/google_adk_agent.py

The model is a script that only knows its request. Put yours in its place.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from tinymem import Memories
from tinymem.integrations.google_adk import TinymemMemoryService, TinymemPreloadTool


class Scripted(BaseLlm):
    """A model that names the port that it is sent."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
        """Answer."""
        found = re.search(r"port (\d+)", str(llm_request.contents))
        text = f"It is {found[1]}." if found else "I do not know."
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


async def ask(runner: Runner, service: TinymemMemoryService, session_id: str, text: str) -> str:
    """Say something in a session of its own, and add the session to the memory."""
    place = {"app_name": "app", "user_id": "ann", "session_id": session_id}
    await runner.session_service.create_session(**place)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    events = [event async for event in runner.run_async(user_id="ann", session_id=session_id, new_message=message)]
    await service.add_session_to_memory(await runner.session_service.get_session(**place))
    return str(events[-1].content.parts[0].text)


async def main() -> None:
    """Tell one session, and ask another."""
    with Memories("./memory") as memories:
        service = TinymemMemoryService(memories)
        agent = LlmAgent(name="helper", model=Scripted(model="scripted"), tools=[TinymemPreloadTool()])
        runner = Runner(agent=agent, app_name="app", session_service=InMemorySessionService(), memory_service=service)
        await ask(runner, service, "monday", "The Vault server of staging listens on port 18443.")
        print(await ask(runner, service, "tuesday", "Which port does Vault listen on in staging?"))


asyncio.run(main())
