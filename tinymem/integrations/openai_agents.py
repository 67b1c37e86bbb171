"""OpenAI Agents SDK: a session that keeps every item, and a filter that sends what fits and recalls the rest.

    from tinymem.integrations.openai_agents import TinymemSession, recalling

    config = RunConfig(call_model_input_filter=recalling(memory, max_tokens=4_000))
    await Runner.run(agent, "Where is staging?", session=TinymemSession("thread-7", memory), run_config=config)

The session gives back exactly the items that it was given, reasoning included. The filter sends the model those that
fit, and one block with what the memory recalls of all sessions. Each works without the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from tinymem.errors import MessageError, MissingExtraError
from tinymem.integrations.native import (
    AnyMemory,
    find_session,
    fit_items,
    list_tools,
    name_subagent,
    run_on,
    steps_apart,
    to_sync,
)
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.memory.tools import MemoryTool
from tinymem.messages.formats import conversation_from
from tinymem.messages.formats.conversation import Added
from tinymem.messages.formats.parts import items_of, strings
from tinymem.messages.recognition import NATIVE
from tinymem.steps.content import to_json, to_mutable
from tinymem.steps.step import Message

try:
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit
    from agents.run import CallModelData, ModelInputData
    from agents.tool import FunctionTool
    from agents.tracing import get_current_trace
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.openai_agents", "openai-agents") from error

__all__ = ["TinymemSession", "memory_tools", "recalling"]

MARK = "openai_agents"  # in the native form of a message: the session that its items are of
SESSION = "run the agent with a TinymemSession, with RunConfig(group_id=...), or give recalling a session"

DIGITS = 6  # by which the runs of an agent as a tool differ
Item = Any  # of the Responses API, a dict


class _AgentRun(NamedTuple):
    """A run, as tasks that it begins know it.

    Attributes:
        name: The name of its conversation.
        session: Its session, if it has one.
        agent: The agent that called the model last.
        task: The task in which it did. Tools, and agents that run as tools, are called in others.
        above: The names of the conversations of the runs that it is a tool of.
    """

    name: str
    session: TinymemSession | None = None
    agent: Any = None
    task: asyncio.Task[Any] | None = None
    above: tuple[str, ...] = ()


_running: ContextVar[_AgentRun | None] = ContextVar("the run that this is a part of", default=None)


class TinymemSession(SessionABC):
    """A session of the SDK, kept in a memory as one session of it.

    Args:
        session_id: The name of the conversation.
        memory: The memory.
        session_settings: The SDK's settings, as the most items of a run.
    """

    def __init__(self, session_id: str, memory: AnyMemory, session_settings: SessionSettings | None = None) -> None:
        self.session_id, self.memory = session_id, memory
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the newest `limit` items, or all, in order."""
        _running.set(_AgentRun(self.session_id, self))  # a run begins with this
        return await run_on(self.memory, _items, self.session_id, resolve_session_limit(limit, self.session_settings))

    async def add_items(self, items: list[Item]) -> None:
        """Add items; they are on disk when this returns."""
        if items:
            await run_on(self.memory, _add, self.session_id, items)

    async def pop_item(self) -> Item | None:
        """Remove the newest item for good, and return it; None if there is none."""
        return await run_on(self.memory, _pop, self.session_id)

    async def clear_session(self) -> None:
        """Remove all items for good."""
        await run_on(self.memory, _clear, self.session_id)

    def close(self) -> None:
        """Do nothing, as often as it is called: the memory stays open for others."""


def recalling(
    memory: AnyMemory, max_tokens: int | None = None, session: str | None = None, **options: Any
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """Make a `call_model_input_filter` that sends what fits of the input, and what the memory recalls.

    A run with a TinymemSession of this memory is archived by its session, others by the filter. An agent that runs as
    a tool has a conversation of its own, `NAME/agents/AGENT-...`; it and the one that it is a tool of are not recalled
    into each other, since what it reports is the result of the call.

    Args:
        memory: The memory.
        max_tokens: The most tokens of the input and the instructions; the memory's own unless given.
        session: The name of the conversation; that of the run's TinymemSession, or its `group_id`, unless given.
        options: Other arguments of `HierarchicalMemory.fit`, as filters.
    """

    async def filtered(data: CallModelData[Any]) -> ModelInputData:
        run = _entered(data, session)
        given = data.model_data
        is_archived = run.session is not None and to_sync(run.session.memory) is to_sync(memory)
        metadata = {"parent": run.above[-1]} if run.above else None
        more = {"archive": not is_archived, "metadata": metadata, **options}
        sent = await run_on(memory, _fitted, given, run, max_tokens, more)
        return ModelInputData(input=sent, instructions=given.instructions)

    return filtered


def _entered(data: CallModelData[Any], session: str | None) -> _AgentRun:
    """Return the run that calls the model, and note that it does."""
    before, task = _running.get(), asyncio.current_task()
    if before is not None and before.task not in (None, task) and before.agent is not data.agent:
        digest = hashlib.sha256(to_json(data.model_data.input[:1]).encode()).hexdigest()[:DIGITS]
        name = name_subagent(before.name, f"{data.agent.name}-{digest}")
        run = _AgentRun(name, None, data.agent, task, (*before.above, before.name))
    elif before is not None and (before.session is not None or before.above):
        run = before._replace(agent=data.agent, task=task)
        if session is not None and not before.above and session != before.name:
            run = _AgentRun(session, None, data.agent, task)
    else:
        group = getattr(get_current_trace(), "group_id", None)
        run = _AgentRun(find_session(session, group, SESSION), None, data.agent, task)
    _running.set(run)
    return run


def _fitted(
    memory: HierarchicalMemory,
    given: ModelInputData,
    run: _AgentRun,
    max_tokens: int | None,
    options: Mapping[str, Any],
) -> list[Item]:
    more = {**options, "without": steps_apart(memory, run.name, run.above)}
    return fit_items(memory, given.instructions, given.input, run.name, max_tokens, more)


def memory_tools(memory: AnyMemory, **filters: Any) -> list[FunctionTool]:
    """Return tools by which the model searches the memory: `search_memory` and `open_memory`.

    Args:
        memory: The memory.
        filters: `session` and `where`, as for `HierarchicalMemory.tools`.
    """
    return [
        FunctionTool(
            tool.name, schema["description"], schema["parameters"], partial(_called, tool), strict_json_schema=False
        )
        for tool, schema in list_tools(memory, filters)
    ]


async def _called(tool: MemoryTool, context: Any, arguments: str) -> str:
    """Answer a call; its arguments come as the model wrote them."""
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        given = None
    return await tool.acall(**given) if isinstance(given, dict) else "The arguments are no JSON object."


# -- items and steps --------------------------------------------------------------------------------------------------


def _stored(memory: HierarchicalMemory, session: str) -> Iterator[tuple[str, list[Item]]]:
    """Yield the id of each step of a session with its items, the newest first."""
    for step in memory.history(session, newest=True):
        natives = [message.get(NATIVE) for message in step.to_messages()]
        items = [native["items"] for native in natives if isinstance(native, Mapping) and native.get(MARK) == session]
        if items:  # else the filter was given it, and the session was not
            yield step.id, [*chain.from_iterable(map(to_mutable, items))]


def _items(memory: HierarchicalMemory, session: str, limit: int | None) -> list[Item]:
    found: list[Item] = []
    for _, items in _stored(memory, session):
        if limit is not None and len(found) >= limit:
            break
        found = [*items, *found]
    return found if limit is None else found[max(0, len(found) - limit) :]


def _add(memory: HierarchicalMemory, session: str, items: Sequence[Item]) -> None:
    messages = list(_messages(session, items_of(items)))
    memory.archive_messages(messages, session=session, format="openai", on_conflict="add")


def _pop(memory: HierarchicalMemory, session: str) -> Item | None:
    id, items = next(_stored(memory, session), ("", []))
    if not items:
        return None
    if items[:-1]:
        _add(memory, session, items[:-1])
    memory.forget([id])
    return items[-1]


def _clear(memory: HierarchicalMemory, session: str) -> None:
    ids = [id for id, _ in _stored(memory, session)]
    if ids:
        memory.forget(ids)


def _messages(session: str, items: Sequence[Item]) -> Iterator[Message]:
    """Yield messages of a chat, each with its items: as many as are understood together, and others as text."""
    begin = 0
    for place, item in enumerate(items):
        if not _is_understood(item):
            yield from _understood(session, items[begin:place])
            text = "\n".join(strings(item)) or str(item.get("type"))
            yield {"role": "user", "content": text, NATIVE: {MARK: session, "items": [item]}}
            begin = place + 1
    yield from _understood(session, items[begin:])


def _is_understood(item: Item) -> bool:
    try:
        return bool(conversation_from([item], "responses").messages)
    except MessageError:
        return False


def _understood(session: str, items: Sequence[Item]) -> Iterator[Message]:
    conversation = conversation_from(items, "responses")
    for place, message in enumerate(conversation.messages):
        yield {**message, NATIVE: {MARK: session, "items": conversation.write([Added(message, place)])}}
