"""The adapter of LlamaIndex, in its agents with its Memory and the model that it has for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from adapter_contract import SYSTEM, AdapterContract, Agent, Chat, Read, Script, thought

from tinymem import HierarchicalMemory
from tinymem.integrations.native import make_answer, make_call, make_result

pytest.importorskip("llama_index.core")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.memory.memory import InsertMethod
from llama_index.core.tools import FunctionTool

from tinymem.integrations.llama_index import TinymemMemoryBlock, memory_tools

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its workflows look at fields of old
TOKENS = 1_000  # of the framework's memory; its part for the newest messages is a fifth


def as_chat(messages: Any) -> Chat:
    """Messages of LlamaIndex as those of a chat."""
    chat: Chat = []
    for message in messages:
        calls = [one for one in message.blocks if isinstance(one, ToolCallBlock)]
        text = "\n".join(one.text for one in message.blocks if isinstance(one, TextBlock))
        if message.role.value == "assistant":
            chat.append(
                make_answer(text, [make_call(one.tool_call_id, one.tool_name, one.tool_kwargs) for one in calls])
            )
        elif message.role.value == "tool":
            chat.append(make_result(message.additional_kwargs["tool_call_id"], text))
        else:
            chat.append({"role": message.role.value, "content": text})
    return chat


class LlamaAgent(Agent):
    def __init__(self, memory: HierarchicalMemory, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()

        def read_file(path: str) -> str:
            """Read a file."""
            return read(path)

        self.script, self.calls = script, 0
        self.store: Any = like.store if like else None
        self.block = TinymemMemoryBlock(memory=memory, max_tokens=600)
        self.memory = Memory.from_defaults(
            session_id=session,
            token_limit=TOKENS,
            token_flush_size=100,
            chat_history_token_ratio=0.2,
            memory_blocks=[self.block],
            insert_method=InsertMethod.USER,
            chat_store=self.store,
        )
        self.store = self.memory.sql_store
        self.agent = FunctionAgent(
            name="reader",
            llm=MockFunctionCallingLLM(response_generator=self.reply),
            tools=[FunctionTool.from_defaults(read_file)],
            system_prompt=SYSTEM,
        )

    def reply(self, messages: Any, **_: Any) -> Any:
        sent = as_chat(messages)
        self.requests.append(sent)
        blocks = [block for message in messages for block in message.blocks]
        self.thoughts.append([str(block.content) for block in blocks if isinstance(block, ThinkingBlock)])
        move, self.calls = self.script(sent), self.calls + 1
        said: list[Any] = [ThinkingBlock(content=thought(self.calls))]
        if move.path:
            given = {"path": move.path}
            said.append(ToolCallBlock(tool_call_id=f"call_{self.calls}", tool_name="read_file", tool_kwargs=given))
        else:
            said.append(TextBlock(text=move.answer))
        return ChatMessage(role="assistant", blocks=said)

    def ask(self, text: str) -> str:
        return asyncio.run(self.aask(text))

    async def aask(self, text: str) -> str:
        done = await self.agent.run(text, memory=self.memory)
        return str(done.response.content)

    async def astream(self, text: str) -> object:
        handler = self.agent.run(text, memory=self.memory)
        async for _ in handler.stream_events():
            pass
        return await handler

    def held(self) -> list[Any]:
        return asyncio.run(self.memory.aget_all())


class TestLlamaIndex(AdapterContract):
    fits = False
    awaits = True

    @pytest.fixture(autouse=True)
    def databases(self) -> Iterator[None]:
        """Close what the framework leaves open."""
        self.made: list[LlamaAgent] = []
        yield
        for agent in self.made:
            asyncio.run(agent.store._async_engine.dispose())

    def agent(
        self, memory: HierarchicalMemory, session: str, script: Script, read: Read = str, like: Any = None
    ) -> LlamaAgent:
        self.made.append(LlamaAgent(memory, session, script, read, like))
        return self.made[-1]

    async def call_tool(self, memory: HierarchicalMemory, name: str, arguments: dict[str, Any]) -> str:
        tool = next(tool for tool in memory_tools(memory) if tool.metadata.get_name() == name)
        assert set(arguments) <= set(tool.metadata.get_parameters_dict()["properties"])
        answer = (await tool.acall(**arguments)).content
        assert tool.call(**arguments).content == answer
        return str(answer)

    def reader(self, before: Any, make: Callable[[str], Any], at: int) -> Any:
        """One conversation, of which the framework hands over what no longer fits."""
        return before or make("sheets")

    def leave(self, agent: LlamaAgent) -> None:
        """Talk on until what was said has left the short-term memory."""

        async def talk() -> None:
            for at in range(12):
                line = f"Line {at} of another matter, {len(agent.requests)}, is of no interest whatsoever to anybody."
                await agent.memory.aput(ChatMessage(role="user", content=line))

        asyncio.run(talk())


def test_what_leaves_is_archived_in_its_session(memory: HierarchicalMemory) -> None:
    block = TinymemMemoryBlock(memory=memory)
    said = [ChatMessage(role="user", content="The Vault server listens on port 18443.")]
    asyncio.run(block.aput(said, from_short_term_memory=True, session_id="s1"))
    assert [(step.session, step.text) for step in memory.history()] == [("s1", said[0].content)]
