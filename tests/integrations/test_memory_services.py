"""Adapters of frameworks that ask a memory themselves: ADK, Strands, Agent Framework and LlamaIndex, in real agents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from adapter_contract import BlockingEmbedder, open_memory

from tinymem import HierarchicalMemory, Memories

TOLD = "The Vault server of staging listens on port 18443."
ASKED = "Which port does Vault listen on in staging?"


def answer(sent: object) -> str:
    """Name the port that stands in a request."""
    found = re.search(r"port (\d+)", str(sent)) if "?" in str(sent) else None
    return f"It is {found[1]}." if found else "Noted."


async def while_free(embedder: BlockingEmbedder, call: Any) -> Any:
    """Await a call whose embedder waits until the event loop, which it must not block, lets it go on."""

    async def release() -> None:
        while not embedder.waits.is_set():
            await asyncio.sleep(0.001)
        embedder.gate.set()

    embedder.waits.clear()
    embedder.gate.clear()
    found, _ = await asyncio.gather(call, release())
    assert not embedder.was_stuck
    return found


def test_an_adk_agent_knows_an_old_session(tmp_path: Path) -> None:
    pytest.importorskip("google.adk")
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.adk.tools.preload_memory_tool import PreloadMemoryTool
    from google.genai import types

    from tinymem.integrations.google_adk import TinymemMemoryService

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
            texts = [part.text for content in llm_request.contents for part in content.parts]
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=answer(texts))]))

    def content(text: str) -> Any:
        return types.Content(role="user", parts=[types.Part(text=text)])

    async def main(memories: Memories, embedder: BlockingEmbedder) -> None:
        sessions, service = InMemorySessionService(), TinymemMemoryService(memories)
        agent = LlmAgent(name="helper", model=Scripted(model="scripted"), tools=[PreloadMemoryTool()])
        runner = Runner(agent=agent, app_name="app", session_service=sessions, memory_service=service)

        async def ask(user: str, session: str, text: str) -> str:
            await sessions.create_session(app_name="app", user_id=user, session_id=session)
            said = [
                event async for event in runner.run_async(user_id=user, session_id=session, new_message=content(text))
            ]
            return str(said[-1].content.parts[0].text)

        await ask("ann", "s1", TOLD)
        for _ in range(2):  # the whole session comes each time
            old = await sessions.get_session(app_name="app", user_id="ann", session_id="s1")
            await service.add_session_to_memory(old)
        with memories.open(memories.namespaces()[0]) as memory:
            assert memory.stats().steps == 2
        assert await ask("ann", "s2", ASKED) == "It is 18443."
        assert await ask("bob", "s3", ASKED) == "Noted."  # another user's memory
        search = {"app_name": "app", "user_id": "ann", "query": ASKED}
        found = (await while_free(embedder, service.search_memory(**search))).memories
        wanted = next(one for one in found if one.content.parts[0].text == TOLD)
        assert wanted.author == "user" and wanted.timestamp
        await service.delete_memory(app_name="app", user_id="ann", memory_id=wanted.id)
        await service.add_session_to_memory(old)
        texts = [one.content.parts[0].text for one in (await service.search_memory(**search)).memories]
        assert not any("18443" in text for text in texts)
        await service.add_memory(app_name="app", user_id="bob", memories=[wanted])
        await runner.close()
        found = (await service.search_memory(**{**search, "user_id": "bob"})).memories
        assert TOLD in [one.content.parts[0].text for one in found]

    embedder = BlockingEmbedder()
    with Memories(tmp_path, embedder=embedder, store="exact") as memories:
        asyncio.run(main(memories, embedder))


def test_a_strands_agent_knows_an_old_conversation(tmp_path: Path) -> None:
    pytest.importorskip("strands")
    from strands import Agent
    from strands.memory import MemoryManager
    from strands.models import Model

    from tinymem.integrations.strands import TinymemMemoryStore

    class Scripted(Model):
        def update_config(self, **_: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        async def structured_output(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": answer(messages)}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    embedder = BlockingEmbedder()
    with open_memory(tmp_path, embedder) as memory:
        store = TinymemMemoryStore(memory)
        asyncio.run(store.add_messages([{"role": "user", "content": [{"text": TOLD}]}]))
        asyncio.run(store.add_messages([{"role": "user", "content": [{"text": TOLD}]}]))
        assert memory.stats().steps == 1  # a batch may come again
        agent = Agent(Scripted(), memory_manager=MemoryManager([store]), callback_handler=None)
        assert "It is 18443." in str(agent(ASKED))
        found = asyncio.run(while_free(embedder, store.search(ASKED, {"max_search_results": 2})))
        assert TOLD in [one.content for one in found] and len(found) == 2
        use = {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"path": "log.txt"}}}
        result = {"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"json": {"line": "quokka"}}]}}
        turn: Any = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        asyncio.run(store.add_messages(turn))
        assert "quokka" in memory.recall("log.txt", tool="read").text


def test_an_agent_of_the_agent_framework_knows_another_session(tmp_path: Path) -> None:
    pytest.importorskip("agent_framework")
    from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Message

    from tinymem.integrations.agent_framework import TinymemProvider

    class Scripted(BaseChatClient):
        def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
            async def reply() -> Any:
                said = answer([message.text for message in messages])
                return ChatResponse(messages=[Message(role="assistant", contents=[said])])

            return reply()

    async def main(memory: HierarchicalMemory, embedder: BlockingEmbedder) -> None:
        agent = Agent(Scripted(), context_providers=[TinymemProvider(memory)])
        await agent.run(TOLD, session=AgentSession(session_id="s1"))
        assert [step.session for step in memory.history()] == ["s1", "s1"]
        session = AgentSession(session_id="s2")
        done = await while_free(embedder, agent.run(ASKED, session=session))
        assert done.text == "It is 18443."
        assert TOLD not in str([message.text for message in done.messages])
        assert memory.stats().steps == 4

    embedder = BlockingEmbedder()
    with open_memory(tmp_path, embedder) as memory:
        asyncio.run(main(memory, embedder))


def test_a_block_of_llama_index_recalls_what_left_the_short_term_memory(tmp_path: Path) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory

    from tinymem.integrations.llama_index import TinymemMemoryBlock

    async def main(own: HierarchicalMemory, embedder: BlockingEmbedder) -> None:
        def framework(session: str) -> Any:
            block = TinymemMemoryBlock(memory=own)
            return Memory.from_defaults(
                session_id=session, token_limit=400, chat_history_token_ratio=0.2, memory_blocks=[block]
            )

        first = framework("s1")
        for at in range(12):
            await first.aput(ChatMessage(role="user", content=TOLD if at == 0 else f"Line {at} of the log is quiet."))
            await first.aput(ChatMessage(role="assistant", content=f"Noted, line {at}."))
        assert any(step.text == TOLD and step.session == "s1" for step in own.history())
        second = framework("s2")
        await second.aput(ChatMessage(role="user", content=ASKED))
        sent = await while_free(embedder, second.aget())
        assert "18443" in str([message.content for message in sent])
        for one in (first, second):  # the framework leaves its database open
            await one.sql_store._async_engine.dispose()

    embedder = BlockingEmbedder()
    with open_memory(tmp_path, embedder) as own:
        asyncio.run(main(own, embedder))
