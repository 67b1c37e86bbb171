"""Strands: a store for its MemoryManager, which injects what is found and may extract what is said.

    from tinymem.integrations.strands import TinymemMemoryStore

    agent = Agent(model=model, memory_manager=MemoryManager([TinymemMemoryStore(memory)]))
    agent("Where is staging?")

After each turn, what is new is archived, calls and results of tools included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from weakref import WeakSet

from tinymem.errors import MissingExtraError
from tinymem.integrations.native import (
    AnyMemory,
    archive,
    find_relevant,
    list_tools,
    make_turn,
    rank_excerpts,
    run_on,
)
from tinymem.memory.tools import MemoryTool
from tinymem.messages.formats.parts import mark, text_part
from tinymem.steps.step import Message

try:
    from strands.memory import ExtractionConfig, InvocationTrigger, MemoryEntry, MemoryMessageFilter, MemoryStore
    from strands.tools import PythonAgentTool
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.strands", "strands") from error

__all__ = ["TinymemMemoryStore", "memory_tools"]

MEDIA = ("image", "document", "video", "audio")
TOKENS = 200  # for each entry that is searched for


class TinymemMemoryStore(MemoryStore):
    """A store of Strands over a memory.

    Args:
        memory: The memory.
        name: The name by which the manager's tools know it.
        description: Its description for the model.
        max_search_results: The most entries of a search.
        extraction: What the manager hands over: after each turn all of it, as True stands for here; or as its
            `ExtractionConfig` says; False for nothing.
        session: The name of the session that is written to.
    """

    def __init__(
        self,
        memory: AnyMemory,
        name: str = "tinymem",
        description: str | None = "What was said and done in earlier conversations, word for word.",
        *,
        max_search_results: int | None = 10,
        extraction: Any = True,
        session: str = "strands",
    ) -> None:
        self.memory, self.name, self.description, self.session = memory, name, description, session
        self.max_search_results, self.writable = max_search_results, True
        # The manager's own settings leave out what tools are asked and answer.
        trigger = self._turns = _Turns()
        everything = ExtractionConfig(trigger=trigger, filter=MemoryMessageFilter(exclude=[]))
        self.extraction = everything if extraction is True else extraction

    async def search(self, query: str, options: Any = None) -> list[MemoryEntry]:
        """Return what bears on a query, the best first, but for what the agent still has in its messages."""
        count = (options or {}).get("max_search_results") or self.max_search_results or 10
        shown = _chat(self._turns.messages())
        found = await run_on(self.memory, find_relevant, query, TOKENS * count, session=self.session, sent=shown)
        return [MemoryEntry(item.text, self.name, _about(item)) for item in rank_excerpts(found, count)]

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Archive a text, once however often it comes."""
        given = [{"role": "user", "content": content}]
        await run_on(self.memory, archive, given, self.session, metadata=metadata, on_conflict="skip")

    async def add_messages(self, messages: Sequence[Any], context: Any = None) -> None:
        """Archive messages of Strands: those of a manager, which hands over each once, or else what is new of them."""
        on_conflict = "add" if context else "skip"
        await run_on(self.memory, archive, _chat(messages), self.session, on_conflict=on_conflict)


class _Turns(InvocationTrigger):
    """The manager's trigger of each turn, which knows the agents that it is attached to."""

    def __init__(self) -> None:
        super().__init__()
        self._agents: WeakSet[Any] = WeakSet()

    def attach(self, context: Any) -> None:
        """Fire after each turn of an agent."""
        self._agents.add(context.agent)
        super().attach(context)

    def messages(self) -> list[Any]:
        """Return what the agents have in their messages."""
        return [*chain.from_iterable(agent.messages for agent in self._agents)]


def memory_tools(memory: AnyMemory, **filters: Any) -> list[PythonAgentTool]:
    """Return tools by which the model searches the memory: `search_memory` and `open_memory`.

    A MemoryManager has a `search_memory` of its own; turn it off with `search_tool_config=False`.

    Args:
        memory: The memory.
        filters: `session` and `where`, as for `HierarchicalMemory.tools`.
    """
    return [_tool(tool, schema) for tool, schema in list_tools(memory, filters)]


def _tool(tool: MemoryTool, schema: Message) -> PythonAgentTool:
    async def answer(use: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        text = await tool.acall(**use["input"])
        return {"toolUseId": use["toolUseId"], "status": "success", "content": [{"text": text}]}

    spec = {"name": tool.name, "description": schema["description"], "inputSchema": {"json": schema["parameters"]}}
    return PythonAgentTool(tool.name, spec, answer)


def _about(item: Any) -> dict[str, Any]:
    step = item.step
    return {**step.metadata, "step": step.id, "time": step.timestamp.isoformat(), "relevance": item.relevance}


def _chat(messages: Sequence[Any]) -> list[Message]:
    return [*chain.from_iterable(map(_messages, messages))]


def _messages(message: Mapping[str, Any]) -> Iterator[Message]:
    """Return the messages of a chat that one of Strands is; thoughts are not archived."""
    blocks = message["content"]
    uses = [block["toolUse"] for block in blocks if "toolUse" in block]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return make_turn(
        message["role"],
        map(_part, blocks),
        [(use["toolUseId"], use["name"], use["input"]) for use in uses],
        [(result["toolUseId"], result["content"]) for result in results],
    )


def _part(block: Mapping[str, Any]) -> Message | None:
    if "text" in block:
        return text_part(block["text"])
    kind = next((name for name in MEDIA if name in block), None)
    return mark(kind, str(block[kind].get("name") or "")) if kind else None
