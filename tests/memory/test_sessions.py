"""Several conversations in one memory: each prompt has the turns of its own, and others are recalled."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinymem import (
    ActionStep,
    Context,
    HierarchicalMemory,
    MemoryManager,
    MessageStep,
    Step,
    SummaryStep,
    SystemPromptStep,
    TaskStep,
    count_tokens,
    keep_last_n_steps,
    no_pruning,
)
from tinymem.messages import problems

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


def turns(context: Context) -> list[Step]:
    """The steps that a context shows as turns of its conversation."""
    kinds = ("message", "placeholder", "moved")
    return [step for entry in context.entries if entry.kind in kinds for step in entry.steps]


def texts(context: Context) -> list[str]:
    return [step.text for step in turns(context)]


def talk(memory: HierarchicalMemory, session: str, count: int, words: int = 12) -> list[Step]:
    roles = ("user", "assistant")
    said = [MessageStep(roles[at % 2], f"{session} {at} " + "leaf " * words, session=session) for at in range(count)]
    return memory.add_steps(said)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.booleans()), min_size=2, max_size=40),
    st.integers(250, 900),
)
def test_a_prompt_has_no_turn_of_another_session_and_its_own_request(
    said: list[tuple[str, int, bool]], budget: int
) -> None:
    with open_memory(max_tokens=budget) as memory:
        for at, (session, length, calls) in enumerate(said):
            request = memory.add_message("user", f"{session} asks {at} " + "leaf " * length, session=session)
            if calls:  # whose result comes after what others say
                call = {"id": f"call{at}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
                memory.add_messages([{"role": "assistant", "content": None, "tool_calls": [call]}], session=session)
                memory.add_message("user", "Meanwhile.", session="d")
                result = {"role": "tool", "tool_call_id": f"call{at}", "content": "leaf " * length}
                memory.add_messages([result], session=session)
            context = memory.context(session=session)
            shown = turns(context)
            assert {step.session for step in shown} == {session} and request.id in {step.id for step in shown}
            assert not problems(context.messages)
            assert count_tokens(context.messages) == context.tokens <= budget


def test_the_prompts_of_each_session_only_grow_between_jumps() -> None:
    sent: dict[str, list[Context]] = {"a": [], "b": []}
    with open_memory(max_tokens=2_000) as memory:
        for at in range(120):
            session = "ab"[at % 3 > 1]
            memory.add_message("user", f"{session} asks {at}. " + "leaf " * (at % 40), session=session)
            sent[session].append(memory.context(session=session))
    for prompts in sent.values():
        jumps = sum(after.messages[: before.stable] != before.messages for before, after in pairwise(prompts))
        assert jumps <= len(prompts) // 6


def test_a_step_that_others_drove_out_of_the_window_is_in_its_own_prompt(tmp_path: Path) -> None:
    with open_memory(tmp_path, max_tokens=2_000) as memory:
        memory.add_messages([{"role": "system", "content": "Answer a in French."}], session="a")
        own = [memory.add(TaskStep("a works on the mill.", session="a")), *talk(memory, "a", 10)]
        memory.add_messages([{"role": "system", "content": "Answer b in German."}], session="b")
        memory.add(TaskStep("b works on the barn.", session="b"))
        talk(memory, "b", 200)
        assert {step.session for step in memory.steps} == {"b"}
    with open_memory(tmp_path, max_tokens=2_000) as memory:  # and after a restart
        assert texts(memory.context(session="a")) == ["Answer a in French.", *[step.text for step in own]]
        assert texts(memory.context(session="b"))[0] == "Answer b in German."


def test_the_last_request_is_found_however_much_was_done_for_it() -> None:
    with open_memory(max_tokens=800) as memory:
        memory.add_message("user", "Please mend the mill.", session="a")
        done = [f"mill part {at} " + "leaf " * 30 for at in range(30)]
        memory.add_steps([ActionStep(tool_name="mend", observation=text, session="a") for text in done])
        talk(memory, "b", 60)
        shown = texts(memory.context(session="a"))
    assert shown[0] == "Please mend the mill." and "mill part 29" in shown[-1] and len(shown) < 30


def test_without_a_session_the_one_that_spoke_last_is_shown() -> None:
    with open_memory(max_tokens=2_000, system_prompt="Be brief.") as memory:
        memory.add_message("user", "The code of the vault is 4711-Q.", session="a")
        memory.add_message("user", "What is the code of the vault?", session="b")
        memory.add(ActionStep(tool_name="look", observation="an empty drawer"))  # of no session: of all
        context = memory.context()
    assert {*texts(context)} == {"Be brief.", "What is the code of the vault?", "look({})\nan empty drawer"}
    assert "4711-Q" in context.recalled.text


def test_steps_without_a_session_are_in_every_prompt() -> None:
    with open_memory(max_tokens=2_000) as memory:
        memory.add_steps([SystemPromptStep("Be brief."), TaskStep("Run the farm.")])
        talk(memory, "a", 1), talk(memory, "b", 1)
        for session in ("a", "b", "new"):
            own = [step.session for step in turns(memory.context(session=session))]
            assert own == [None, None, *[session] * (session != "new")]


def test_a_summary_of_two_sessions_is_in_the_prompt_of_neither() -> None:
    with open_memory(max_tokens=2_000, prune_strategy=no_pruning()) as memory:
        talk(memory, "a", 4), talk(memory, "b", 4)
        memory.prune(lambda steps: [SummaryStep("They spoke of leaves."), *steps[-2:]])
        shown = [texts(memory.context(session=session)) for session in "ab"]
    assert all(len(said) == 2 for said in shown) and "They spoke" not in str(shown)


def test_what_was_cleared_stays_away() -> None:
    with open_memory(max_tokens=2_000) as memory:
        talk(memory, "a", 4)
        memory.clear()
        talk(memory, "b", 20)
        assert texts(memory.context(session="a")) == []


@pytest.mark.parametrize(("first", "second"), [("team*", "team"), ("team*", "team/a"), ("x\n", "x")])
def test_a_session_is_one_name_and_no_pattern(first: str, second: str) -> None:
    with open_memory(max_tokens=1_000, prune_strategy=keep_last_n_steps(2)) as memory:
        for session in (first, second, first, second, second, second):
            memory.add_message("user", f"said in {session!r}", session=session)
        assert {step.session for step in turns(memory.context(session=first))} == {first}


def test_each_session_of_a_window_has_a_system_prompt() -> None:
    memory = MemoryManager()
    for session in ("a", "b"):
        memory.add_message("system", f"You are {session}.", session=session)
    assert [step.type for step in memory.steps] == ["system_prompt", "system_prompt"]


def test_a_prompt_of_a_session_does_not_take_the_place_of_the_memorys_own(tmp_path: Path) -> None:
    for _ in range(2):
        with open_memory(tmp_path, system_prompt="Be brief.") as memory:
            if not [*memory.history("a")]:
                memory.add(SystemPromptStep("Be loud.", session="a"))
            memory.prune(keep_last_n_steps(1))
            assert texts(memory.context(session="b")) == ["Be brief."]
    with open_memory(tmp_path) as memory:
        assert [step.text for step in memory.history()].count("Be brief.") == 1
