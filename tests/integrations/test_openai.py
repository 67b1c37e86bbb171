"""The helpers of OpenAI's APIs, with the real clients against a strict server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from adapter_contract import SYSTEM, AdapterContract, Agent, Read, Script
from provider_servers import StrictServer, strict_server
from scripted_model import BUDGET

from tinymem import HierarchicalMemory
from tinymem.integrations.openai import (
    achat_request,
    aresponses_request,
    chat_request,
    responses_request,
    responses_tools,
)
from tinymem.memory.tools import MemoryTool
from tinymem.messages.formats import conversation_from

openai = pytest.importorskip("openai")


class ChatAgent(Agent):
    """An agent that calls a client of the SDK itself."""

    format = "openai"

    def __init__(self, memory: Any, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()
        self.memory, self.session, self.script, self.read = memory, session, script, read
        self.history: list[Any] = like.history if like else self.beginning()
        self.server: StrictServer | None = like.server if like else None

    def beginning(self) -> list[Any]:
        return [{"role": "system", "content": SYSTEM}]

    def ask(self, text: str) -> str:
        self.history.append({"role": "user", "content": text})
        with self.client() as client:
            while True:
                answer, calls = self.take(self.create(client, model="m", **self.request()))
                if not calls:
                    return self.ended(answer)
                self.give({id: self.read(path) for id, path in calls.items()})

    async def aask(self, text: str) -> str:
        self.history.append({"role": "user", "content": text})
        async with self.client("Async") as client:
            while True:
                answer, calls = self.take(await self.create(client, model="m", **await self.arequest()))
                if not calls:
                    return self.ended(answer)
                self.give({id: self.read(path) for id, path in calls.items()})

    def ended(self, answer: str) -> str:
        assert self.server is not None and self.server.refused == []
        self.memory.archive_messages(self.history, session=self.session, format=self.format)
        self.requests = [conversation_from(self.body(one), self.format).messages for one in self.server.requests]
        self.thoughts = [self.thinking(one) for one in self.server.requests]
        return answer

    def client(self, prefix: str = "", sdk: Any = openai, name: str = "OpenAI", path: str = "/v1") -> Any:
        assert self.server is not None
        self.server.model, self.server.requests = self.script, []
        return getattr(sdk, prefix + name)(base_url=self.server.url + path, api_key="k", max_retries=0)

    def held(self) -> list[Any]:
        return self.history

    # -- the API

    def create(self, client: Any, **request: Any) -> Any:
        return client.chat.completions.create(**request)

    def request(self) -> dict[str, Any]:
        return chat_request(self.memory, self.history, session=self.session, max_tokens=BUDGET)

    async def arequest(self) -> dict[str, Any]:
        return await achat_request(self.memory, self.history, session=self.session, max_tokens=BUDGET)

    def take(self, reply: Any) -> tuple[str, dict[str, str]]:
        said = reply.choices[0].message
        self.history.append(said)
        calls = {call.id: json.loads(call.function.arguments)["path"] for call in said.tool_calls or ()}
        return said.content or "", calls

    def give(self, results: dict[str, str]) -> None:
        self.history += [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results.items()]

    def body(self, request: dict[str, Any]) -> Any:
        return request["messages"]

    def thinking(self, request: dict[str, Any]) -> list[str]:
        return []


class ResponsesAgent(ChatAgent):
    format = "responses"

    def beginning(self) -> list[Any]:
        return []

    def create(self, client: Any, **request: Any) -> Any:
        return client.responses.create(**request)

    def request(self) -> dict[str, Any]:
        given = responses_request(
            self.memory, self.history, session=self.session, max_tokens=BUDGET, instructions=SYSTEM
        )
        return {**given, "store": False}

    async def arequest(self) -> dict[str, Any]:
        options = {"session": self.session, "max_tokens": BUDGET, "instructions": SYSTEM}
        return {**await aresponses_request(self.memory, self.history, **options), "store": False}

    def take(self, reply: Any) -> tuple[str, dict[str, str]]:
        self.history += reply.output
        calls = [item for item in reply.output if item.type == "function_call"]
        return reply.output_text, {call.call_id: json.loads(call.arguments)["path"] for call in calls}

    def give(self, results: dict[str, str]) -> None:
        outputs = [{"type": "function_call_output", "call_id": id, "output": text} for id, text in results.items()]
        self.history += outputs

    def body(self, request: dict[str, Any]) -> Any:
        assert request["instructions"] == SYSTEM
        return [{"role": "system", "content": SYSTEM}, *request["input"]]

    def thinking(self, request: dict[str, Any]) -> list[str]:
        """The strict server compares the items themselves."""
        return [f"Thought {item['id']}" for item in request["input"] if item.get("type") == "reasoning"]


class WithServer(AdapterContract):
    kind: type[ChatAgent]
    streams = False  # who calls a client archives what came

    def definitions(self, tools: list[MemoryTool]) -> list[Any]:
        return [tool.schema["function"] for tool in tools]

    async def call_tool(self, memory: HierarchicalMemory, name: str, arguments: dict[str, Any]) -> str:
        tools = memory.tools()
        assert [one["name"] for one in self.definitions(tools)] == [tool.name for tool in tools]
        return await {tool.name: tool for tool in tools}[name].acall(**arguments)

    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        with strict_server(lambda chat: pytest.fail("no script")) as self.server:
            yield

    def agent(
        self, memory: HierarchicalMemory, session: str, script: Script, read: Read = str, like: Any = None
    ) -> ChatAgent:
        made: ChatAgent = super().agent(memory, session, script, read, like)
        made.server = self.server
        return made


class TestChat(WithServer):
    kind, thinks = ChatAgent, False


class TestResponses(WithServer):
    kind = ResponsesAgent

    def definitions(self, tools: list[MemoryTool]) -> list[Any]:
        return responses_tools(tools)
