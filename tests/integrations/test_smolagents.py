"""The adapter of smolagents, in its agents with a model of its class; requests as its own models send them."""

from __future__ import annotations

from typing import Any

import pytest
from adapter_contract import SYSTEM, VAULT, AdapterContract, Agent, Chat, Read, Script, said
from scripted_model import BUDGET, Move

from tinymem import HierarchicalMemory

pytest.importorskip("smolagents")

from smolagents import ChatMessage, CodeAgent, LogLevel, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, get_clean_message_list
from smolagents.models import tool_role_conversions as CONVERSIONS

from tinymem.integrations.smolagents import memory_tools, remember


class ScriptedModel(Model):
    """A model of the framework that makes the moves of a script, as calls of tools or as code."""

    def __init__(self, agent: SmolAgent, script: Script) -> None:
        super().__init__(model_id="scripted")
        self.agent, self.script = agent, script

    def generate(self, messages: list[Any], *_: Any, **__: Any) -> Any:
        sent: Chat = [
            {"role": one["role"].value, "content": one["content"]}
            for one in get_clean_message_list(messages, CONVERSIONS, convert_images_to_image_urls=True)
        ]
        self.agent.requests.append(sent)
        self.agent.thoughts.append([])
        move = self.script(sent)
        if self.agent.is_code:
            line = f"read_file({move.path!r})" if move.path else f"final_answer({move.answer!r})"
            return ChatMessage(MessageRole.ASSISTANT, f"I go on.\n<code>\n{line}\n</code>")
        name, given = ("read_file", {"path": move.path}) if move.path else ("final_answer", {"answer": move.answer})
        function = ChatMessageToolCallFunction(name=name, arguments=given)
        asked = ChatMessageToolCall(function=function, id=f"call_{len(self.agent.requests)}", type="function")
        return ChatMessage(MessageRole.ASSISTANT, f"Move {len(sent)}.", tool_calls=[asked])


class SmolAgent(Agent):
    is_code = False

    def __init__(self, memory: HierarchicalMemory, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()

        @tool
        def read_file(path: str) -> str:
            """Read a file.

            Args:
                path: The path.
            """
            return read(path)

        kind = CodeAgent if self.is_code else ToolCallingAgent
        made: Any = kind([read_file], ScriptedModel(self, script), max_steps=200, verbosity_level=LogLevel.OFF)
        made.prompt_templates["system_prompt"] = SYSTEM
        self.agent = remember(made, memory, max_tokens=BUDGET, session=session)
        if like:
            self.agent.memory.steps = like.agent.memory.steps

    def ask(self, text: str) -> str:
        return str(self.agent.run(text, reset=False))

    def held(self) -> list[Any]:
        return [message.content for step in self.agent.memory.steps for message in step.to_messages()]


class CodingAgent(SmolAgent):
    is_code = True


class TestToolCalling(AdapterContract):
    has_async, thinks = False, False
    kind: type[SmolAgent] = SmolAgent

    def agent(
        self, memory: HierarchicalMemory, session: str, script: Script, read: Read = str, like: Any = None
    ) -> SmolAgent:
        return self.kind(memory, session, script, read, like)

    async def call_tool(self, memory: HierarchicalMemory, name: str, arguments: dict[str, Any]) -> str:
        tool = next(tool for tool in memory_tools(memory) if tool.name == name)
        model = ScriptedModel(SmolAgent(memory, "s9", VAULT, str, None), VAULT)
        made = ToolCallingAgent([tool], model)  # which checks its tools
        answer = str(made.execute_tool_call(name, arguments))
        assert tool(*arguments.values()) == answer  # as in code
        return answer

    def check_pair(self, chat: Chat) -> None:
        call, result = chat[-2:]
        assert call["role"] == "assistant" and "log.txt" in said([call])[-1]
        assert result["role"] == "user" and "all is quiet" in said([result])[-1]


class TestCode(TestToolCalling):
    kind, cuts = CodingAgent, True


def test_an_error_is_sent_with_the_call_that_it_is_of(memory: HierarchicalMemory) -> None:
    def fail(path: str) -> str:
        raise ValueError("no such file: quokka")

    def script(chat: Chat) -> Any:
        return Move(answer="Gone.") if "quokka" in said(chat)[-1] else Move(path="a.md")

    for kind in (SmolAgent, CodingAgent):
        agent = kind(memory, kind.__name__, script, fail, None)
        assert agent.ask("Read a.md.") == "Gone."
        assert "Read a.md." in " ".join(said(agent.requests[-1]))
