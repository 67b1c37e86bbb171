"""Whatever a public call is given, what it raises is tinymem's own, and quotes no text of a step."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

import tinymem
from tinymem import (
    ActionStep,
    AdaptiveMemoryManager,
    AgentMemory,
    ConversationMemory,
    HierarchicalMemory,
    Memories,
    MemoryManager,
    MessageStep,
    TaskStep,
    TinymemError,
    WorkingMemory,
)
from tinymem.archive import namespaces
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.memory import ExecutionResult, Shares, execution_result
from tinymem.messages import (
    TiktokenCounter,
    count_message,
    groups,
    messages_from_steps,
    problems,
    repair,
    steps_from_messages,
)
from tinymem.registry import check_store_spec, embedder_from, store_from, summarizer_from
from tinymem.steps.types import SystemPromptStep
from tinymem.stores.exact import ExactStore
from tinymem.summarizers import ChatSummarizer, ExtractiveSummarizer
from tinymem.upkeep import doctor, export_memory, import_memory, rebuild, reindex

CANARY = "the word is canary7391"
MESSAGE = {"role": "user", "content": "The staging server is at 10.0.0.7."}
STEP = MessageStep("user", "The staging server is at 10.0.0.7.")
CHEAP: dict[str, Any] = {"embedder": "hashing:8", "store": "exact"}
WRONG: list[Any] = [
    None, True, -1, 10**30, float("nan"), "", "\ud800", "\x00", b"x", [None], {}, {5: object()}, object(), STEP,
    CANARY, [CANARY], {"role": "user", "content": CANARY}, {CANARY: CANARY},
]  # fmt: skip

Call = Callable[..., Any]


class Place:
    """A folder, with what is opened in it."""

    def __init__(self, path: Path) -> None:
        self.path, self._opened, self._count = path, ExitStack(), 0

    def entered(self, opened: AbstractContextManager[Any]) -> Any:
        return self._opened.enter_context(opened)

    def folder(self) -> Path:
        self._count += 1
        return self.path / str(self._count)

    def memory(self) -> HierarchicalMemory:
        memory: HierarchicalMemory = self.entered(HierarchicalMemory(self.folder(), **CHEAP))
        memory.add(STEP)
        return memory

    def written(self) -> Path:
        """The folder of a memory that nobody has open."""
        memory = self.memory()
        memory.close()
        return memory.path

    def conversation(self) -> ConversationMemory:
        opened: ConversationMemory = self.entered(ConversationMemory(self.folder(), **CHEAP))
        return opened

    def exported(self) -> Path:
        export_memory(self.written(), self.path / "in.jsonl")
        return self.path / "in.jsonl"

    def close(self) -> None:
        self._opened.close()


Table = dict[str, Callable[[Place], Call]]  # calls by their names


def opening(kind: Callable[..., Any]) -> Callable[..., None]:
    """Opens and closes; with the arguments of `kind`."""

    def call(**given: Any) -> None:
        kind(**given).close()

    call.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]
    return call


def of_strategy(make: Call) -> Call:
    """Makes a strategy, and lets it prune."""

    def call(**given: Any) -> None:
        steps = [TaskStep("Ship it."), *(ActionStep(tool_name="ls", observation="x " * 50) for _ in range(8))]
        MemoryManager(prune_strategy=make(**given)).add_steps(steps)
        manager = MemoryManager()
        manager.add_steps(steps)
        manager.prune(make(**given))

    call.__signature__ = inspect.signature(make)  # type: ignore[attr-defined]
    return call


def working() -> WorkingMemory:
    memory = WorkingMemory(task_description="x")
    memory.add({"thought": "x"})
    return memory


def of(make: Callable[[Place], Any], names: str) -> Table:
    """The methods of these names, each of a fresh object that `make` gives."""

    def method(name: str) -> Callable[[Place], Call]:
        return lambda place: getattr(make(place), name)

    return {name: method(name) for name in names.split()}


def same(call: Call) -> Callable[[Place], Call]:
    return lambda place: call


PLAIN: list[Call] = [
    SystemPromptStep, TaskStep, tinymem.PlanningStep, tinymem.ScratchpadStep, tinymem.SummaryStep, MessageStep,
    tinymem.FinalAnswerStep, ActionStep, tinymem.ToolCall, tinymem.Signal, steps_from_messages, messages_from_steps,
    groups, problems, repair, count_message, tinymem.count_tokens, TiktokenCounter, MemoryManager,
    AdaptiveMemoryManager, tinymem.Retention, Shares, namespaces, WorkingMemory, AgentMemory, ExecutionResult,
    execution_result, export_memory, import_memory, reindex, doctor, rebuild, tinymem.debug_memory,
    tinymem.visualize_memory, embedder_from, store_from, check_store_spec, summarizer_from, HashingEmbedder, ExactStore,
    ExtractiveSummarizer, ChatSummarizer,
]  # fmt: skip
STRATEGIES: list[Call] = [
    tinymem.no_pruning, tinymem.keep_last_n_steps, tinymem.keep_system_and_recent, tinymem.token_budget,
    tinymem.prune_old_observations, tinymem.semantic_pruning, tinymem.summarize_strategy,
]  # fmt: skip
METHODS: dict[str, Table] = {
    "Step": of(lambda place: STEP, "to_messages truncate from_dict"),
    "TiktokenCounter": of(lambda place: TiktokenCounter(), "count"),
    "MemoryManager": of(
        lambda place: MemoryManager("x"),
        "from_list add add_steps add_message add_messages to_messages prune restore clear get_steps_by_type",
    ),
    "AdaptiveMemoryManager": of(lambda place: AdaptiveMemoryManager(max_tokens=4_000), "to_messages"),
    "HierarchicalMemory": of(
        Place.memory,
        "add add_steps add_messages archive mark get context recall fit open tools explain forget forget_namespace "
        "restore retain export",
    ),
    "ConversationMemory": of(Place.conversation, "add_message get get_history search"),
    "WorkingMemory": of(lambda place: working(), "add format_history get_full_context"),
    "AgentMemory": of(lambda place: AgentMemory(), "store recall observe fail to_context load"),
    "HashingEmbedder": of(lambda place: HashingEmbedder(), "embed_documents"),
    "ExtractiveSummarizer": of(lambda place: ExtractiveSummarizer(), "summarize"),
}
CALLS: Table = {
    **{call.__name__: same(call) for call in PLAIN},
    **{call.__name__: same(of_strategy(call)) for call in STRATEGIES},
    **{f"{kind}.{name}": method for kind, methods in METHODS.items() for name, method in methods.items()},
    "HierarchicalMemory": same(opening(HierarchicalMemory)),
    "Memories": same(opening(Memories)),
    "ConversationMemory": same(opening(ConversationMemory)),
}
# What an argument that must be given can be, by its name, and what a call is given instead or besides.
GOOD: dict[str, Any] = {
    "content": "x", "task": "x", "plan": "x", "summary": "x", "output": "x", "role": "user", "name": "ls",
    "type": "explore", "text": "x", "record": STEP.to_dict(), "records": [STEP.to_dict()], "messages": [MESSAGE],
    "step": TaskStep("x"), "steps": [TaskStep("x")], "kind": "task", "n": 3, "n_recent": 3, "max_tokens": 300,
    "embedder": "hashing:8", "strategy": tinymem.no_pruning(), "id": STEP.id, "query": "staging", "session": "x",
    "namespace": "ann", "nanoid": "x", "value": 5, "memory": MemoryManager("x"), "texts": ["x"],
    "retention": tinymem.Retention(max_steps=5),
}  # fmt: skip
GIVEN: dict[str, dict[str, Any]] = {
    "Signal": {"message": "x"}, "count_message": {"message": MESSAGE},
    "execution_result": {"step": ActionStep(tool_name="ls")},
    "MemoryManager.restore": {"report": MemoryManager("x").clear()},
    "HierarchicalMemory.restore": {"report": MemoryManager().clear()},
    "HierarchicalMemory.forget": {"session": "x"}, "HierarchicalMemory.explain": {"query": "staging"},
    "HierarchicalMemory.retain": {"retention": GOOD["retention"]},
    "WorkingMemory.add": {"step": {"thought": "x"}}, "AgentMemory.load": {"text": AgentMemory().dump()},
    "semantic_pruning": {"embedder": "hashing", "max_tokens": 300}, "summarize_strategy": {"max_tokens": 300},
    "embedder_from": {"spec": "hashing"}, "check_store_spec": {"spec": "exact"},
    "summarizer_from": {"spec": "extractive"},
    "ChatSummarizer": {"api_key": "x", "base_url": "http://127.0.0.1:9/v1"},
}  # fmt: skip
PLACED: dict[str, Callable[[Place], dict[str, Any]]] = {
    "HierarchicalMemory": lambda place: {"path": place.folder(), **CHEAP},
    "HierarchicalMemory.forget_namespace": lambda place: {"path": place.written(), "namespace": "default"},
    "HierarchicalMemory.export": lambda place: {"file": place.folder().with_suffix(".jsonl")},
    "Memories": lambda place: {"path": place.folder(), **CHEAP},
    "namespaces": lambda place: {"path": place.written()},
    "ConversationMemory": lambda place: {"path": place.folder()},
    "export_memory": lambda place: {"path": place.written(), "file": place.path / "out.jsonl"},
    "import_memory": lambda place: {"path": place.folder(), "file": place.exported(), "embedder": "hashing:8"},
    **dict.fromkeys(("reindex", "doctor", "rebuild"), lambda place: {"path": place.written(), "store": "exact"}),
    "store_from": lambda place: {"spec": "exact", "path": place.folder()},
}
# What a call makes of the value of this argument is the user's business, so any is taken.
ANY = {("AgentMemory.store", "value"), ("AgentMemory.recall", "default")}

# What is no text of a step, and is quoted: settings, and names of places.
QUOTED = {
    "embedder", "store", "summarizer", "spec", "style", "path", "file", "namespace", "nanoid", "timeout", "retention",
    "max_age", "max_open", "window", "episodes", "scratchpad", "changes",
}  # fmt: skip

# How else an error may say which argument it is about.
SAID = {
    "action": "tool_name",
    "append": "already",
    "create": "there is no memory",
    "file": "cannot be (read|written)",
    "id": "no step",
    "messages": "message",
    "nanoid": "no message has the id",
    "path": "cannot be used|there is no memory",
    "reasoning": "thought",
    "record": "format",
    "records": "record",
    "session": "cannot be stored",
    "spec": "embedder|store|summarizer",
    "text": "dump of a scratchpad",
    "variables": "name must be",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)  # where a text that is taken for a path leads
    place = Place(tmp_path)
    yield place
    place.close()


def outcomes(name: str, place: Place) -> Iterator[tuple[str, Any, BaseException]]:
    """Each argument with each wrong value, and what was raised."""
    parameters = inspect.signature(CALLS[name](place)).parameters
    needed = [key for key, parameter in parameters.items() if parameter.default is parameter.empty and key in GOOD]
    known = {**{key: GOOD[key] for key in needed}, **GIVEN.get(name, {})}
    for argument, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or (name, argument) in ANY:
            continue
        call, placed = CALLS[name](place), PLACED[name](place) if name in PLACED else {}
        for wrong in WRONG:
            try:
                call(**{**known, **placed, argument: wrong})
            except Exception as error:
                yield argument, wrong, error


# Each of its clients takes long to make.
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name == "ChatSummarizer" else name for name in CALLS]


@pytest.mark.parametrize("name", NAMES)
def test_whatever_an_argument_is_the_error_is_tinymems_own_names_it_and_quotes_no_text(name: str, place: Place) -> None:
    wrong = [
        f"{argument}={given!r:.60}: {type(error).__name__}: {error}"
        for argument, given, error in outcomes(name, place)
        if not isinstance(error, TinymemError)
        or not re.search(f"{argument}|{SAID.get(argument, argument)}", str(error))
        or (CANARY in str(error) and argument not in QUOTED)
    ]
    assert not wrong, "\n".join(wrong)
