"""A chat model of LangChain's own class for agents of LangChain and LangGraph."""

from __future__ import annotations

from itertools import count
from typing import Any

from adapter_contract import Chat, thought
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult

__all__ = ["ScriptedModel"]


NUMBERS = count(1)  # of moves: how much an agent holds may be known a moment later


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
        move, number = self.script(sent), next(NUMBERS)
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
