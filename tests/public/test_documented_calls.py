"""The calls that the founding documents show, as a reader types them: steps, the window, and the looks into it.

Strategies and the other memories have files of their own: test_documented_strategies and test_documented_memories.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tinymem import (
    ActionStep,
    AdaptiveMemoryManager,
    FinalAnswerStep,
    HierarchicalMemory,
    MemoryManager,
    PlanningStep,
    ScratchpadStep,
    Signal,
    SystemPromptStep,
    TaskStep,
    count_tokens,
    debug_memory,
    keep_last_n_steps,
    visualize_memory,
)

# -- steps ------------------------------------------------------------------------------------------------------------


def test_a_system_prompt_and_a_task() -> None:
    assert SystemPromptStep(content="You are helpful.").to_messages() == [
        {"role": "system", "content": "You are helpful."}
    ]
    assert TaskStep(task="Find the bug.").to_messages() == [{"role": "user", "content": "Find the bug."}]


def test_an_action_by_its_raw_response() -> None:
    step = ActionStep(
        thought="",
        tool_name="search",
        tool_args={"query": "python"},
        observation="3 results",
        error=None,
        is_final=False,
        raw_llm_response='{"tool": "search", "arguments": {"query": "python"}}',
    )
    assert step.to_messages() == [
        {"role": "assistant", "content": '{"tool": "search", "arguments": {"query": "python"}}'},
        {"role": "user", "content": "Observation: 3 results"},
    ]
    assert step.tool_name == "search" and step.tool_args == {"query": "python"} and step.thought == ""
    failed = ActionStep(tool_name="search", tool_args={}, error="timed out", raw_llm_response="search()")
    assert failed.to_messages()[1] == {"role": "user", "content": "Error: timed out"}


def test_an_action_by_its_reasoning() -> None:
    step = ActionStep(
        reasoning="I should look it up.",
        action="web_search",
        observation="Python 3.13 is out.",
        signals=[Signal(type="explore", message="looking for the release")],
    )
    assert step.to_messages() == [
        {"role": "assistant", "content": "I should look it up."},
        {"role": "user", "content": "Observation: Python 3.13 is out."},
    ]
    assert step.reasoning == "I should look it up." and step.action == "web_search"
    assert step.signals[0].type == "explore" and step.signals[0].message == "looking for the release"
    coded = ActionStep(reasoning="Add them.", code="print(1 + 1)", observation="2")
    assert coded.code == "print(1 + 1)"
    assert [message["role"] for message in coded.to_messages()] == ["assistant", "user"]
    assert "Add them." in coded.to_messages()[0]["content"]


def test_a_scratchpad_note() -> None:
    step = ScratchpadStep(content="The port is 8443.", raw_llm_response="note('The port is 8443.')")
    assert step.to_messages() == [
        {"role": "assistant", "content": "note('The port is 8443.')"},
        {"role": "user", "content": "Scratchpad noted: The port is 8443."},
    ]
    assert ScratchpadStep(content="a").to_messages()[0] == {"role": "assistant", "content": "a"}


def test_a_final_answer_sends_nothing_and_a_plan_asks_to_be_carried_out() -> None:
    assert FinalAnswerStep(output="42").to_messages() == [] and FinalAnswerStep(output=42).output == 42
    plan, proceed = PlanningStep(plan="1. Look. 2. Mend.").to_messages()
    assert plan == {"role": "assistant", "content": "1. Look. 2. Mend."} and proceed["role"] == "user"
    assert PlanningStep(plan="1. Look.").to_messages(summary_mode=True) == []


def test_truncate_cuts_the_observation() -> None:
    step = ActionStep(thought="t" * 300, tool_name="cat", observation="x" * 300)
    assert step.truncate().observation == "x" * 100 + "..."
    assert step.truncate(10).observation == "x" * 10 + "..." and step.truncate(10).thought == step.thought
    assert step.truncate_observation(10) == step.truncate(10)
    assert step.truncate(300) == step and step.observation == "x" * 300


# -- the window -------------------------------------------------------------------------------------------------------


def test_the_verbs_of_a_window() -> None:
    memory = MemoryManager(system_prompt="Be brief.")
    memory.add(TaskStep(task="Count."))
    for number in range(10):
        memory.add(ActionStep(tool_name="count", tool_args={"to": number}, observation=str(number)))
    assert memory.action_count == 10 and len(memory.get_steps_by_type(ActionStep)) == 10
    assert memory.to_messages()[0]["role"] == "system"
    assert all(message["role"] != "system" for message in memory.to_messages(summary_mode=True))
    memory.prune(keep_last_n_steps(3))
    assert [type(step).__name__ for step in memory.steps] == ["SystemPromptStep", "TaskStep", *["ActionStep"] * 3]
    memory.prune()
    memory.add_message("user", "And?")
    memory.add_messages([{"role": "assistant", "content": "Ten."}])
    assert [step.text for step in memory][-2:] == ["And?", "Ten."]
    memory.clear()
    assert len(memory.steps) == 0 and memory.system_prompt is None
    kept = MemoryManager(system_prompt="Be brief.")
    kept.add(TaskStep(task="Count."))
    kept.clear(keep_system=True)
    assert [step.to_messages()[0]["content"] for step in kept.steps] == ["Be brief."]


def test_more_than_1000_steps_prune_themselves() -> None:
    memory = MemoryManager()
    for number in range(1_000):
        memory.add(ActionStep(thought=str(number)))
    assert len(memory.steps) == 1_000
    memory.add(ActionStep(thought="one more"))
    assert len(memory.steps) < 1_000


SAID: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is open?"}]
CALLED: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a b"},
]


def memories() -> list[MemoryManager | HierarchicalMemory]:
    return [MemoryManager(), AdaptiveMemoryManager(4_000), HierarchicalMemory()]


@pytest.mark.parametrize("memory", memories(), ids=lambda memory: type(memory).__name__)
def test_all_memories_share_their_verbs(memory: MemoryManager | HierarchicalMemory) -> None:
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
    assert len(memory) == 5
    memory.restore(memory.clear())
    assert len(memory.clear(keep_system=True).removed) == 4 and len(memory) == 1
    if isinstance(memory, HierarchicalMemory):
        assert "80, 443" in memory.recall("What did ss show?", max_tokens=200).text, "cleared is not forgotten"
        memory.close()


def test_steps_are_read_as_a_list_and_say_how_they_are_changed() -> None:
    memory = MemoryManager(system_prompt="Be brief.")
    memory.add_message("user", "Which port?")
    assert memory.steps[0].text == "Be brief." and [step.text for step in memory.steps[1:]] == ["Which port?"]
    assert len(memory.steps) == 2 and memory.steps[-1] in memory.steps
    with pytest.raises(AttributeError, match=r"call memory\.add\(step\)"):
        memory.steps.append(TaskStep("more"))  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'size'"):
        memory.steps.size  # type: ignore[attr-defined]  # noqa: B018


# -- a memory for this process ----------------------------------------------------------------------------------------


def test_a_hierarchy_without_a_path_leaves_nothing_behind() -> None:
    with HierarchicalMemory() as memory:
        memory.add(TaskStep(task="Remember the port 8443."))
        assert memory.add_message("user", "Which port?").text == "Which port?"
        assert len(memory.short_term) == 2 and list(memory.medium_term) == [] and memory.long_term is not None
        assert "8443" in memory.recall("port", max_tokens=100).text
        folder = memory.path
        assert folder.is_dir()
    assert not folder.exists()
    dropped = HierarchicalMemory()
    folder = dropped.path
    del dropped
    gc.collect()
    assert not folder.exists()


# -- looking into it --------------------------------------------------------------------------------------------------


def test_visualize_memory_lists_the_steps() -> None:
    memory = MemoryManager(system_prompt="Be brief.")
    memory.add(ActionStep(tool_name="count", observation="two"))
    heading, first, second = visualize_memory(memory).splitlines()
    assert "MemoryManager" in heading and "0  SystemPromptStep" in first
    assert "1  ActionStep (obs: 3 chars)" in second
