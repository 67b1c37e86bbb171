"""The calls that the founding documents show of the smaller memories, typed as a reader would."""

from __future__ import annotations

import asyncio

from tinymem import (
    ActionStep,
    AdaptiveMemoryManager,
    AgentMemory,
    ConversationManager,
    SystemPromptStep,
    TaskStep,
    WorkingMemory,
    count_tokens,
)
from tinymem.memory import execution_result

POEM = "The moon glows soft in night's embrace,\nA silver dream in cosmic space."
ASKED = "Write a short poem about the moon and translate it to Spanish."


def test_an_adaptive_manager_has_4000_tokens() -> None:
    memory = AdaptiveMemoryManager()
    assert memory.max_tokens == 4000
    memory.add(SystemPromptStep(content="You are a helpful agent."))
    memory.add(TaskStep(task="Read the log."))
    for at in range(100):
        memory.add(
            ActionStep(thought="", tool_name="read", tool_args={"page": at}, observation="line of the log " * 40)
        )
    messages = memory.to_messages()
    assert count_tokens(messages) <= 4000
    assert messages[0] == {"role": "system", "content": "You are a helpful agent."}
    assert messages[1] == {"role": "user", "content": "Read the log."}


# -- AgentMemory


def test_an_agent_memory_stores_observes_and_fails() -> None:
    memory = AgentMemory()
    memory.store("result", 42)
    memory.observe("The API returns JSON, not plain text")
    memory.fail("Tried parsing as XML - wrong format")
    assert memory.recall("result") == 42
    assert memory.recall("intermediate_result", default=None) is None
    assert memory.recall("api_key_valid", False) is False
    assert memory.variables == {"result": 42}
    assert memory.observations == ["The API returns JSON, not plain text"]
    assert "Tried parsing as XML - wrong format" in memory.failed_approaches
    memory.clear()
    assert (memory.variables, memory.observations, memory.failed_approaches) == ({}, [], [])


def test_an_agent_memory_is_injected_into_the_code_that_is_run() -> None:
    memory = AgentMemory()
    memory.store("rows", [3, 1, 2])
    namespace = memory.to_namespace()
    assert {"memory", "store", "recall", "observe", "fail", "rows"} == set(namespace)
    exec("store('total', sum(rows))\nmemory.observe('three rows')\nmemory.fail('guessing')", namespace)
    assert memory.recall("total") == 6
    assert memory.observations == ["three rows"] and memory.failed_approaches == ["guessing"]


# -- WorkingMemory


def test_a_working_memory_keeps_every_field_of_a_step() -> None:
    memory = WorkingMemory(max_tokens=64 * 1024, system_prompt="You are a creative AI.", task_description=ASKED)
    memory.add({
        "step_number": 1,
        "thought": "Generate a short poem about the moon using the agent_tool.",
        "action": "poem = await default.agent_tool(prompt='Write a 4-line poem about the moon.')",
        "result": {
            "execution_status": "success",
            "task_status": "inprogress",
            "result": POEM,
            "next_step": "Translate the poem to Spanish",
            "execution_time": 2.5,
            "local_variables": {"step1_poem": POEM, "lines": [4, 4], "client": object},
            "model": "small",
        },
    })  # fmt: skip
    (step,) = memory.steps
    assert step.step_number == 1
    assert step.thought == "Generate a short poem about the moon using the agent_tool."
    assert step.code == "poem = await default.agent_tool(prompt='Write a 4-line poem about the moon.')"
    result = execution_result(step)
    assert (result.execution_status, result.task_status, result.error) == ("success", "inprogress", None)
    assert (result.result, result.next_step, result.execution_time) == (POEM, "Translate the poem to Spanish", 2.5)
    assert result.local_variables["step1_poem"] == POEM and result.local_variables["lines"] == [4, 4]
    assert result.local_variables["client"] == "<class 'object'>"  # what cannot be kept is there by its repr
    assert result.more == {"model": "small"}
    system, task, history = memory.get_full_context()
    assert system == {"role": "system", "content": "You are a creative AI."}
    assert task == {"role": "user", "content": ASKED}
    assert history == {"role": "user", "content": memory.format_history(10)}
    assert "silver dream" in history["content"] and "Translate the poem to Spanish" in history["content"]


# -- ConversationManager


def test_a_conversation_manager_keeps_messages_in_order_and_by_id() -> None:
    conversation = ConversationManager()
    assert conversation.max_tokens == 64 * 1024 and conversation.get_history() == []
    conversation.add_message("user", ASKED)
    conversation.add_message(role="assistant", content="Castilian Spanish or Latin American Spanish?")
    conversation.add_message("user", "Use Latin American Spanish.")
    assert len(conversation.messages) == 3
    assert [message.role for message in conversation.messages] == ["user", "assistant", "user"]
    first, last = conversation.messages[0], conversation.messages[-1]
    assert (first.role, first.content, last.content) == ("user", ASKED, "Use Latin American Spanish.")
    assert conversation.message_dict[last.nanoid] == last and last.nanoid in conversation.message_dict
    assert len(conversation.message_dict) == 3 and conversation.message_dict.get("nobody") is None
    assert {message.nanoid for message in conversation.messages} == set(conversation.message_dict)


def test_a_message_is_retrieved_by_its_id() -> None:
    conversation = ConversationManager()
    nanoid = conversation.add_message("user", "Use Latin American Spanish.").nanoid

    async def main() -> str:
        return await conversation.retrieve_message(nanoid=nanoid)

    assert asyncio.run(main()) == "Use Latin American Spanish."
