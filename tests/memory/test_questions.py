"""The two questions of a prompt: what was asked last in words comes before what the window is about."""

from __future__ import annotations

import pytest

from tinymem import ActionStep, HierarchicalMemory, MessageStep, Step, TaskStep
from tinymem.memory.context.questions import asked_last
from tinymem.steps.step import Message

NEED = "I need the code of the farm where hens are grey."
TASK = TaskStep("Count all hens in barns.")


def looked(at: int, thought: str = "Next.", seen: str = "") -> ActionStep:
    hens = " ".join(f"stall-{at * 31 + stall} has hay and {stall * 7 % 19} hens" for stall in range(40))
    return ActionStep(thought, tool_name="look", tool_args={"barn": at}, observation=f"{hens} {seen}", session="s")


@pytest.mark.parametrize(
    ("newest", "asked"),
    [
        ([looked(1, NEED)], NEED),
        ([looked(1, NEED), looked(2, "")], NEED),
        ([looked(1), MessageStep("user", NEED)], NEED),
        ([MessageStep("assistant", NEED)], NEED),
        ([TASK], TASK.task),
        ([looked(1, NEED), looked(2), looked(3)], ""),
        ([looked(1, "Now let me look at the next barn.")], ""),
        ([looked(1, "The code stands in the book of the farm:")], ""),
        ([looked(1, f"{NEED} " * 20)], ""),
        ([looked(1, ""), looked(2, "")], ""),
    ],
)
def test_a_person_or_the_agent_asks_in_words(newest: list[Step], asked: str) -> None:
    assert asked_last([TASK, looked(0, "Barns."), *newest]).strip() == asked


@pytest.mark.parametrize("by_person", [False, True])
def test_every_need_of_a_loop_is_met_by_the_next_prompt(by_person: bool) -> None:
    """A session's prompts only grow at their end but for jumps, and one that has no room for what is asked jumps."""
    needs = {at: at - 45 for at in range(50, 120, 6)}
    missed: list[int] = []
    last: list[Message] = []
    jumps = 0
    with HierarchicalMemory(store="exact", max_tokens=3_000) as memory:
        memory.add(TASK)
        for at in range(120):
            asked = f"I need the key of the gate at river{needs[at]}." if at in needs else ""
            memory.add(looked(at, "" if by_person else asked, f"river{at} has a gate, its key is K{at * 991}."))
            if asked and by_person:
                memory.add(MessageStep("user", asked, session="s"))
            sent = memory.context(session="s").messages
            jumps += sent[: len(last)] != last
            last = sent
            prompts = [sent, memory.context().messages] if asked else []
            missed += [at for prompt in prompts if f"K{needs[at] * 991}." not in str(prompt)]
    assert not missed and 5 < jumps < 45
