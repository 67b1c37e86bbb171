"""The adapter of Google ADK, in a runner with agents whose model is of its class."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from adapter_contract import SYSTEM, VAULT, AdapterContract, Agent, Chat, Read, Script, thought

from tinymem import Memories
from tinymem.integrations.native import make_answer, make_call, make_result

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from tinymem.integrations.google_adk import TinymemMemoryService, TinymemPreloadTool, memory_tools

TOLD = "The Vault server of staging listens on port 18443."
ASKED = "Which port does Vault listen on in staging?"


class ScriptedModel(BaseLlm):
    """A model that thinks, and makes the moves of a script."""

    script: Any
    agent: Any

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
        sent = as_chat(llm_request)
        parts = [part for content in llm_request.contents for part in content.parts]
        self.agent.requests.append(sent)
        self.agent.thoughts.append([part.text for part in parts if part.thought])
        move, number = self.script(sent), sum(map(len, self.agent.thoughts)) + len(self.agent.requests)
        said = [types.Part(text=thought(number), thought=True, thought_signature=b"EqQB")]
        if move.path:
            use = types.FunctionCall(id=f"call_{number}", name="read_file", args={"path": move.path})
            said.append(types.Part(function_call=use))
        else:
            said.append(types.Part(text=move.answer))
        yield LlmResponse(content=types.Content(role="model", parts=said))


def as_chat(request: Any) -> Chat:
    """The contents of a request as messages of a chat."""
    chat: Chat = [{"role": "system", "content": str(request.config.system_instruction)}]
    for content in request.contents:
        texts = "\n".join(part.text for part in content.parts if part.text and not part.thought)
        calls = [part.function_call for part in content.parts if part.function_call]
        results = [part.function_response for part in content.parts if part.function_response]
        if content.role == "model":
            chat.append(make_answer(texts, [make_call(one.id, one.name, one.args) for one in calls]))
        else:
            chat += [make_result(one.id, str(one.response)) for one in results] or [{"role": "user", "content": texts}]
    return chat


class AdkAgent(Agent):
    def __init__(self, memories: Memories, session: str, script: Script, read: Read, like: Any, user: str) -> None:
        super().__init__()

        def read_file(path: str) -> str:
            """Read a file."""
            return read(path)

        self.sessions = like.sessions if like else InMemorySessionService()
        self.service = TinymemMemoryService(memories, max_tokens=600)
        self.place = {"app_name": "app", "user_id": user, "session_id": session}
        model = ScriptedModel(model="scripted", script=script, agent=self)
        made = LlmAgent(name="reader", model=model, instruction=SYSTEM, tools=[read_file, TinymemPreloadTool()])
        self.runner = Runner(agent=made, app_name="app", session_service=self.sessions, memory_service=self.service)

    def ask(self, text: str) -> str:
        return asyncio.run(self.aask(text))

    async def aask(self, text: str, **options: Any) -> str:
        if await self.sessions.get_session(**self.place) is None:
            await self.sessions.create_session(**self.place)
        given = types.Content(role="user", parts=[types.Part(text=text)])
        who = {"user_id": self.place["user_id"], "session_id": self.place["session_id"]}
        events = [event async for event in self.runner.run_async(**who, new_message=given, **options)]
        await self.service.add_session_to_memory(await self.sessions.get_session(**self.place))  # all of it each time
        return str(events[-1].content.parts[-1].text)

    async def astream(self, text: str) -> str:
        return await self.aask(text, run_config=RunConfig(streaming_mode=StreamingMode.SSE))

    def held(self) -> list[Any]:
        session = asyncio.run(self.sessions.get_session(**self.place))
        return [event.content for event in session.events]


class TestGoogleAdk(AdapterContract):
    fits = False
    awaits = True

    def opened(self, path: Path, embedder: Any = "static") -> AbstractContextManager[Any]:
        return Memories(path, embedder=embedder, store="exact")

    def texts(self, memory: Memories) -> list[str]:
        with memory.open("app/ann") as own:
            return super().texts(own)

    def agent(
        self, memory: Memories, session: str, script: Script, read: Read = str, like: Any = None, user: str = "ann"
    ) -> AdkAgent:
        return AdkAgent(memory, session, script, read, like, user)

    async def call_tool(self, memory: Memories, name: str, arguments: dict[str, Any]) -> str:
        class Calling(BaseLlm):
            async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
                said = llm_request.contents[-1].parts[0]
                use = types.FunctionCall(id="c1", name=name, args=arguments)
                done = said.function_response and types.Part(text=said.function_response.response["result"])
                parts = [done or types.Part(function_call=use)]
                yield LlmResponse(content=types.Content(role="model", parts=parts))

        made = LlmAgent(name="reader", model=Calling(model="scripted"), tools=memory_tools(memory))
        runner = Runner(agent=made, app_name="app", session_service=InMemorySessionService(), auto_create_session=True)
        given = types.Content(role="user", parts=[types.Part(text="Go.")])
        events = [one async for one in runner.run_async(user_id="ann", session_id="s9", new_message=given)]
        return str(events[-1].content.parts[0].text)

    def test_users_have_a_memory_each(self, memory: Memories) -> None:
        self.agent(memory, "s1", VAULT).ask(TOLD)
        other = self.agent(memory, "s2", VAULT, user="bob")
        other.ask(ASKED)
        assert "18443" not in str(other.requests)


def test_what_is_deleted_does_not_come_back_with_its_session(tmp_path: Path) -> None:
    search = {"app_name": "app", "user_id": "ann", "query": ASKED}

    async def main(memories: Memories) -> None:
        sessions, service = InMemorySessionService(), TinymemMemoryService(memories)
        session = await sessions.create_session(app_name="app", user_id="ann", session_id="s1")
        said = Event(author="user", content=types.Content(role="user", parts=[types.Part(text=TOLD)]))
        await sessions.append_event(session, said)
        await service.add_session_to_memory(session)
        (wanted,) = (await service.search_memory(**search)).memories
        assert wanted.author == "user" and wanted.timestamp and wanted.content.parts[0].text == TOLD
        await service.delete_memory(app_name="app", user_id="ann", memory_id=wanted.id)
        await service.add_session_to_memory(session)
        assert (await service.search_memory(**search)).memories == []

    with Memories(tmp_path, embedder="static", store="exact") as memories:
        asyncio.run(main(memories))
