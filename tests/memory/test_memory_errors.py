"""What memories refuse: each wrong call is an error that says what is wrong, and nothing is changed by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tinymem import (
    AgentMemory,
    ConversationMemory,
    HierarchicalMemory,
    Memories,
    MemoryManager,
    Retention,
    WorkingMemory,
    debug_memory,
    summarize_strategy,
)
from tinymem.embedders import HashingEmbedder
from tinymem.errors import BudgetError, ClosedError, FormatError, InputError
from tinymem.memory import Shares
from tinymem.steps.types import ActionStep, MessageStep, TaskStep
from tinymem.stores import ExactStore
from tinymem.window.strategies import keep_last_n_steps, prune_old_observations, token_budget

Call = Callable[[Any, Any], object]  # of what is asked, with a bad value
Table = list[tuple[Call, list[Any], str]]  # a call, bad values, and words of the error

CHEAP: dict[str, Any] = {"embedder": "hashing:64", "store": "exact"}
ASKED = [{"role": "user", "content": "x"}]
NEW = MessageStep("user", "new")


def rows(table: Table) -> pytest.MarkDecorator:
    """A test for each bad value of a table."""
    found = []
    for call, bad_values, words in table:
        found += [(call, bad, words) for bad in bad_values]
    return pytest.mark.parametrize(("call", "bad", "words"), found, ids=lambda value: "")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    """A memory of two steps, of which the first has left the window."""
    with HierarchicalMemory(tmp_path, prune_strategy=keep_last_n_steps(1), **CHEAP) as opened:
        opened.add_steps([MessageStep("user", "The port is 80.", id="old"), TaskStep("Ship.", id="task")])
        opened.add_steps([ActionStep("Look.", tool_name="look", observation="ripe", id="look")])
        yield opened


NAN = float("nan")
NO_TOKENS = [0, -1, True, 1.5, "100"]
NO_TIME = ["in March", True, NAN]
NO_LABELS = [5, "user", [("user", "ann")], {"user": ["ann"]}, {"user": None}, {5: "x"}, {"a": "x" * 1001}]
UNKNOWN = ["nobody", "\ud800", "#9", 0, True]

MEMORY: Table = [
    (lambda m, bad: m.add(bad), [None, "text", ASKED[0], 5, MessageStep], "only steps can be added, not "),
    (lambda m, bad: m.add(m.get(bad)), ["old", "look"], "(look is held|in the memory) already"),
    (lambda m, bad: m.add_steps([bad, bad]), [NEW], "is held already"),
    (lambda m, bad: m.add_steps([NEW], on_conflict=bad), ["add"], "must be one of error, skip, replace"),
    (lambda m, bad: m.archive([NEW, bad]), ["text"], "must be a list of steps"),
    (lambda m, bad: m.archive([m.get(bad)]), ["look"], "in the memory already"),
    (lambda m, bad: m.add(NEW.evolve(metadata={"a": bad})), [object()], "cannot be saved"),
    (lambda m, bad: m.add_messages([*ASKED, bad]), [{"role": "wizard"}, "x", None], "^message 1: "),
    (lambda m, bad: m.recall("x", since=bad), ["last week"], "2025-03-01"),
    (lambda m, bad: m.recall("x", until="2025-03-01", as_of=bad), ["2025-03-01"], "not both"),
    (lambda m, bad: m.recall("x", type=bad), ["acton"], "type must be one of action"),
    (lambda m, bad: m.recall("x", k=bad), [0, 1.5, True], "k must be"),
    (lambda m, bad: m.recall("x", min_relevance=bad), [-0.1, 1.1, NAN], "min_relevance must be"),
    (lambda m, bad: m.recall("x", order=bad), ["rank"], "order must be"),
    (lambda m, bad: m.context().to(bad), ["telegraph"], "format must be one of"),
    (lambda m, bad: m.fit([*ASKED, bad], session="s"), [{"role": "wizard"}, 7], "^message 1: "),
    (lambda m, bad: m.history(after=bad), ["nobody"], "after must be the id or the number of a step"),
    (lambda m, bad: m.get(bad), UNKNOWN, r"no step .* in namespace 'default'"),
    (lambda m, bad: m.open(bad), ["#9", "nobody"], "no step"),
    (lambda m, bad: m.open(1, bad), [10**6, -1], "start must be"),
    (lambda m, bad: m.mark(bad), [999], "no step 999"),
    (lambda m, bad: m.correct(1, bad), ["  "], "say what is true"),
    (lambda m, bad: m.correct(bad, "It is 81."), [99], "no step"),
    (lambda m, bad: m.forget(bad), [*UNKNOWN, ["#1", "#9"]], r"no step .*nothing is forgotten"),
    (lambda m, bad: m.forget([bad]), [b"x", ["x"]], "ids must be ids or numbers of steps"),
    (lambda m, bad: m.recall("x", where=bad), NO_LABELS, "where must"),
    (lambda m, bad: m.forget(*bad), [(), ([],)], "say what to forget: ids, session, before, since"),
    (lambda m, bad: m.forget(session="s", before=bad), NO_TIME, "before must be "),
    (lambda m, bad: m.retain(bad), [None, 5], "retention must be a Retention"),
    (lambda m, bad: m.retain(Retention(), now=bad), ["in 2025"], "now must be a datetime"),
]


@rows(MEMORY)
def test_a_memory_refuses_it_and_stays_as_it_was(memory: HierarchicalMemory, call: Call, bad: Any, words: str) -> None:
    before = memory.steps, [*memory.history()], memory.short_term.next_number
    with pytest.raises(InputError, match=words):
        call(memory, bad)
    assert (memory.steps, [*memory.history()], memory.short_term.next_number) == before
    assert memory.add(NEW).step_number == 4


def test_one_token_is_a_budget(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, max_tokens=1, **CHEAP) as memory:
        memory.add(NEW)
        assert memory.recall("new", 1).text == ""
        with pytest.raises(BudgetError, match=r"^reply 3 need 3 tokens, 2 more than the budget of 1"):
            memory.context()


# -- the other faces --------------------------------------------------------------------------------------------------


@pytest.fixture
def conversation(memory: HierarchicalMemory) -> ConversationMemory:
    return ConversationMemory(memory=memory)


CONVERSATION: Table = [
    (lambda c, bad: c.add_message(bad, "x"), ["tool"], "'tool' answers a call .* add_messages"),
    (lambda c, bad: c.add_message(bad, "x"), ["wizard", ["user"]], "role must be one of user, assistant, system"),
    (lambda c, bad: c.add_message("user", bad), [None, ["text"]], "must be a string or a list of content parts"),
    (lambda c, bad: c.add_message("user", [{"type": "text", "text": bad}]), [b"x"], "cannot be saved"),
    (lambda c, bad: c.get(bad), ["", "nobody", "x" * 1_000_000, "\ud800", "\x00"], "^no message has the id.{,90}$"),
    (lambda c, bad: c.get(bad), ["task"], "is the id of a step of type task, not of a message"),
]


@rows(CONVERSATION)
def test_a_conversation_refuses_it(conversation: ConversationMemory, call: Call, bad: Any, words: str) -> None:
    before = [*conversation]
    with pytest.raises(InputError, match=words):
        call(conversation, bad)
    assert [*conversation] == before


def result(**fields: Any) -> dict[str, Any]:
    return {"action": "look()", "result": fields}


WORKING: list[tuple[Any, str]] = [
    (TaskStep("a"), "a step must be a mapping, not TaskStep"),
    ({}, "needs one of thought, action and result"),
    ({"thought": "a", "thougt": "a"}, "has no field 'thougt'"),
    ({"action": {}}, "action.tool must be a string, not NoneType"),
    ({"action": {"tool": "a", "arguments": {"x": object()}}}, "cannot be saved"),
    ({"thought": "a", "step_number": 1}, "step_number must be over 1, that of the step before it, not 1"),
    (result(execution_time=-1), "execution_time must be a number of 0 or more"),
    (result(local_variables={1: 2}), "local_variables must be a mapping"),
    (ActionStep("a", metadata={"execution_result": {"more": 3}}), "ExecutionResult.more must be a mapping"),
    (ActionStep("a", metadata={"other": {1, 2}}), "cannot be saved"),
]


@pytest.mark.parametrize(("step", "words"), WORKING, ids=lambda value: "")
def test_a_task_refuses_a_step_and_names_the_field(step: Any, words: str) -> None:
    memory = WorkingMemory(task_description="Count.")
    memory.add({"thought": "Begin."})
    before = memory.steps
    with pytest.raises(InputError, match=words):
        memory.add(step)
    assert memory.steps == before


NO_NAMES = ["", "a b", "class", "store", "__builtins__", "a\n### Observations", "\ud800", "ｓｔｏｒｅ", 3]


@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
def test_a_scratchpad_refuses_a_name_that_code_could_not_use(name: Any) -> None:
    memory = AgentMemory()
    with pytest.raises(InputError, match="name"):
        memory.store(name, 1)
    assert not memory


DUMPED = json.loads(AgentMemory(observations=["It rains."]).dump())
DUMPS: list[tuple[Any, str]] = [
    ("", "not the dump of a scratchpad"),
    ("[" * 100_000, "not the dump of a scratchpad"),
    ([], "format None"),
    ({**DUMPED, "format": 2}, "format 2 .* upgrade"),
    ({**DUMPED, "variables": [1]}, "an object and two lists: variables, observations"),
]


@pytest.mark.parametrize(("dump", "words"), DUMPS, ids=lambda value: "")
def test_a_text_that_is_no_dump_of_a_scratchpad_is_refused(dump: Any, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        AgentMemory.load(dump if isinstance(dump, str) else json.dumps(dump))


# -- options ----------------------------------------------------------------------------------------------------------


NO_SHARES = "shares must be from 0 to 1"
NO_NUMBER = "must be a number of tokens of 1 or more, not"
OPTIONS: list[tuple[Callable[..., object], dict[str, Any], str, list[Any], str]] = [
    (HierarchicalMemory, {"path": "m"}, "max_tokens", NO_TOKENS, f"max_tokens {NO_NUMBER}"),
    (HierarchicalMemory, {"path": "m"}, "redact", ["sk-.*"], "redact must be a callable or None, not a str"),
    (HierarchicalMemory, {"path": "m"}, "retention", [5, {"max_steps": 1}], "retention must be a Retention"),
    (Retention, {}, "max_age", [5, timedelta(days=-1), datetime.now()], "max_age must be"),
    (Retention, {}, "max_steps", [-1, 1.5, True], "max_steps must be"),
    (HierarchicalMemory, {"path": "m"}, "embedder", ["sttic"], "did you mean 'static'"),
    (HierarchicalMemory, {"path": "m"}, "embedder", [object()], "lacks "),
    (HierarchicalMemory, {"path": "m"}, "store", ["chrma"], "did you mean 'chroma'"),
    (HierarchicalMemory, {"path": "m"}, "store", [5], "lacks "),
    (ConversationMemory, {"path": "m"}, "memory", [1], "give memory= without them"),
    (ConversationMemory, {}, "memory", ["m"], "memory must be a HierarchicalMemory, not str"),
    (ConversationMemory, {}, "path", [-1], "path must be a folder or None, not -1; a budget is given as max_tokens="),
    (Memories, {"path": "m"}, "max_open", [0, True], "max_open must be a whole number of 1 or more, not"),
    (Memories, {"path": "m"}, "namespace", ["ann"], r"given to open\(\)"),
    (Memories, {"path": "m"}, "store", [ExactStore()], "would hold the vectors of all"),
    (WorkingMemory, {}, "renderer", [3, "{thought}"], "renderer must be a callable, not"),
    (WorkingMemory, {}, "task_description", [" ", 3], "task_description"),
    (AgentMemory, {}, "variables", [{"store": 1}], "the name 'store' is taken"),
    (AgentMemory, {}, "observations", ["text", 3], "observations must be a list, not (a str of length 4|an int)"),
    (Shares, {}, "window", [1.2, NAN], NO_SHARES),
    (debug_memory, {"memory": MemoryManager()}, "steps", [-1, 2.5, True, "many"], "steps must be a whole number of 0"),
    (HashingEmbedder, {}, "dimensions", [0, -1, 5_000], "dimensions"),
    (keep_last_n_steps, {}, "n", [-1, True, 1.5, "3", None], "n must be a whole number of 0 or more"),
    (prune_old_observations, {}, "max_age_seconds", [-1, NAN, float("inf"), "3", True], "a number of 0 or more"),
    (prune_old_observations, {}, "now", [True, NAN, "2025"], "now must be "),
    (token_budget, {"max_tokens": 10}, "low_water", [11], "low_water must be at most max_tokens"),
    (token_budget, {"max_tokens": 10}, "tasks", ["some"], "tasks must be one of all, current"),
    (summarize_strategy, {"max_tokens": 100}, "max_steps", [10], "two ways to say when"),
    (summarize_strategy, {}, "low_water", [10], "low_water is a number of tokens, and goes with max_tokens"),
    (summarize_strategy, {}, "keep_recent", [51], r"keep_recent must be at most max_steps \(50\), not 51"),
    (summarize_strategy, {"max_tokens": 100}, "summary_tokens", [51], r"at most low_water \(50\), not 51"),
    (summarize_strategy, {"max_tokens": 100}, "summarizer", [object()], "type object lacks name, summarize"),
    (MemoryManager, {}, "prune_strategy", ["last"], "prune_strategy must be a callable"),
]


@pytest.mark.parametrize(("kind", "given", "name", "bad_values", "words"), OPTIONS)
def test_an_option_is_refused_before_anything_is_made(
    kind: Callable[..., object], given: dict[str, Any], name: str, bad_values: list[Any], words: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for bad in bad_values:
        with pytest.raises(InputError, match=words):
            kind(**{**given, name: bad})
    assert [*tmp_path.iterdir()] == []


# -- closed -----------------------------------------------------------------------------------------------------------


def test_closed_memories_say_so_and_close_twice(memory: HierarchicalMemory, conversation: ConversationMemory) -> None:
    report = memory.short_term.prune(keep_last_n_steps(0))
    task, history, (search, read) = WorkingMemory(task_description="x", memory=memory), memory.history(), memory.tools()
    added, task_id = task.add({"thought": "x"}), task.task_id
    memory.close()
    memory.close()
    calls: list[Callable[[], object]] = [
        lambda: memory.add(NEW),
        lambda: memory.add_messages(ASKED),
        memory.context,
        lambda: memory.recall("x"),
        lambda: memory.get("old"),
        lambda: memory.forget(["old"]),
        lambda: memory.restore(report),
        lambda: next(history),
        lambda: conversation.add_message("user", "y"),
        lambda: conversation.get("old"),
        lambda: list(conversation),
        lambda: task.add({"thought": "y"}),
    ]
    for call in calls:
        with pytest.raises(ClosedError, match="closed"):
            call()
    assert (task.steps, task.task_id) == ((added,), task_id)
    assert conversation.tool(nanoid="old").startswith("The memory cannot be read")
    assert search.call(query="x") == read.call(id="#1") and search.call(query="x").startswith("The memory cannot be")
