"""Whatever a public call is given, what it raises is tinymem's own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from itertools import islice
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

MESSAGE = {"role": "user", "content": "The staging server is at 10.0.0.7."}
STEP = MessageStep("user", "The staging server is at 10.0.0.7.")
CHEAP: dict[str, Any] = {"embedder": "hashing:8", "store": "exact"}
WRONG: list[Any] = [
    None, True, 0, -1, 10**30, 0.5, float("nan"), "", "x", "\ud800", "\x00", b"x",
    [], [None], ["x"], [[]], {}, {5: object()}, {"x"}, object(), STEP,
]  # fmt: skip

Call = Callable[..., Any]
Made = tuple[Call, dict[str, Any]]  # a call, and arguments that it takes


class Place:
    """A folder, with what is opened in it."""

    def __init__(self, path: Path) -> None:
        self.path, self._opened, self._count = path, ExitStack(), 0

    def held(self, opened: AbstractContextManager[Any]) -> Any:
        return self._opened.enter_context(opened)

    def folder(self) -> Path:
        self._count += 1
        return self.path / str(self._count)

    def memory(self) -> HierarchicalMemory:
        memory: HierarchicalMemory = self.held(HierarchicalMemory(self.folder(), **CHEAP))
        memory.add(STEP)
        return memory

    def written(self) -> Path:
        """The folder of a memory that nobody has open."""
        memory = self.memory()
        memory.close()
        return memory.path

    def close(self) -> None:
        self._opened.close()


def opening(kind: Callable[..., Any]) -> Callable[..., None]:
    """Opens and closes; with the arguments of `kind`."""

    def call(**given: Any) -> None:
        kind(**given).close()

    call.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]
    return call


def exhausted(iterate: Call) -> Call:
    """Goes through all that comes."""

    def call(**given: Any) -> None:
        list(islice(iterate(**given), 100))

    call.__signature__ = inspect.signature(iterate)  # type: ignore[attr-defined]
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


def _open_namespace(memories: Memories) -> Call:
    def open(namespace: str) -> None:
        with memories.open(namespace):
            pass

    return open


CALLS: dict[str, Callable[[Place], Made]] = {
    # steps
    "SystemPromptStep": lambda at: (SystemPromptStep, {"content": "x"}),
    "TaskStep": lambda at: (TaskStep, {"task": "x"}),
    "PlanningStep": lambda at: (tinymem.PlanningStep, {"plan": "x"}),
    "ScratchpadStep": lambda at: (tinymem.ScratchpadStep, {"content": "x"}),
    "SummaryStep": lambda at: (tinymem.SummaryStep, {"summary": "x"}),
    "FinalAnswerStep": lambda at: (tinymem.FinalAnswerStep, {"output": "x"}),
    "MessageStep": lambda at: (MessageStep, {"role": "user", "content": "x"}),
    "ActionStep": lambda at: (ActionStep, {}),
    "ActionStep of a call": lambda at: (ActionStep, {"tool_name": "ls", "tool_args": {}, "observation": "x"}),
    "ToolCall": lambda at: (tinymem.ToolCall, {"name": "ls"}),
    "Signal": lambda at: (tinymem.Signal, {"type": "explore", "message": "x"}),
    "Step.to_messages": lambda at: (STEP.to_messages, {}),
    "Step.truncate": lambda at: (STEP.truncate, {}),
    "Step.from_dict": lambda at: (tinymem.Step.from_dict, {"record": STEP.to_dict()}),
    "steps_from_messages": lambda at: (steps_from_messages, {"messages": [MESSAGE]}),
    "messages_from_steps": lambda at: (messages_from_steps, {"steps": [STEP]}),
    "groups": lambda at: (groups, {"steps": [STEP]}),
    "problems": lambda at: (problems, {"messages": [MESSAGE]}),
    "repair": lambda at: (repair, {"messages": [MESSAGE]}),
    "count_message": lambda at: (count_message, {"message": MESSAGE}),
    "count_tokens": lambda at: (tinymem.count_tokens, {"messages": [MESSAGE]}),
    "TiktokenCounter": lambda at: (TiktokenCounter, {}),
    "TiktokenCounter.count": lambda at: (TiktokenCounter().count, {"text": "x"}),
    # the window
    "MemoryManager": lambda at: (MemoryManager, {}),
    "MemoryManager.from_list": lambda at: (MemoryManager.from_list, {"records": [STEP.to_dict()]}),
    "MemoryManager.add": lambda at: (MemoryManager().add, {"step": STEP}),
    "MemoryManager.add_steps": lambda at: (MemoryManager().add_steps, {"steps": [STEP]}),
    "MemoryManager.add_message": lambda at: (MemoryManager().add_message, dict(MESSAGE)),
    "MemoryManager.add_messages": lambda at: (MemoryManager().add_messages, {"messages": [MESSAGE]}),
    "MemoryManager.to_messages": lambda at: (MemoryManager("x").to_messages, {}),
    "MemoryManager.prune": lambda at: (MemoryManager("x").prune, {}),
    "MemoryManager.restore": lambda at: (MemoryManager("x").restore, {"report": MemoryManager("x").clear()}),
    "MemoryManager.clear": lambda at: (MemoryManager("x").clear, {}),
    "MemoryManager.get_steps_by_type": lambda at: (MemoryManager("x").get_steps_by_type, {"kind": "task"}),
    "AdaptiveMemoryManager": lambda at: (AdaptiveMemoryManager, {"max_tokens": 4_000}),
    "AdaptiveMemoryManager.to_messages": lambda at: (AdaptiveMemoryManager(max_tokens=4_000).to_messages, {}),
    # strategies
    "no_pruning": lambda at: (of_strategy(tinymem.no_pruning), {}),
    "keep_last_n_steps": lambda at: (of_strategy(tinymem.keep_last_n_steps), {"n": 3}),
    "keep_system_and_recent": lambda at: (of_strategy(tinymem.keep_system_and_recent), {"n_recent": 3}),
    "token_budget": lambda at: (of_strategy(tinymem.token_budget), {"max_tokens": 200}),
    "prune_old_observations": lambda at: (of_strategy(tinymem.prune_old_observations), {}),
    "semantic_pruning": lambda at: (of_strategy(tinymem.semantic_pruning), {"embedder": "hashing", "max_tokens": 300}),
    "summarize_strategy": lambda at: (of_strategy(tinymem.summarize_strategy), {"max_tokens": 300}),
    "compose": lambda at: (
        lambda strategy: of_strategy(lambda: tinymem.compose(strategy))(),
        {"strategy": tinymem.no_pruning()},
    ),
    # a memory on disk
    "HierarchicalMemory": lambda at: (opening(HierarchicalMemory), {"path": at.folder(), **CHEAP}),
    "HierarchicalMemory.add": lambda at: (at.memory().add, {"step": TaskStep("x")}),
    "HierarchicalMemory.add_steps": lambda at: (at.memory().add_steps, {"steps": [TaskStep("x")]}),
    "HierarchicalMemory.add_messages": lambda at: (at.memory().add_messages, {"messages": [MESSAGE]}),
    "HierarchicalMemory.archive": lambda at: (at.memory().archive, {"steps": [TaskStep("x")]}),
    "HierarchicalMemory.mark": lambda at: (at.memory().mark, {"id": STEP.id}),
    "HierarchicalMemory.get": lambda at: (at.memory().get, {"id": STEP.id}),
    "HierarchicalMemory.context": lambda at: (at.memory().context, {}),
    "HierarchicalMemory.recall": lambda at: (at.memory().recall, {"query": "staging"}),
    "HierarchicalMemory.fit": lambda at: (at.memory().fit, {"messages": [MESSAGE], "session": "x"}),
    "HierarchicalMemory.history": lambda at: (exhausted(at.memory().history), {}),
    "HierarchicalMemory.open": lambda at: (at.memory().open, {"id": STEP.id}),
    "HierarchicalMemory.tools": lambda at: (at.memory().tools, {}),
    "HierarchicalMemory.explain": lambda at: (at.memory().explain, {"query": "staging"}),
    "HierarchicalMemory.forget": lambda at: (at.memory().forget, {"session": "x"}),
    "HierarchicalMemory.forget_namespace": lambda at: (
        HierarchicalMemory.forget_namespace,
        {"path": at.written(), "namespace": "default"},
    ),
    "HierarchicalMemory.restore": lambda at: (at.memory().restore, {"report": MemoryManager().clear()}),
    "HierarchicalMemory.retain": lambda at: (at.memory().retain, {"retention": tinymem.Retention(max_steps=5)}),
    "HierarchicalMemory.export": lambda at: (at.memory().export, {"file": at.folder().with_suffix(".jsonl")}),
    "Retention": lambda at: (tinymem.Retention, {}),
    "Shares": lambda at: (Shares, {}),
    "Memories": lambda at: (opening(Memories), {"path": at.folder(), **CHEAP}),
    "Memories.open": lambda at: (
        _open_namespace(at.held(closing(Memories(at.folder(), **CHEAP)))),
        {"namespace": "ann"},
    ),
    "namespaces": lambda at: (namespaces, {"path": at.written()}),
    # conversations, working memory, scratchpad
    "ConversationMemory": lambda at: (opening(ConversationMemory), {"path": at.folder()}),
    "ConversationMemory.add_message": lambda at: (at.held(_conversation(at)).add_message, dict(MESSAGE)),
    "ConversationMemory.get": lambda at: (at.held(_conversation(at)).get, {"nanoid": "x"}),
    "ConversationMemory.get_history": lambda at: (at.held(_conversation(at)).get_history, {}),
    "ConversationMemory.search": lambda at: (at.held(_conversation(at)).search, {"query": "staging"}),
    "WorkingMemory": lambda at: (WorkingMemory, {}),
    "WorkingMemory.add": lambda at: (WorkingMemory().add, {"step": {"thought": "x"}}),
    "WorkingMemory.format_history": lambda at: (_working().format_history, {}),
    "WorkingMemory.get_full_context": lambda at: (_working().get_full_context, {}),
    "AgentMemory": lambda at: (AgentMemory, {}),
    "AgentMemory.store": lambda at: (AgentMemory().store, {"name": "x", "value": 5}),
    "AgentMemory.recall": lambda at: (AgentMemory().recall, {"name": "x"}),
    "AgentMemory.observe": lambda at: (AgentMemory().observe, {"text": "x"}),
    "AgentMemory.fail": lambda at: (AgentMemory().fail, {"text": "x"}),
    "AgentMemory.to_context": lambda at: (AgentMemory().to_context, {}),
    "AgentMemory.load": lambda at: (AgentMemory.load, {"text": AgentMemory().dump()}),
    "ExecutionResult": lambda at: (ExecutionResult, {}),
    "execution_result": lambda at: (execution_result, {"step": ActionStep(tool_name="ls")}),
    # upkeep
    "export_memory": lambda at: (export_memory, {"path": at.written(), "file": at.path / "out.jsonl"}),
    "import_memory": lambda at: (
        import_memory,
        {"path": at.folder(), "file": _exported(at), "embedder": "hashing:8"},
    ),
    "reindex": lambda at: (reindex, {"path": at.written(), "embedder": "hashing:8", "store": "exact"}),
    "doctor": lambda at: (doctor, {"path": at.written(), "store": "exact"}),
    "rebuild": lambda at: (rebuild, {"path": at.written(), "store": "exact"}),
    "debug_memory": lambda at: (tinymem.debug_memory, {"memory": MemoryManager("x")}),
    "visualize_memory": lambda at: (tinymem.visualize_memory, {"memory": MemoryManager("x")}),
    # adapters
    "embedder_from": lambda at: (embedder_from, {"spec": "hashing"}),
    "store_from": lambda at: (store_from, {"spec": "exact", "path": at.folder()}),
    "known_store": lambda at: (check_store_spec, {"spec": "exact"}),
    "summarizer_from": lambda at: (summarizer_from, {"spec": "extractive"}),
    "HashingEmbedder": lambda at: (HashingEmbedder, {}),
    "HashingEmbedder.embed_documents": lambda at: (HashingEmbedder().embed_documents, {"texts": ["x"]}),
    "ExactStore": lambda at: (ExactStore, {}),
    "ExtractiveSummarizer": lambda at: (ExtractiveSummarizer, {}),
    "ExtractiveSummarizer.summarize": lambda at: (
        ExtractiveSummarizer().summarize,
        {"steps": [STEP], "max_tokens": 50},
    ),
    "ChatSummarizer": lambda at: (ChatSummarizer, {"api_key": "x", "base_url": "http://127.0.0.1:9/v1"}),
}
# What a call makes of the value of this argument is the user's business, so any is taken.
ANY = {("AgentMemory.store", "value"), ("AgentMemory.recall", "default")}

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


def _conversation(at: Place) -> ConversationMemory:
    return ConversationMemory(at.folder(), **CHEAP)


def _working() -> WorkingMemory:
    working = WorkingMemory(task_description="x")
    working.add({"thought": "x"})
    return working


def _exported(at: Place) -> Path:
    file = at.path / "in.jsonl"
    export_memory(at.written(), file)
    return file


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
    call, given = CALLS[name](place)
    for argument, parameter in inspect.signature(call).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or (name, argument) in ANY:
            continue
        call, given = CALLS[name](place)
        for wrong in WRONG:
            try:
                call(**{**given, argument: wrong})
            except Exception as error:
                yield argument, wrong, error


@pytest.mark.parametrize("name", CALLS)
def test_whatever_an_argument_is_the_error_is_tinymems_own_and_names_it(name: str, place: Place) -> None:
    found = list(outcomes(name, place))
    wrong = [
        f"{argument}={given!r:.60}: {type(error).__name__}: {error}"
        for argument, given, error in found
        if not isinstance(error, TinymemError)
        or not re.search(f"{argument}|{SAID.get(argument, argument)}", str(error))
    ]
    assert not wrong, "\n".join(wrong)
