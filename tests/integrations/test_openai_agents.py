"""The session and the filter of the Agents SDK, with its scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import responses_rules
from adapter_contract import SYSTEM, AdapterContract, Agent, Read, Script, open_memory, thought
from scripted_model import BUDGET

from tinymem import HierarchicalMemory
from tinymem.messages.formats import conversation_from

pytest.importorskip("agents")

from agents import Agent as SdkAgent
from agents import RunConfig, Runner, function_tool, set_trace_processors, trace
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.testing.model import ModelCall, ModelStep
from openai.types.responses.response_reasoning_item import ResponseReasoningItem, Summary

from tinymem.integrations.openai_agents import TinymemSession, memory_tools, recalling

set_trace_processors([])  # nothing is sent anywhere
ITEMS: list[Any] = [
    {"role": "user", "content": "Which port?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"host": "staging"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "It is 18443."},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "18443.", "annotations": []}]},
    {"role": "user", "content": "Which port?"},
]  # fmt: skip


class AgentsAgent(Agent):
    def __init__(self, memory: HierarchicalMemory, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()
        self.script, self.session = script, TinymemSession(session, memory)

        @function_tool
        def read_file(path: str) -> str:
            """Read a file."""
            return read(path)

        model = ScriptedModel([ModelStep.respond(self.respond)] * 100)
        self.sdk: Any = SdkAgent("reader", instructions=SYSTEM, tools=[read_file], model=model)
        self.config: Any = RunConfig(call_model_input_filter=recalling(memory, BUDGET))

    def respond(self, call: ModelCall) -> Any:
        items: Any = call.input
        assert responses_rules.broken_rules(items) == []
        assert call.system_instructions == SYSTEM
        sent = [{"role": "system", "content": SYSTEM}, *conversation_from(items, "responses").messages]
        self.requests.append(sent)
        self.thoughts.append([one["summary"][0]["text"] for one in items if one.get("type") == "reasoning"])
        move, number = self.script(sent), len(self.held())
        summary = Summary(text=thought(number), type="summary_text")
        thinking = ResponseReasoningItem(id=f"rs_{number}", type="reasoning", summary=[summary])
        if move.answer:
            return [thinking, assistant_message(move.answer, item_id=f"msg_{number}")]
        asked = {"path": move.path}
        return [thinking, function_call("read_file", asked, call_id=f"call_{number}", item_id=f"fc_{number}")]

    def ask(self, text: str) -> str:
        return asyncio.run(self.aask(text))

    async def aask(self, text: str) -> str:
        done = await Runner.run(self.sdk, text, session=self.session, run_config=self.config, max_turns=200)
        return str(done.final_output)

    async def astream(self, text: str) -> None:
        run = Runner.run_streamed(self.sdk, text, session=self.session, run_config=self.config, max_turns=200)
        async for _ in run.stream_events():
            pass

    def held(self) -> list[Any]:
        from tinymem.integrations.openai_agents import _items

        memory: Any = self.session.memory
        return [item for _, item in _items(memory, self.session.session_id, None)]


class TestOpenAIAgents(AdapterContract):
    kind = AgentsAgent
    awaits = True

    async def call_tool(self, memory: HierarchicalMemory, name: str, arguments: dict[str, Any]) -> str:
        def move(data: Any) -> Any:
            done = [one["output"] for one in data.input if one.get("type") == "function_call_output"]
            return [assistant_message(done[0])] if done else [function_call(name, arguments, call_id="c1")]

        model = ScriptedModel([ModelStep.respond(move)] * 2)
        sdk: Any = SdkAgent("a", model=model, tools=memory_tools(memory))
        return str((await Runner.run(sdk, "Go.")).final_output)


def test_a_session_gives_back_what_it_was_given(tmp_path: Path) -> None:
    async def main() -> None:
        with open_memory(tmp_path) as memory:
            session = TinymemSession("s1", memory)
            await session.add_items(ITEMS[:3])
            await session.add_items(ITEMS[3:])  # the result comes later
            await TinymemSession("s2", memory).add_items(ITEMS[:1])
        with open_memory(tmp_path) as memory:
            session = TinymemSession("s1", memory)
            for _ in range(2):
                session.close()  # the memory stays open
            assert await session.get_items() == ITEMS
            assert [await session.get_items(n) for n in (0, 1, 4)] == [[], ITEMS[-1:], ITEMS[-4:]]
            for at in reversed(range(len(ITEMS))):
                assert await session.pop_item() == ITEMS[at]
                assert await session.get_items() == ITEMS[:at]
            assert await session.pop_item() is None
            await session.add_items(ITEMS)
            await session.clear_session()
            assert await session.get_items() == []
            assert await TinymemSession("s2", memory).get_items() == ITEMS[:1]

    asyncio.run(main())


def test_an_agent_that_runs_as_a_tool_has_a_session_of_its_own(memory: HierarchicalMemory) -> None:
    seen: dict[str, list[str]] = {"outer": [], "inner": []}

    def outer(call: ModelCall) -> Any:
        seen["outer"].append(str(call.input))
        if any("is in rack" in str(one) for one in call.input):
            return [assistant_message("Rack 7.")]
        return [function_call("ask_librarian", {"input": "Find the rack of Vault."}, call_id="call_1")]

    def inner(call: ModelCall) -> Any:
        seen["inner"].append(str(call.input))
        if any(isinstance(one, dict) and one.get("type") == "function_call_output" for one in call.input):
            return [assistant_message("Vault is in rack 7.")]
        return [function_call("look", {"host": "vault"}, call_id="call_2")]

    @function_tool
    def look(host: str) -> str:
        """Look at a host."""
        return f"The plan of {host} shows rack 7, quokka."

    def scripted(move: Any) -> Any:
        return ScriptedModel([ModelStep.respond(move)] * 9)

    librarian: Any = SdkAgent("librarian", tools=[look], model=scripted(inner))
    tool = librarian.as_tool("ask_librarian", "Ask the librarian.")
    chief: Any = SdkAgent("chief", tools=[tool], model=scripted(outer))
    given: Any = {"input": "In which rack is the Vault server, Ann asks?", "session": TinymemSession("s1", memory)}
    config = RunConfig(call_model_input_filter=recalling(memory, BUDGET))

    async def main() -> None:
        for _ in range(2):
            await Runner.run(chief, run_config=config, **given)

    asyncio.run(main())
    assert len(seen["inner"]) == 2 and not any("Ann asks" in one for one in seen["inner"])
    assert not any("quokka" in one for one in seen["outer"])
    names = {str(step.session) for step in memory.history()}
    told = {name: " ".join(step.text for step in memory.history(name)) for name in names}
    (name,) = told.keys() - {"s1"}
    assert name.startswith("s1/agents/librarian-") and "quokka" in told[name] and "Ann asks" not in told[name]
    assert "Vault is in rack 7." in told["s1"] and "quokka" not in told["s1"]
    assert {step.metadata["parent"] for step in memory.history(name)} == {"s1"}


def answers(text: str, seen: list[str]) -> Any:
    """An agent that answers this at its second turn, and notes what it is sent."""

    def move(call: ModelCall) -> Any:
        seen.append(str(call.input))
        done = any(isinstance(one, dict) and one.get("type") == "function_call_output" for one in call.input[-1:])
        return [assistant_message(text)] if done else [function_call("wait", {}, call_id=f"call_{len(seen)}")]

    @function_tool
    def wait() -> str:
        """Wait."""
        return "Waited."

    return SdkAgent(text[:8], tools=[wait], model=ScriptedModel([ModelStep.respond(move)] * 9))


async def run_as_ann(memory: HierarchicalMemory) -> None:
    config = RunConfig(call_model_input_filter=recalling(memory))
    await Runner.run(
        answers("Ann, yes.", []), "Hello, I am Ann.", session=TinymemSession("ann", memory), run_config=config
    )


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("named", [{"filter": "bob"}, {"group": "bob"}, {"session": "bob"}, {}], ids=str)
def test_a_run_is_filed_under_its_own_name_whatever_ran_before(
    memory: HierarchicalMemory, together: bool, named: dict[str, str]
) -> None:
    bob = answers("Bob, yes.", [])
    config = RunConfig(
        call_model_input_filter=recalling(memory, session=named.get("filter")), group_id=named.get("group")
    )

    async def run() -> None:
        session = TinymemSession("bob", memory) if "session" in named else None
        for _ in range(2):
            await Runner.run(bob, "Hello, I am Bob.", session=session, run_config=config)

    async def main() -> None:
        if together:
            await asyncio.gather(run_as_ann(memory), run())
            return
        with trace("both", group_id=named.get("group")):  # as the SDK's documentation has it
            await run_as_ann(memory)
            await run()

    if named:
        asyncio.run(main())
        filed = {str(step.session) for step in memory.history() if "Bob" in step.text}
        assert filed == {"bob"} and not any("Ann" in step.text for step in memory.history("bob"))
    else:
        with pytest.raises(Exception, match="the conversation has no name"):
            asyncio.run(main())
