"""Prompts of a session, each of which goes on from the one before, so that a provider's prompt cache holds."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memories import open_memory
from strategies import MODERATE

from tinymem import Context, HierarchicalMemory, MemoryManager, count_tokens, keep_last_n_steps, no_pruning
from tinymem.errors import BudgetError
from tinymem.memory.context.recaller import asked_last
from tinymem.messages import problems
from tinymem.messages.tokens import default_counter
from tinymem.recall.relevance import BEARS
from tinymem.runs import PRICES
from tinymem.runs.replays.billing import PrefixCache
from tinymem.runs.replays.policies import pieces_of
from tinymem.steps.actions import ToolCall
from tinymem.steps.step import Message
from tinymem.steps.types import ActionStep, MessageStep, Step, SummaryStep, SystemPromptStep, TaskStep

MEMORY = {"max_tokens": 2_000}
FRUIT = ["apple", "banana", "cherry", "damson", "elder", "fig", "grape", "hazel"]


def work(count: int, length: int = 6) -> list[Step]:
    """A task, and calls whose results name a fruit each."""
    steps: list[Step] = [TaskStep("Watch the fields.")]
    for at in range(count):
        found = f"Field {at}: the {FRUIT[at * 5 % 8]} of row {at * 7} is ripe. " * (1 + at % length)
        id = f"call_{sha256(str(at).encode()).hexdigest()[:22]}"  # as many tokens in every run
        call = ToolCall("look", {"at": f"field {at}"}, id=id, observation=found)
        steps.append(ActionStep(f"Look {at}.", [call]))
    return steps


def prompts_of_window(steps: list[Step], budget: int, is_fitted: bool = False, **options: Any) -> list[Context]:
    """The prompts of a session, step by step: of a memory's own window, or of a history that grows."""
    history, found = list[Any](), []
    filters = {name: options.pop(name) for name in ("metadata", "where") if name in options}
    with open_memory(max_tokens=budget, **options) as memory:
        for step in steps:
            history += step.to_messages(style="tools")
            if is_fitted:
                found.append(memory.fit(history, session="s", **filters))
            else:
                memory.add(step)
                found.append(memory.context(session="s"))
    return found


USER = {"user": "ann"}  # with whom a history is archived, and of whom alone something is recalled
prompts_of_history = partial(prompts_of_window, is_fitted=True)
prompts_of_a_user = partial(prompts_of_history, metadata=USER, where=USER)
MAKERS = pytest.mark.parametrize("make", [prompts_of_window, prompts_of_history])


def jumps(prompts: list[Context]) -> int:
    return sum(after.messages[: len(before.messages)] != before.messages for before, after in pairwise(prompts))


@pytest.mark.parametrize("make", [prompts_of_window, prompts_of_history, prompts_of_a_user])
def test_a_prompt_begins_as_the_one_before_but_for_jumps(make: Any) -> None:
    prompts = make(work(45), 1_400)
    assert 2 <= jumps(prompts) <= 19
    assert all(prompt.stable == len(prompt.messages) for prompt in prompts)
    assert any(entry.kind == "recalled" for entry in prompts[-1].entries)


def edits(count: int) -> list[Step]:
    """A command that fails, and files that are written twice each."""
    failed = ToolCall("Bash", {"command": "pytest -q"}, id="call_run", error="Exit code 1")
    steps: list[Step] = [TaskStep("Mend the shop."), ActionStep("Run it.", [failed])]
    for at in range(count):
        given = {"file_path": f"/shop/part_{at // 2}.py", "content": f"def count_of_rows_{at // 2}(): ...\n" * 9}
        steps.append(ActionStep("Mend.", [ToolCall("Write", given, id=f"call_{at}", observation="ok")]))
    return [step.evolve(session="s") for step in steps]


@MAKERS
def test_a_prompt_that_jumps_says_what_the_session_did(make: Any) -> None:
    prompts = make(edits(60), 3_000)
    told = [[text for one in prompt.messages if "in /shop:" in (text := str(one["content"]))] for prompt in prompts]
    assert told[0] == [] and [len(texts) for texts in told if texts] == [1] * sum(map(bool, told))
    for at, (before, after) in enumerate(pairwise(prompts), 1):
        has_jumped = after.messages[: len(before.messages)] != before.messages
        assert has_jumped or told[at] == told[at - 1]
        assert told[at] == told[at - 1] or f"\npart_{(at - 2) // 2}.py (#" in told[at][0]
    assert told[-1] and "in /shop:\n$ pytest -q (failed, #2)\n" in told[-1][0]
    assert max(prompt.tokens for prompt in prompts) <= 3_000


@pytest.mark.parametrize("given", [{"changes": "none"}, {"metadata": USER, "where": {"user": "bob"}}])
def test_nothing_is_said_where_nobody_tells_it_or_it_may_not_be_recalled(given: dict[str, Any]) -> None:
    assert "in /shop:" not in str([prompt.messages for prompt in prompts_of_history(edits(60), 3_000, **given)])


@pytest.mark.slow
@MAKERS
def test_no_excerpt_is_recalled_twice_into_a_prompt(make: Any) -> None:
    blocks = 0
    for prompt in make(work(80), 2_500):
        texts = [str(entry.message["content"]) for entry in prompt.entries if entry.kind == "recalled"]
        excerpts = [line for text in texts for line in text.splitlines() if "is ripe" in line]
        assert len(excerpts) == len(set(excerpts))
        blocks = max(blocks, len(texts))
    assert blocks > 1


@pytest.mark.slow
@MAKERS
def test_a_cache_serves_most_of_what_is_sent(make: Any) -> None:
    cache = PrefixCache(PRICES["anthropic"], default_counter())
    sent = [cache.send(pieces_of(one.messages, default_counter())) for one in make(work(250), 6_000)]
    assert sum(one.cached for one in sent) >= 0.75 * sum(one.tokens for one in sent)


@MAKERS
def test_where_nothing_is_cached_every_prompt_is_built_from_scratch(make: Any) -> None:
    assert jumps(make(work(40), 1_000, cache=1)) > 13


def test_the_same_call_again_has_the_same_prompt(memory: HierarchicalMemory) -> None:
    steps = work(40)
    memory.add_steps(steps)
    history = [message for step in steps for message in step.to_messages(style="tools")]
    for _ in range(2):
        assert memory.context(session="s").messages == memory.context(session="s").messages
        assert memory.fit(history, session="f").messages == memory.fit(history, session="f").messages


def sheets(count: int) -> list[Step]:
    """A task, and calls whose results are sheets of some 160 tokens, each of a host."""
    steps: list[Step] = [TaskStep("Read all sheets, one by one.")]
    for at in range(count):
        values = " ".join(f"{FRUIT[at * part % 8]}-{at * part % 97} is {part * 31 % 89}" for part in range(24))
        found = f"sheet {at}: host mill-{at} listens on port {4000 + at * 37}. {values}"
        steps.append(ActionStep("Next.", tool_name="read", tool_args={"at": at}, observation=found))
    return steps


@pytest.mark.parametrize(
    ("budget", "is_fitted", "is_query"),
    [(500, True, True), (500, False, False), (1_200, True, False), (3_000, False, True)],
)
def test_what_is_asked_has_first_call_on_the_room(budget: int, is_fitted: bool, is_query: bool) -> None:
    """A prompt shows the sheet that `recall` finds, as it begins, goes on or jumps; the window has the rest."""
    history, asked = list[Any](), 0
    with HierarchicalMemory(store="exact", max_tokens=budget) as memory:
        for at, step in enumerate(sheets(36)):
            question = f"Which port does the host of sheet {at // 4} listen on?"
            is_asked = at > 20 and at % 3 == 0
            said = [step, MessageStep("user", question)] if is_asked and not is_query else [step]
            if not is_fitted:
                memory.add_steps(said)
            history += [message for new in said for message in new.to_messages(style="tools")]
            query = question if is_asked and is_query else None
            if at < 20:
                continue
            prompt = memory.fit(history, query=query, session="s") if is_fitted else memory.context(query, session="s")
            assert prompt.tokens <= budget and problems(prompt.messages) == []
            if is_asked:
                must = count_tokens([history[0], *history[-2 if is_query else -1 :]])
                found = memory.recall(question, max_tokens=budget - must - 5).items
                likely = [item.text for item in found if item.relevance >= BEARS]
                wanted = {text for text in likely if text.startswith(f"sheet {at // 4}:")}
                asked += bool(wanted)
                assert all(any(text in str(message["content"]) for message in prompt.messages) for text in wanted)
    assert asked > 3


def test_what_is_forgotten_or_cleared_is_sent_no_longer(memory: HierarchicalMemory) -> None:
    memory.add_steps([TaskStep("Watch."), MessageStep("user", "The vault's code is 4711-Q."), *work(5)[1:]])
    assert "4711-Q" in str(memory.context(session="s").messages)
    memory.forget(memory.get(2).id)
    assert "4711-Q" not in str(memory.context(session="s").messages)
    memory.clear()
    assert "Field 3" not in str([entry.message for entry in memory.context("x", session="s").entries])


def test_a_session_begins_a_new_prompt_after_a_restart(tmp_path: Path) -> None:
    history = [message for step in work(37) for message in step.to_messages(style="tools")]
    with open_memory(tmp_path, max_tokens=2_000) as memory:
        for end in range(1, len(history), 2):
            before = memory.fit(history[:end], session="s").messages
    sent = []
    for _ in range(2):
        with open_memory(tmp_path, max_tokens=2_000) as memory:
            sent.append(memory.fit(history[:end], session="s").messages)
    assert sent[0] == sent[1] != before


def test_an_edited_history_starts_a_new_prompt(memory: HierarchicalMemory) -> None:
    history = [message for step in work(10) for message in step.to_messages(style="tools")]
    memory.fit(history, session="s")
    edited = [*history[:2], {**history[2], "content": "[cleared]"}, *history[3:]]
    shown = [m for m in memory.fit(edited, session="s").messages if "recalled-" not in str(m)]
    assert shown == edited


@MAKERS
@pytest.mark.parametrize("gaps", [0, 400])
def test_the_newest_request_is_in_every_prompt_shortened_where_it_is_long(make: Any, gaps: int) -> None:
    request = MessageStep("user", "Find the vault code. " + "Mind the gap. " * gaps)
    for prompt in make([MessageStep("user", "Hello."), request, *work(20)[1:]], 800)[1:]:
        assert any(said["role"] == "user" and said["content"].startswith("Find the") for said in prompt.messages)
        assert prompt.tokens <= 800


# -- of several conversations ------------------------------------------------------------------------------------------


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


@settings(MODERATE, max_examples=8)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.booleans()), min_size=2, max_size=20),
    st.integers(250, 900),
)
@example([*[("a", words, False) for words in (1, 1, 26)], ("a", 49, True), ("a", 43, False), ("a", 5, True)], 284)
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


def test_a_session_that_others_drove_out_of_the_window_has_its_prompt_task_and_request(tmp_path: Path) -> None:
    with open_memory(tmp_path, max_tokens=2_000) as memory:
        memory.add_messages([{"role": "system", "content": "Answer a in French."}], session="a")
        own = [memory.add(TaskStep("a works on the mill.", session="a")), *talk(memory, "a", 10)]
        memory.add_messages([{"role": "system", "content": "Answer b in German."}], session="b")
        memory.add(TaskStep("b works on the barn.", session="b"))
        talk(memory, "b", 200)
        assert {step.session for step in memory.steps} == {"b"}
    with open_memory(tmp_path, max_tokens=2_000) as memory:  # and after a restart
        assert texts(memory.context(session="a")) == ["Answer a in French.", own[0].text, own[-2].text]
        assert texts(memory.context(session="b"))[0] == "Answer b in German."


def test_without_a_session_the_one_that_spoke_last_is_shown() -> None:
    with open_memory(max_tokens=2_000, system_prompt="Be brief.") as memory:
        memory.add_message("user", "The code of the vault is 4711-Q.", session="a")
        memory.add_message("user", "What is the code of the vault?", session="b")
        memory.add(ActionStep(tool_name="look", observation="an empty drawer"))  # of no session: of all
        context = memory.context()
    assert {*texts(context)} == {"Be brief.", "What is the code of the vault?", "look({})\nan empty drawer"}
    assert "4711-Q" in context.recalled.text


def test_steps_without_a_session_are_in_every_prompt(memory: HierarchicalMemory) -> None:
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
    assert [*map(len, shown)] == [1, 2] and "They spoke" not in str(shown)


def test_a_prompt_of_a_session_does_not_take_the_place_of_the_memorys_own(tmp_path: Path) -> None:
    for _ in range(2):
        with open_memory(tmp_path, system_prompt="Be brief.") as memory:
            if not [*memory.history("a")]:
                memory.add(SystemPromptStep("Be loud.", session="a"))
            memory.prune(keep_last_n_steps(1))
            assert texts(memory.context(session="b")) == ["Be brief."]
    with open_memory(tmp_path) as memory:
        assert [step.text for step in memory.history()].count("Be brief.") == 1


# -- what was asked last -----------------------------------------------------------------------------------------------

NEED = "I need the code of the farm where hens are grey."
TASK = TaskStep("Count all hens in barns.")


def looked(at: int, thought: str = "Next.", seen: str = "") -> ActionStep:
    hens = " ".join(f"stall-{at * 31 + stall} has hay and {stall * 7 % 19} hens" for stall in range(40))
    return ActionStep(thought, tool_name="look", tool_args={"barn": at}, observation=f"{hens} {seen}", session="s")


@pytest.mark.parametrize(
    ("newest", "asked"),
    [
        ([looked(1, NEED), looked(2, "")], NEED),
        ([looked(1), MessageStep("user", NEED)], NEED),
        ([TASK], TASK.task),
        ([looked(1, NEED), looked(2), looked(3)], ""),
        ([looked(1, "Now let me look at the next barn.")], ""),
        ([looked(1, "The code stands in the book of the farm:")], ""),
        ([looked(1, f"{NEED} " * 20)], ""),
    ],
)
def test_a_person_or_the_agent_asks_in_words(newest: list[Step], asked: str) -> None:
    assert asked_last([TASK, looked(0, "Barns."), *newest]).strip() == asked


@pytest.mark.parametrize("steps", [[], [SystemPromptStep("Be brief.")], work(2)])
def test_the_first_prompt_of_a_session_needs_no_more_than_one_without(
    memory: HierarchicalMemory, steps: list[Step]
) -> None:
    memory.add_steps(steps)
    with pytest.raises(BudgetError) as refused:
        memory.context(max_tokens=1)
    assert memory.context(max_tokens=refused.value.needed, session="s").tokens == refused.value.needed


@pytest.mark.parametrize("by_person", [False, True])
def test_every_need_of_a_loop_is_met_by_the_next_prompt(by_person: bool) -> None:
    """A session's prompts only grow at their end but for jumps, and one that has no room for what is asked jumps."""
    needs = {at: at - 45 for at in range(50, 69, 6)}
    missed: list[int] = []
    last: list[Message] = []
    jumps = 0
    with HierarchicalMemory(store="exact", max_tokens=3_000) as memory:
        memory.add(TASK)
        for at in range(70):
            asked = f"I need the key of the gate at river{needs[at]}." if at in needs else ""
            memory.add(looked(at, "" if by_person else asked, f"river{at} has a gate, its key is K{at * 991}."))
            if asked and by_person:
                memory.add(MessageStep("user", asked, session="s"))
            sent = memory.context(session="s").messages
            jumps += sent[: len(last)] != last
            last = sent
            prompts = [sent, memory.context().messages] if asked else []
            missed += [at for prompt in prompts if f"K{needs[at] * 991}." not in str(prompt)]
    assert not missed and 3 < jumps < 70 // 2


def test_the_prompts_of_each_session_only_grow_between_jumps() -> None:
    sent: dict[str, list[Context]] = {"a": [], "b": []}
    with open_memory(max_tokens=2_000) as memory:
        for at in range(60):
            session = "ab"[at % 3 > 1]
            memory.add_message("user", f"{session} asks {at}. " + "leaf " * (at % 40), session=session)
            sent[session].append(memory.context(session=session))
    for prompts in sent.values():
        jumps = sum(after.messages[: before.stable] != before.messages for before, after in pairwise(prompts))
        assert jumps <= len(prompts) // 5


def test_what_was_cleared_stays_away(memory: HierarchicalMemory) -> None:
    talk(memory, "a", 4)
    memory.clear()
    talk(memory, "b", 20)
    assert texts(memory.context(session="a")) == []


def test_each_session_of_a_window_has_a_system_prompt() -> None:
    memory = MemoryManager()
    for session in ("a", "b"):
        memory.add_message("system", f"You are {session}.", session=session)
    assert [step.type for step in memory.steps] == ["system_prompt", "system_prompt"]
