"""The adapter of LangChain, in agents of `create_agent` with a model of its class."""

from __future__ import annotations

from typing import Any

import pytest
from adapter_contract import SYSTEM, AdapterContract, Agent, Chat, Read, Script, thought
from scripted_model import BUDGET

from tinymem import HierarchicalMemory

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from tinymem.integrations.langchain import TinymemMiddleware


class ScriptedModel(BaseChatModel):
    """A chat model that thinks, as one of Anthropic does, and makes the moves of a script."""

    script: Any
    agent: Any

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        sent = as_chat(messages)
        blocks = [block for message in messages if isinstance(message.content, list) for block in message.content]
        thinking = [block["thinking"] for block in blocks if isinstance(block, dict) and block["type"] == "thinking"]
        self.agent.requests.append(sent)
        self.agent.thoughts.append(thinking)
        move, number = self.script(sent), self.agent.count()
        content = [{"type": "thinking", "thinking": thought(number), "signature": "EqQB"}]
        if move.answer:
            content.append({"type": "text", "text": move.answer})
        calls = [{"id": f"call_{number}", "name": "read_file", "args": {"path": move.path}}] if move.path else []
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content, tool_calls=calls))])

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    @property
    def _llm_type(self) -> str:
        return "scripted"


def as_chat(messages: list[BaseMessage]) -> Chat:
    """The messages as LangChain's own adapter of OpenAI sends them: no name of a tool's message, no empty content."""
    sent = convert_to_openai_messages([_without_thinking(message) for message in messages])
    kept = [{key: value for key, value in one.items() if key != "name" or one["role"] != "tool"} for one in sent]
    return [{**message, "content": message["content"] or None} for message in kept]


def _without_thinking(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, AIMessage) or not isinstance(message.content, list):
        return message
    text = "".join(block["text"] for block in message.content if block["type"] == "text")
    return message.model_copy(update={"content": text})


class LangChainAgent(Agent):
    def __init__(self, memory: HierarchicalMemory, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()

        @tool
        def read_file(path: str) -> str:
            """Read a file."""
            return read(path)

        self.saver = like.saver if like else InMemorySaver()
        self.config: Any = {"configurable": {"thread_id": session}, "recursion_limit": 1_000}
        self.agent: Any = create_agent(
            ScriptedModel(script=script, agent=self),
            [read_file],
            system_prompt=SYSTEM,
            middleware=[TinymemMiddleware(memory, max_tokens=BUDGET)],
            checkpointer=self.saver,
        )

    def count(self) -> int:
        return len(self.held())

    def ask(self, text: str) -> str:
        return str(self.agent.invoke({"messages": [HumanMessage(text)]}, self.config)["messages"][-1].text)

    async def aask(self, text: str) -> str:
        done = await self.agent.ainvoke({"messages": [HumanMessage(text)]}, self.config)
        return str(done["messages"][-1].text)

    def held(self) -> list[Any]:
        found: list[Any] = self.agent.get_state(self.config).values.get("messages", [])
        return found


class TestLangChain(AdapterContract):
    def agent(
        self, memory: HierarchicalMemory, session: str, script: Script, read: Read = str, like: Any = None
    ) -> LangChainAgent:
        return LangChainAgent(memory, session, script, read, like)
