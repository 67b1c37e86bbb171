"""The capability of Pydantic AI, in agents with its FunctionModel; requests as its own adapter of OpenAI sends them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest
from adapter_contract import SYSTEM, AdapterContract, Agent, Chat, Read, Script, thought
from scripted_model import BUDGET

from tinymem import HierarchicalMemory

pytest.importorskip("pydantic_ai", reason="pydantic_ai is not installed (extra: test-all)")

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tinymem.integrations.pydantic_ai import MessagesConversation, Tinymem, memory_tools


def as_chat(messages: list[Any]) -> Any:
    """The messages as the framework's own adapter of OpenAI's chat sends them, less thinking."""
    plain = [_without_thinking(one) if isinstance(one, ModelResponse) else one for one in messages]
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(api_key="k"))
    return model._map_messages(plain, ModelRequestParameters())


def _without_thinking(response: Any) -> Any:
    parts = [part for part in response.parts if not isinstance(part, ThinkingPart)]
    return ModelResponse(parts=parts)


class PydanticAIAgent(Agent):
    def __init__(self, memory: HierarchicalMemory, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()
        self.session, self.script = session, script
        self.history: list[Any] = like.history if like else []
        self.agent: Any = PydanticAgent(
            FunctionModel(self.respond, stream_function=self.pieces),
            instructions=SYSTEM,
            capabilities=[Tinymem(memory, BUDGET)],
        )

        @self.agent.tool_plain
        def read_file(path: str) -> str:
            """Read a file."""
            return read(path)

    async def respond(self, messages: list[Any], info: Any) -> Any:
        sent: Chat = await as_chat(messages)
        assert sent[0] == {"role": "system", "content": SYSTEM}
        responses = [message for message in messages if isinstance(message, ModelResponse)]
        parts = [part for one in responses for part in one.parts if isinstance(part, ThinkingPart)]
        assert all(part.signature == "EqQB" for part in parts)
        self.requests.append(sent)
        self.thoughts.append([part.content for part in parts])
        move, number = self.script(sent), sum(len(one) for one in self.requests)
        said = (
            TextPart(move.answer) if move.answer else ToolCallPart("read_file", {"path": move.path}, f"call_{number}")
        )
        return ModelResponse([ThinkingPart(thought(number), signature="EqQB"), said])

    async def pieces(self, messages: list[Any], info: Any) -> AsyncIterator[Any]:
        thinking, said = (await self.respond(messages, info)).parts
        yield {0: DeltaThinkingPart(content=thinking.content, signature=thinking.signature)}
        if isinstance(said, ToolCallPart):
            yield {1: DeltaToolCall(said.tool_name, said.args_as_json_str(), tool_call_id=said.tool_call_id)}
        else:
            yield said.content[:5]
            yield said.content[5:]

    def ask(self, text: str) -> str:
        return asyncio.run(self.aask(text))

    async def astream(self, text: str) -> None:
        limits: Any = {"usage_limits": None, "conversation_id": self.session}
        async with self.agent.run_stream(text, message_history=self.history, **limits) as streamed:
            async for _ in streamed.stream_text():
                pass
        self.history = streamed.all_messages()

    async def aask(self, text: str) -> str:
        limits: Any = {"usage_limits": None, "conversation_id": self.session}
        done = await self.agent.run(text, message_history=self.history, **limits)
        self.history = done.all_messages()
        return str(done.output)

    def held(self) -> list[Any]:
        return self.history


class TestPydanticAI(AdapterContract):
    kind = PydanticAIAgent
    awaits = True

    async def call_tool(self, memory: HierarchicalMemory, name: str, arguments: dict[str, Any]) -> str:
        def move(messages: list[Any], info: Any) -> Any:
            done = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
            return ModelResponse([TextPart(done[0]) if done else ToolCallPart(name, arguments)])

        return str((await PydanticAgent(FunctionModel(move), tools=memory_tools(memory)).run("Go.")).output)


def test_parts_are_read_with_their_files_and_sent_as_the_same_objects(memory: HierarchicalMemory) -> None:
    image = BinaryContent(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    history = [
        ModelRequest([UserPromptPart(["Look at it.", ImageUrl("https://example.com/a.png"), image])]),
        ModelResponse([ToolCallPart("look", {"at": 1}, "call_1"), ToolCallPart("look", {"at": 2}, "call_2")]),
        ModelRequest([ToolReturnPart("look", {"port": 8443}, "call_1"), ToolReturnPart("look", "no", "call_2")]),
        ModelResponse([TextPart("It is 8443.")]),
        ModelRequest([UserPromptPart("Thanks.")]),
    ]
    before = copy.deepcopy(history)
    conversation = MessagesConversation(history, SYSTEM)
    roles = [message["role"] for message in conversation.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
    assert [part["type"] for part in conversation.messages[1]["content"]] == ["text", "image_url", "image_url"]
    context = memory.fit(conversation.messages, session="s1", format="openai")
    sent = conversation.write(context.entries)
    assert [a is b for a, b in zip(sent, history, strict=True)] == [True] * 5 and history == before
