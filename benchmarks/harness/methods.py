"""The methods by name, and `tinymem` as one of them, through its public API only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from benchmarks.harness.baselines import BM25, PASSAGE_TERMS, Dense, Passages, Recency
from benchmarks.harness.data import Claim, Method, Question, Recalled, Unit
from benchmarks.harness.multilingual import MultilingualE5
from tinymem import HierarchicalMemory, MessageStep, Step
from tinymem.errors import InputError
from tinymem.messages.conversion import message_places
from tinymem.protocols import Embedder
from tinymem.recall import Recall
from tinymem.recall.fusion import Fusion
from tinymem.recall.render import between
from tinymem.recall.search import Search
from tinymem.registry import embedder_from

__all__ = ["AS_CALLED", "METHODS", "OURS", "PEERS", "RANKED", "Setup", "Tinymem", "method_from"]

PEERS = {  # other memories: what `benchmarks.peers` installs for each, its own package first
    "chromadb": ("chromadb==1.5.9",),
    "mem0": ("mem0ai==2.2.1", "chromadb==1.5.9"),
    "langgraph": ("langgraph-checkpoint==4.3.2", "numpy"),
    "llamaindex": ("llama-index-core==0.14.25",),
    "mempalace": ("mempalace==3.11.0", "chromadb==1.5.9"),
    "sqlite-vec": ("sqlite-vec==0.1.9", "apsw==3.54.1.0", "numpy"),
    "lancedb": ("lancedb==0.40.0", "numpy"),
    "txtai": ("txtai==9.14.0", "faiss-cpu==1.15.1", "torch==2.13.0"),
}
AS_CALLED = "tinymem-default"  # `memory.recall(question)` and nothing else: it chooses what it spends
RANKED = "tinymem-ranked"  # the best excerpts first
OURS = ("tinymem", AS_CALLED, RANKED)
METHODS = (*OURS, "recency", "bm25", "bm25-passages", "dense")
EMBEDDING = (*OURS, "dense")  # those that use an embedder
ROLES = ("system", "user", "assistant")
NO_UNIT = ("call", "code", "signal", "error")  # parts of a step that stand in no unit's own text


@dataclass(frozen=True)
class Setup:
    """With what a method is made: an empty folder, names of adapters, and whether tools were used in the haystack."""

    folder: Path
    embedder: str = "static"
    store: str = "chroma"
    agent_run: bool = False
    fusion: Fusion | None = None  # the weights of `tinymem`, the published ones unless given


def method_from(name: str, setup: Setup) -> Method:
    """The method of that name, empty. InputError if there is none."""
    if name in OURS:
        return Tinymem(setup, name)
    if name == "recency":
        return Recency()
    if name == "bm25":
        return BM25()
    if name == "bm25-passages":
        return Passages(BM25(PASSAGE_TERMS))
    if name == "dense":
        return Dense(setup.folder, loaded(setup.embedder))
    raise InputError(f"there is no method {name!r} (known: {', '.join(METHODS)})")


@cache
def loaded(name: str) -> Embedder:
    """The embedder of that name, loaded once for all haystacks."""
    return MultilingualE5() if name == MultilingualE5.name else embedder_from(name)


class Tinymem:
    """`HierarchicalMemory.recall`. Conversations go in line by line, agent runs as chat messages.

    A budget is filled, unless it is asked as it is called by somebody who gives nothing but the question.
    """

    def __init__(self, setup: Setup, name: str = "tinymem") -> None:
        embedder = loaded(setup.embedder)
        self._memory = HierarchicalMemory(setup.folder, namespace="bench", embedder=embedder, store=setup.store)
        if setup.fusion is not None:
            self._memory._search = Search(self._memory.long_term, setup.fusion)
        self._agent_run, self._name = setup.agent_run, name
        self.units: list[Unit] = []
        self._places: dict[str, list[int]] = {}  # step id -> places of the units that it holds, message by message

    @property
    def memory(self) -> HierarchicalMemory:
        """The memory that is measured."""
        return self._memory

    def add(self, units: Sequence[Unit]) -> None:
        """Take in the next units."""
        steps = self._add_run(units) if self._agent_run else self._memory.add_steps([as_step(unit) for unit in units])
        rendered = [step.to_messages(style="tools") for step in steps]
        before = len(self.units)
        for step, places in zip(steps, message_places(steps, rendered), strict=True):
            self._places[step.id] = [before + place for place in places]
        self.units.extend(units)
        count = sum(map(len, rendered))
        assert count == len(units), f"{len(units)} units went in, the steps hold {count}"

    def _add_run(self, units: Sequence[Unit]) -> list[Step]:
        """Add chat messages, a session at a time; its first moment stands for all of it."""
        steps: list[Step] = []
        for session, group in groupby(units, key=lambda unit: unit.session):
            said = list(group)
            messages = [as_message(unit) for unit in said]
            steps += self._memory.add_messages(messages, session=session, timestamp=said[0].timestamp)
        return steps

    def recall(self, question: Question, budget: int) -> Recalled:
        """Return the result of `recall`, and its place in the units."""
        if self._name == AS_CALLED:
            return self.claiming(self._memory.recall(question.text, now=question.now))
        order: Literal["time", "relevance"] = "relevance" if self._name == RANKED else "time"
        found = self._memory.recall(question.text, budget, now=question.now, min_relevance=0, order=order)
        return self.claiming(found)

    def claiming(self, found: Recall) -> Recalled:
        """Return the recalled text, and its place in the units."""
        claims = []
        for item in found.items:
            part = item.step.parts()[item.part]
            if part.kind not in NO_UNIT:
                place = self._places[item.step.id][part.message]
                left_out = [(first, last) for first, last, _ in item.gone]
                claims += [Claim(place, *piece) for piece in between(item.end, [(0, item.start), *left_out])]
        return Recalled(found.text, tuple(claims))

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()


def as_step(unit: Unit) -> Step:
    """A line of a conversation; who is neither user nor assistant is a person with that name."""
    when: dict[str, Any] = {} if unit.timestamp is None else {"timestamp": unit.timestamp}
    if unit.speaker in ROLES:
        return MessageStep(unit.speaker, unit.text, session=unit.session, **when)
    return MessageStep("user", unit.text, speaker=unit.speaker, session=unit.session, **when)


def as_message(unit: Unit) -> dict[str, Any]:
    """A unit of an agent run as the chat message that it was."""
    if unit.tool_call_id is not None:
        return {"role": "tool", "tool_call_id": unit.tool_call_id, "content": unit.text}
    if unit.speaker not in ROLES:
        return {"role": "user", "name": unit.speaker, "content": unit.text}
    message: dict[str, Any] = {"role": unit.speaker, "content": unit.text}
    if unit.tool_calls:
        calls = [(call.id, {"name": call.name, "arguments": call.arguments}) for call in unit.tool_calls]
        message["tool_calls"] = [{"id": name, "type": "function", "function": call} for name, call in calls]
    return message
