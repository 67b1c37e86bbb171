"""The adapter of Microsoft Agent Framework, in its agents with a chat client of its class."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from adapter_contract import SYSTEM, VAULT, AdapterContract, Agent, Chat, Read, Script, thought

from tinymem import HierarchicalMemory
from tinymem.integrations.native import make_answer, make_call, make_result

pytest.importorskip("agent_framework")

import agent_framework
from agent_framework import (
    AgentSession,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from tinymem.integrations.agent_framework import TinymemProvider, memory_tools


class ScriptedClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A client whose model thinks, and makes the moves of a script."""

    def __init__(self, agent: FrameworkAgent, script: Script) -> None:
        super().__init__()
        self.agent, self.script = agent, script

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def reply() -> Any:
            sent = as_chat(messages, options)
            contents = [one for message in messages for one in message.contents]
            self.agent.requests.append(sent)
            self.agent.thoughts.append([one.text for one in contents if one.type == "text_reasoning"])
            move, number = self.script(sent), len(self.agent.held()) + len(sent)
            said = [Content.from_text_reasoning(text=thought(number), protected_data="EqQB")]
            if move.path:
                said.append(Content.from_function_call(f"call_{number}", "read_file", arguments={"path": move.path}))
            else:
                said.append(Content.from_text(move.answer))
            return ChatResponse(messages=[Message(role="assistant", contents=said)])

        async def pieces() -> AsyncIterator[Any]:
            yield ChatResponseUpdate(role="assistant", contents=(await reply()).messages[0].contents)

        return ResponseStream(pieces(), finalizer=ChatResponse.from_updates) if stream else reply()


def as_chat(messages: Any, options: Any) -> Chat:
    """Messages of the framework as those of a chat."""
    chat: Chat = [{"role": "system", "content": options.get("instructions") or SYSTEM}]
    for message in messages:
        calls = [one for one in message.contents if one.type == "function_call"]
        results = [one for one in message.contents if one.type == "function_result"]
        if message.role == "assistant":
            chat.append(make_answer(message.text, [make_call(one.call_id, one.name, one.arguments) for one in calls]))
        else:
            chat += [make_result(one.call_id, str(one.result)) for one in results]
            chat += [{"role": str(message.role), "content": message.text}] if message.text else []
    return chat


class FrameworkAgent(Agent):
    def __init__(self, memory: HierarchicalMemory, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()

        @tool(approval_mode="never_require")
        def read_file(path: str) -> str:
            """Read a file."""
            return read(path)

        kept = like.session.to_dict() if like else {}
        self.session = AgentSession.from_dict(kept) if like else AgentSession(session_id=session)
        self.agent: Any = agent_framework.Agent(
            ScriptedClient(self, script),
            instructions=SYSTEM,
            tools=[read_file],
            context_providers=[TinymemProvider(memory, max_tokens=800)],
        )

    def ask(self, text: str) -> str:
        return asyncio.run(self.aask(text))

    async def aask(self, text: str) -> str:
        return str((await self.agent.run(text, session=self.session)).text)

    async def astream(self, text: str) -> None:
        stream = self.agent.run(text, session=self.session, stream=True)
        async for _ in stream:
            pass
        await stream.get_final_response()

    def held(self) -> list[Any]:
        messages = self.session.state.get("in_memory", {}).get("messages", ())
        return [(one.type, one.text or one.result) for message in messages for one in message.contents]


class TestAgentFramework(AdapterContract):
    kind = FrameworkAgent
    awaits = True
    fits = False

    async def call_tool(self, memory: HierarchicalMemory, name: str, arguments: dict[str, Any]) -> str:
        tool = next(tool for tool in memory_tools(memory) if tool.name == name)
        (answer,) = await tool.invoke(arguments=arguments)
        return str(answer.text)


def test_what_is_said_is_archived_in_its_session(memory: HierarchicalMemory) -> None:
    FrameworkAgent(memory, "s1", VAULT, str, None).ask("The Vault server listens on port 18443.")
    assert [step.session for step in memory.history()] == ["s1", "s1"]
