"""The adapter of smolagents, in its agents with a model of its class; requests as its own models send them."""

from __future__ import annotations

from typing import Any

import pytest
from adapter_contract import SYSTEM, VAULT, AdapterContract, Agent, Chat, Read, Script, said, thought
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
        number = len(self.agent.requests)
        says = thought(number) if self.agent.thinks else f"I read sheet {number}."
        raw = {"reasoning": thought(number)}
        if self.agent.is_code:
            line = f"read_file({move.path!r})" if move.path else f"final_answer({move.answer!r})"
            return ChatMessage(MessageRole.ASSISTANT, f"{says}\n<code>\n{line}\n</code>", raw=raw)
        name, given = ("read_file", {"path": move.path}) if move.path else ("final_answer", {"answer": move.answer})
        function = ChatMessageToolCallFunction(name=name, arguments=given)
        asked = ChatMessageToolCall(function=function, id=f"call_{number}", type="function")
        return ChatMessage(MessageRole.ASSISTANT, says, tool_calls=[asked], raw=raw)


class SmolAgent(Agent):
    is_code, thinks = False, False

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

    def steps(self, attribute: str) -> list[Any]:
        """The steps of the agent's memory that have this attribute."""
        return [step for step in self.agent.memory.steps if hasattr(step, attribute)]

    def ask(self, text: str) -> str:
        return str(self.agent.run(text, reset=False))

    async def astream(self, text: str) -> list[Any]:
        return [*self.agent.run(text, reset=False, stream=True)]

    def held(self) -> list[Any]:
        return [message.content for step in self.agent.memory.steps for message in step.to_messages()]


class CodingAgent(SmolAgent):
    is_code = True


class TestToolCalling(AdapterContract):
    has_async, thinks, judges = False, False, False
    kind: type[SmolAgent] = SmolAgent

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


@pytest.mark.parametrize("kind", [SmolAgent, CodingAgent])
def test_thinking_which_is_text_here_is_sent_with_its_turn(
    memory: HierarchicalMemory, monkeypatch: pytest.MonkeyPatch, kind: type[SmolAgent]
) -> None:
    def script(chat: Chat) -> Move:
        files = [path for path in ("a.md", "b.md") if f"It is {path}" not in " ".join(said(chat))]
        return Move(path=files[0]) if files else Move(answer="Both.")

    monkeypatch.setattr(kind, "thinks", True)
    agent = kind(memory, "s1", script, lambda path: f"It is {path}.", None)
    assert agent.ask("Read both.") == "Both."
    turns = [" ".join(said([one])) for one in agent.requests[-1] if one["role"] == "assistant"]
    assert len(turns) == 2 and all(thought(at) in turn for at, turn in enumerate(turns, 1))
    thoughts = [step.model_output_message.raw["reasoning"] for step in agent.steps("model_output_message")]
    assert thoughts == [thought(at) for at in (1, 2, 3)]  # what the provider sent stays with its step


def by_script(name: str, moves: Any, sent: list[str], **options: Any) -> ToolCallingAgent:
    """An agent with a model that makes these moves, each a text or the name and the arguments of a call."""

    class Scripted(Model):
        def generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatMessage:
            sent.append(str([message.content for message in messages]))
            move = next(moves)
            if isinstance(move, str):
                return ChatMessage(MessageRole.ASSISTANT, move)
            function = ChatMessageToolCallFunction(name=move[0], arguments=move[1])
            return ChatMessage(
                MessageRole.ASSISTANT, "", [ChatMessageToolCall(function=function, id="c1", type="function")]
            )

    return ToolCallingAgent([], Scripted(model_id=name), name=name, verbosity_level=LogLevel.OFF, **options)


def test_what_an_agent_does_for_another_is_a_conversation_of_its_own_in_its_own_words(
    memory: HierarchicalMemory,
) -> None:
    inner, outer, task = list[str](), list[str](), "Find the port of Vault."
    report = ("final_answer", {"answer": "Vault listens on 18443, quokka."})
    clerk = remember(by_script("clerk", iter([report, report]), inner, description="Finds ports."), memory)
    moves = iter(["I ask the clerk.", ("clerk", {"task": task}), ("final_answer", {"answer": "18443."})])
    chief = by_script("chief", moves, outer, managed_agents=[clerk], planning_interval=9)
    assert remember(chief, memory).run("Which port has Vault, Ann asks?") == "18443."
    assert "Ann asks" not in inner[0] and "New task:" in outer[1] and "carry out this plan" in outer[1]
    told = {name: [step.text for step in memory.history(name)] for name in ("chief", "chief/agents/clerk")}
    assert sum(map(len, told.values())) == memory.stats().steps
    assert told["chief/agents/clerk"][0] == task and told["chief"][0] == "Which port has Vault, Ann asks?"
    assert {step.metadata["parent"] for step in memory.history("chief/agents/clerk")} == {"chief"}
    texts = [*told["chief"], *told["chief/agents/clerk"]]
    framework = ("New task:", "Observation:", "Calling tools:", "carry out this plan", "helpful agent named")
    assert not [text for text in texts if not text.strip() or any(words in text for words in framework)]
    clerk.run("Which port has Vault, Ann asks?")  # and for itself
    assert "18443" in inner[1] and memory.stats().steps == len(texts) + len([*memory.history("clerk")])


def test_code_that_prints_and_calls_agents_has_results_that_are_shortened_and_agents_of_its_own(
    memory: HierarchicalMemory,
) -> None:
    log = "Line of the log: all is quiet.\n" * 900
    moves = iter(["print(clerk(task='Read the log.'))", "final_answer('Quiet.')"])

    class Coding(Model):
        def generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatMessage:
            return ChatMessage(MessageRole.ASSISTANT, f"<code>\n{next(moves)}\n</code>")

    clerk = by_script("clerk", iter([("final_answer", {"answer": log})]), [], description="Reads.")
    chief = CodeAgent(
        [], Coding(), name="chief", managed_agents=[remember(clerk, memory)], verbosity_level=LogLevel.OFF
    )
    assert remember(chief, memory, max_tokens=8_000).run("Is the log quiet?") == "Quiet."
    assert {step.session for step in memory.history()} == {"chief", "chief/agents/clerk"}
