"""The adapter of LangChain, in agents of `create_agent` with a model of its class."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from adapter_contract import SYSTEM, AdapterContract, Agent, Read, Script
from scripted_model import BUDGET, Move

from tinymem import HierarchicalMemory
from tinymem.errors import InputError

pytest.importorskip("langchain", reason="langchain is not installed (extra: test-all)")

from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_model import ScriptedModel
from langgraph.checkpoint.memory import InMemorySaver

from tinymem.integrations.langchain import MessagesConversation, TinymemMiddleware, TinymemRetriever, memory_tools
from tinymem.stores.filter import Beginning


class LangChainAgent(Agent):
    def __init__(self, memory: HierarchicalMemory, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()

        @tool
        def read_file(path: str) -> str:
            """Read a file."""
            return read(path)

        self.saver = like.saver if like else InMemorySaver()
        self.config: Any = {"configurable": {"thread_id": session}, "recursion_limit": 1_000}
        self.script = script
        self.model = ScriptedModel(script=lambda chat: self.script(chat), agent=self)
        self.agent: Any = create_agent(
            self.model,
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

    async def astream(self, text: str) -> list[Any]:
        given = {"messages": [HumanMessage(text)]}
        return [piece async for piece in self.agent.astream(given, self.config, stream_mode="messages")]

    def held(self) -> list[Any]:
        found: list[Any] = self.agent.get_state(self.config).values.get("messages", [])
        return found


class TestLangChain(AdapterContract):
    kind = LangChainAgent

    async def call_tool(self, memory: HierarchicalMemory, name: str, arguments: dict[str, Any]) -> str:
        call = {"name": name, "args": arguments, "id": "c1", "type": "tool_call"}
        tool = next(tool for tool in memory_tools(memory) if tool.name == name)
        answer = (await tool.ainvoke(call)).content
        assert tool.invoke(call).content == answer
        return str(answer)


def test_a_call_whose_arguments_are_too_long_keeps_its_thought(memory: HierarchicalMemory) -> None:
    text = "all is quiet " * 3_000
    thinking = {"type": "thinking", "thinking": "I write it.", "signature": "EqQB"}
    use = {"type": "tool_use", "id": "call_1", "name": "write", "input": {"text": text}}
    asked = AIMessage([thinking, use], tool_calls=[{"id": "call_1", "name": "write", "args": {"text": text}}])
    done = ToolMessage("done", tool_call_id="call_1", artifact={"rows": 3})
    conversation = MessagesConversation([HumanMessage("Write."), asked, done])
    sent = conversation.write(memory.fit(conversation.messages, session="s1", max_tokens=BUDGET).entries)
    assert sent[-2].content[0] == thinking and sent[-2].tool_calls[0]["id"] == "call_1"
    assert 0 < len(sent[-2].tool_calls[0]["args"]["text"]) < 10_000
    assert sent[-1] is done and len(asked.tool_calls[0]["args"]["text"]) == len(text)


def test_an_agent_that_is_called_without_a_thread_says_what_to_do(memory: HierarchicalMemory) -> None:
    agent: Any = LangChainAgent(memory, "s1", lambda chat: pytest.fail("not asked"), str, None)
    graph: Any = create_agent(agent.model, middleware=[TinymemMiddleware(memory)])
    with pytest.raises(InputError, match=re.escape('invoke the agent with {"configurable": {"thread_id": ...}}')):
        graph.invoke({"messages": [HumanMessage("Hello?")]})
    named: Any = create_agent(agent.model, middleware=[TinymemMiddleware(memory, session="s9")])
    agent.script = lambda chat: Move(answer="Hello.")
    named.invoke({"messages": [HumanMessage("Hello?")]})
    assert {step.session for step in memory.history()} == {"s9"}


def test_the_retriever_finds_the_best_first(memory: HierarchicalMemory) -> None:
    for session, text in (("s1", "The Vault server listens on port 18443."), ("s2", "Bob likes pizza and pasta.")):
        memory.archive_messages([{"role": "user", "content": text}], session=session)
    (found,) = TinymemRetriever(memory=memory, k=1).invoke("Which port has Vault?")
    assert found.page_content == "The Vault server listens on port 18443."
    assert found.metadata["session"] == "s1" and 0 < found.metadata["relevance"] < 1
    later = asyncio.run(TinymemRetriever(memory=memory, session="s2").ainvoke("Which port has Vault?"))
    assert {document.metadata["session"] for document in later} <= {"s2"}
    assert TinymemRetriever(memory=memory).invoke("pizza", k=1)[0].metadata["session"] == "s2"


def test_an_agent_that_runs_as_a_tool_has_a_session_of_its_own(memory: HierarchicalMemory) -> None:
    def inner(chat: Any) -> Move:
        return Move(answer="Vault is in rack 7.") if chat[-1]["role"] == "tool" else Move(path="plan.md")

    def outer(chat: Any) -> Move:
        return Move(answer="Rack 7.") if chat[-1]["role"] == "tool" else Move(path="vault.md")

    librarian = LangChainAgent(memory, "none", inner, lambda path: "The plan shows rack 7, quokka.", None)

    def ask_librarian(path: str) -> str:
        asked = {"messages": [HumanMessage(f"Find the rack of Vault in {path}.")]}
        return str(librarian.agent.invoke(asked)["messages"][-1].text)

    chief = LangChainAgent(memory, "s1", outer, ask_librarian, None)
    for _ in range(2):
        chief.ask("In which rack is the Vault server, Ann asks?")
    assert len(librarian.requests) == 4 and "Ann asks" not in str(librarian.requests)
    assert "quokka" not in str(chief.requests)
    names = {str(step.session) for step in memory.history()}
    assert len(names) == 3 and all(name == "s1" or name.startswith("s1/agents/") for name in names)
    assert "quokka" not in " ".join(step.text for step in memory.history("s1"))
    assert {step.metadata["parent"] for step in memory.history(Beginning("s1/agents/"))} == {"s1"}


def test_what_other_middleware_puts_in_place_of_a_result_is_not_archived(memory: HierarchicalMemory) -> None:
    def script(chat: Any) -> Move:
        read = sum(message["role"] == "tool" for message in chat)
        return Move(path=f"{read}.md") if read < 3 else Move(answer="Read.")

    made = LangChainAgent(memory, "s1", script, str, None)
    clearing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=1)])

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        return f"The plan {path} shows the quokka."

    middleware: Any = [clearing, TinymemMiddleware(memory, max_tokens=BUDGET)]
    made.agent = create_agent(made.model, [read_file], middleware=middleware, checkpointer=made.saver)
    made.ask("Read the plans.")
    assert "[cleared]" in str(made.requests[-1])
    kept = [step.text for step in memory.history()]
    assert "[cleared]" not in str(kept) and len(kept) == 8
    assert all(sum(f"The plan {at}.md" in text for text in kept) == 1 for at in range(3))
