"""The helper of Anthropic's API, with the real clients against a strict server: thinking and signatures go back."""

from __future__ import annotations

from typing import Any

import pytest
from adapter_contract import SYSTEM
from scripted_model import BUDGET

from integrations.test_openai import ChatAgent, WithServer
from tinymem.integrations.anthropic import amessages_request, messages_request, messages_tools
from tinymem.memory.tools import MemoryTool

anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed (extra: test-all)")

MARK = {"type": "ephemeral"}
FRAME = {"max_tokens": 2_048, "thinking": {"type": "enabled", "budget_tokens": 1_024}}


class MessagesAgent(ChatAgent):
    format = "anthropic"

    def beginning(self) -> list[Any]:
        return []

    def client(self, prefix: str = "", sdk: Any = anthropic, name: str = "Anthropic", path: str = "") -> Any:
        return super().client(prefix, sdk, name, path)

    def create(self, client: Any, **request: Any) -> Any:
        return client.messages.create(**request)

    def options(self) -> dict[str, Any]:
        return {"session": self.session, "max_tokens": BUDGET, "system": SYSTEM, "cache_control": MARK}

    def request(self) -> dict[str, Any]:
        return {**FRAME, **messages_request(self.memory, self.history, **self.options())}

    async def arequest(self) -> dict[str, Any]:
        return {**FRAME, **await amessages_request(self.memory, self.history, **self.options())}

    def take(self, reply: Any) -> tuple[str, dict[str, str]]:
        self.history.append({"role": "assistant", "content": reply.content})
        text = "".join(block.text for block in reply.content if block.type == "text")
        return text, {block.id: block.input["path"] for block in reply.content if block.type == "tool_use"}

    def give(self, results: dict[str, str]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results.items()]
        self.history.append({"role": "user", "content": blocks})

    def body(self, request: dict[str, Any]) -> Any:
        return {key: request[key] for key in ("system", "messages")}

    def thinking(self, request: dict[str, Any]) -> list[str]:
        blocks = [block for one in request["messages"] if isinstance(one["content"], list) for block in one["content"]]
        return [block["thinking"] for block in blocks if block["type"] == "thinking"]


class TestMessages(WithServer):
    kind = MessagesAgent

    def definitions(self, tools: list[MemoryTool]) -> list[Any]:
        return messages_tools(tools)
