"""The calls that the founding documents show, as a reader types them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tinymem import (
    ActionStep,
    AdaptiveMemoryManager,
    AgentMemory,
    ConversationManager,
    FinalAnswerStep,
    HierarchicalMemory,
    MemoryManager,
    ScratchpadStep,
    Signal,
    Step,
    SystemPromptStep,
    TaskStep,
    WorkingMemory,
    count_tokens,
    debug_memory,
    keep_last_n_steps,
)
from tinymem.memory import execution_result

# -- steps ------------------------------------------------------------------------------------------------------------

SEARCH = '{"tool": "search", "arguments": {"query": "python"}}'
SENT: list[tuple[Step, list[tuple[str, str]]]] = [
    (SystemPromptStep(content="You are helpful."), [("system", "You are helpful.")]),
    (TaskStep(task="Find the bug."), [("user", "Find the bug.")]),
    (
        ActionStep(thought="", tool_name="search", tool_args={}, observation="3 results", raw_llm_response=SEARCH),
        [("assistant", SEARCH), ("user", "Observation: 3 results")],
    ),
    (
        ActionStep(tool_name="search", tool_args={}, error="timed out", raw_llm_response="search()"),
        [("assistant", "search()"), ("user", "Error: timed out")],
    ),
    (
        ActionStep(reasoning="I should look it up.", action="web_search", observation="Python 3.13 is out."),
        [("assistant", "I should look it up."), ("user", "Observation: Python 3.13 is out.")],
    ),
    (
        ScratchpadStep(content="The port is 8443.", raw_llm_response="note()"),
        [("assistant", "note()"), ("user", "Scratchpad noted: The port is 8443.")],
    ),
    (FinalAnswerStep(output="42"), []),
]


@pytest.mark.parametrize(("step", "sent"), SENT)
def test_a_step_is_sent_as_the_documents_say(step: Step, sent: list[tuple[str, str]]) -> None:
    assert step.to_messages() == [{"role": role, "content": content} for role, content in sent]


def test_the_fields_of_a_step_are_read_by_the_names_that_they_were_given() -> None:
    step = ActionStep(reasoning="Add.", action="sum", code="print(1 + 1)", signals=[Signal("explore", "numbers")])
    assert (step.reasoning, step.action, step.thought, step.tool_name) == ("Add.", "sum", "Add.", "sum")
    assert step.code == "print(1 + 1)" and (step.signals[0].type, step.signals[0].message) == ("explore", "numbers")
    assert ActionStep(tool_name="ls", tool_args={"path": "."}).tool_args == {"path": "."}
    assert FinalAnswerStep(output=42).output == 42
    assert ScratchpadStep(content="a").to_messages()[0] == {"role": "assistant", "content": "a"}


def test_truncate_cuts_the_observation() -> None:
    step = ActionStep(thought="t" * 300, tool_name="cat", observation="x" * 300)
    assert step.truncate().observation == "x" * 100 + "..."
    assert step.truncate(10).observation == "x" * 10 + "..." and step.truncate(10).thought == step.thought
    assert step.truncate_observation(10) == step.truncate(10)
    assert step.truncate(300) == step and step.observation == "x" * 300


# -- the window -------------------------------------------------------------------------------------------------------


def agent_run(actions: int) -> list[Step]:
    """A system prompt, a task, and actions; each has 600 characters of output."""
    run: list[Step] = [SystemPromptStep(content="You are a careful engineer."), TaskStep(task="Fix the build.")]
    for number in range(actions):
        output = f"log {number} ".ljust(600, ".")
        run.append(ActionStep(tool_name="bash", tool_args={"cmd": f"make {number}"}, observation=output))
    return run


def test_more_than_1000_steps_prune_themselves() -> None:
    memory = MemoryManager()
    memory.add_steps([ActionStep(thought=str(number)) for number in range(1_000)])
    assert len(memory.steps) == 1_000
    memory.add(ActionStep(thought="one more"))
    assert len(memory.steps) < 1_000


SAID: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is open?"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
CALLED: list[dict[str, Any]] = [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a b"},
]


@pytest.mark.parametrize("kind", [MemoryManager, AdaptiveMemoryManager, HierarchicalMemory])
def test_all_memories_share_their_verbs(kind: type[MemoryManager | HierarchicalMemory]) -> None:
    memory = kind()
    memory.add_messages(SAID)
    memory.add_message("assistant", "Two ports.")
    memory.add_messages(CALLED)
    memory.add(ActionStep(thought="Look.", tool_name="bash", tool_args={"cmd": "ss"}, observation="80, 443"))
    assert len(memory) == len(memory.steps) == len(list(memory)) == 5
    assert memory.system_prompt == "Be brief." and len(memory.get_steps_by_type("action")) == 2
    sent = memory.to_messages()
    assert sent[:2] == SAID and sent[3:5] == CALLED, "what came as messages comes out as it came in"
    assert sent[-1] == {"role": "user", "content": "Observation: 80, 443"}
    assert memory.to_messages(style="tools")[-1]["role"] == "tool"
    assert all(message["role"] != "tool" for message in memory.to_messages(style="observation"))
    assert debug_memory(memory).tokens == count_tokens(memory.to_messages()) == memory.tokens
    report = memory.prune(keep_last_n_steps(1))
    assert len(report.removed) == 2 and len(memory) == 3, "the newest step stays, with system prompt and request"
    memory.restore(report)
    memory.restore(memory.clear())
    assert len(memory.clear(keep_system=True).removed) == 4 and len(memory) == 1
    if isinstance(memory, HierarchicalMemory):
        assert "80, 443" in memory.recall("What did ss show?", max_tokens=200).text, "cleared is not forgotten"
        memory.close()


# -- strategies -------------------------------------------------------------------------------------------------------


def without_failures(steps: list[Step]) -> list[Step]:
    """Filter with isinstance and set."""
    failed = {step for step in steps if isinstance(step, ActionStep) and step.error is not None}
    important = {step for step in steps if isinstance(step, (SystemPromptStep, TaskStep, FinalAnswerStep))}
    recent = set(steps[-5:])
    return [step for step in steps if step in important or (step in recent and step not in failed)]


def test_a_function_that_filters_with_isinstance_and_set() -> None:
    run = [*agent_run(10), ActionStep(tool_name="bash", error="exit code 2"), *agent_run(3)[2:]]
    memory = MemoryManager(steps=run, prune_strategy=without_failures)
    before = memory.steps
    report = memory.prune()
    assert list(memory.steps) == [*before[:2], before[-5], *before[-3:]]
    memory.restore(report)
    assert memory.steps == before


# -- the smaller memories ---------------------------------------------------------------------------------------------


def test_an_agent_memory_stores_observes_and_fails() -> None:
    memory = AgentMemory()
    memory.store("result", 42)
    memory.observe("The API returns JSON, not plain text")
    memory.fail("Tried parsing as XML - wrong format")
    assert memory.recall("result") == 42
    assert memory.recall("intermediate_result", default=None) is None and memory.recall("valid", False) is False
    assert memory.variables == {"result": 42}
    assert memory.observations == ["The API returns JSON, not plain text"]
    assert "Tried parsing as XML - wrong format" in memory.failed_approaches
    memory.clear()
    assert (memory.variables, memory.observations, memory.failed_approaches) == ({}, [], [])


def test_a_working_memory_keeps_every_field_of_a_step() -> None:
    known = {"execution_status": "success", "task_status": "inprogress", "result": "A silver dream.",
             "next_step": "Translate it", "execution_time": 2.5}  # fmt: skip
    result = {**known, "local_variables": {"lines": [4, 4], "client": object}, "model": "small"}
    memory = WorkingMemory(max_tokens=64 * 1024, system_prompt="You are creative.", task_description="Write a poem.")
    memory.add({"step_number": 1, "thought": "Generate a poem.", "action": "poem = write()", "result": result})
    (step,) = memory.steps
    assert (step.step_number, step.thought, step.code) == (1, "Generate a poem.", "poem = write()")
    kept = execution_result(step)
    assert {name: getattr(kept, name) for name in known} == known and kept.error is None
    assert kept.local_variables == {"lines": [4, 4], "client": "<class 'object'>"}, "by its repr"
    assert kept.more == {"model": "small"}
    system, task, history = memory.get_full_context()
    assert system == {"role": "system", "content": "You are creative."}
    assert task == {"role": "user", "content": "Write a poem."}
    assert history == {"role": "user", "content": memory.format_history(10)}
    assert "silver dream" in history["content"] and "Translate it" in history["content"]


def test_a_conversation_manager_keeps_messages_in_order_and_by_id() -> None:
    conversation = ConversationManager()
    assert conversation.max_tokens == 64 * 1024 and conversation.get_history() == []
    conversation.add_message("user", "Translate the poem.")
    conversation.add_message(role="assistant", content="Castilian Spanish or Latin American Spanish?")
    conversation.add_message("user", "Use Latin American Spanish.")
    assert [message.role for message in conversation.messages] == ["user", "assistant", "user"]
    first, last = conversation.messages[0], conversation.messages[-1]
    assert (first.content, last.content) == ("Translate the poem.", "Use Latin American Spanish.")
    assert len(conversation.messages) == len(conversation.message_dict) == 3
    assert last.nanoid in conversation.message_dict and conversation.message_dict.get("nobody") is None
    assert conversation.message_dict[last.nanoid] == last
    assert {message.nanoid for message in conversation.messages} == set(conversation.message_dict)

    async def retrieved() -> str:
        return await conversation.retrieve_message(nanoid=last.nanoid)

    assert asyncio.run(retrieved()) == "Use Latin American Spanish."
