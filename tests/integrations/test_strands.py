"""The adapter of Strands, in agents with its MemoryManager and a model of its class."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from adapter_contract import SYSTEM, VAULT, AdapterContract, Agent, Chat, Read, Script, thought

from tinymem import HierarchicalMemory
from tinymem.integrations.native import make_answer, make_call, make_result

pytest.importorskip("strands")

import strands
from strands.memory import MemoryManager
from strands.models import Model

from tinymem.integrations.strands import TinymemMemoryStore, memory_tools


class ScriptedModel(Model):
    """A model that thinks, and makes the moves of a script."""

    def __init__(self, agent: StrandsAgent, script: Script) -> None:
        self.agent, self.script = agent, script

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, specs: Any, prompt: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        sent = [{"role": "system", "content": prompt}, *as_chat(messages)]
        self.agent.requests.append(sent)
        blocks = [block for message in messages for block in message["content"]]
        thinking = [one["reasoningContent"]["reasoningText"]["text"] for one in blocks if "reasoningContent" in one]
        self.agent.thoughts.append(thinking)
        move, number = self.script(sent), len(self.agent.held())
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"reasoningContent": {"text": thought(number), "signature": "EqQB"}}}}
        yield {"contentBlockStop": {}}
        use = {"toolUse": {"toolUseId": f"call_{number}", "name": "read_file"}} if move.path else {}
        yield {"contentBlockStart": {"start": use}}
        given = {"toolUse": {"input": f'{{"path": "{move.path}"}}'}} if move.path else {"text": move.answer}
        yield {"contentBlockDelta": {"delta": given}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if move.path else "end_turn"}}


def as_chat(messages: Any) -> Chat:
    """Messages of Strands as those of a chat."""
    chat: Chat = []
    for message in messages:
        blocks = message["content"]
        text = "\n".join(block["text"] for block in blocks if "text" in block)
        uses = [block["toolUse"] for block in blocks if "toolUse" in block]
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        if message["role"] == "assistant":
            chat.append(make_answer(text, [make_call(one["toolUseId"], one["name"], one["input"]) for one in uses]))
        else:
            chat += [make_result(one["toolUseId"], one["content"][0]["text"]) for one in results]
            chat += [{"role": "user", "content": text}] if text else []
    return chat


def asked_in(context: Any) -> str:
    """What the user said last."""
    said = [
        block["text"]
        for one in context.messages
        if one["role"] == "user"
        for block in one["content"]
        if "text" in block
    ]
    return str(said[-1])


class StrandsAgent(Agent):
    def __init__(self, memory: HierarchicalMemory, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()

        @strands.tool
        def read_file(path: str) -> str:
            """Read a file."""
            return read(path)

        injection: Any = {"trigger": "everyTurn", "query": asked_in}  # by default in the first call of a turn only
        self.manager = MemoryManager([TinymemMemoryStore(memory, session=session)], injection=injection)
        self.agent = strands.Agent(
            ScriptedModel(self, script),
            tools=[read_file],
            system_prompt=SYSTEM,
            messages=list(like.held()) if like else None,
            memory_manager=self.manager,
            callback_handler=None,
        )

    def ask(self, text: str) -> str:
        return str(self.agent(text)).strip()

    async def aask(self, text: str) -> str:
        answer = str(await self.agent.invoke_async(text)).strip()
        await self.manager.flush()
        return answer

    async def astream(self, text: str) -> None:
        async for _ in self.agent.stream_async(text):
            pass
        await self.manager.flush()

    def held(self) -> list[Any]:
        return list(self.agent.messages)


class TestStrands(AdapterContract):
    kind = StrandsAgent
    fits = False

    async def call_tool(self, memory: HierarchicalMemory, name: str, arguments: dict[str, Any]) -> str:
        model = ScriptedModel(StrandsAgent(memory, "s9", VAULT, str, None), VAULT)
        made: Any = strands.Agent(model, tools=memory_tools(memory))
        answer = await asyncio.to_thread(lambda: getattr(made.tool, name)(**arguments))
        return str(answer["content"][0]["text"])


def test_a_search_gives_as_many_as_are_asked_for_and_a_batch_may_come_again(memory: HierarchicalMemory) -> None:
    store = TinymemMemoryStore(memory)
    told = [{"role": "user", "content": [{"text": f"Server {at} listens on port 1844{at}."}]} for at in range(4)]
    for _ in range(2):
        asyncio.run(store.add_messages(told))
    assert memory.stats().steps == 4
    found = asyncio.run(store.search("Which port has server 3?", {"max_search_results": 2}))
    assert len(found) == 2 and found[0].content == "Server 3 listens on port 18443."


def test_calls_and_their_results_are_archived(memory: HierarchicalMemory) -> None:
    use = {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"path": "log.txt"}}}
    given = {"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"json": {"line": "quokka"}}]}}
    turn: Any = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [given]}]
    asyncio.run(TinymemMemoryStore(memory).add_messages(turn))
    assert "quokka" in memory.recall("log.txt", tool="read").text
