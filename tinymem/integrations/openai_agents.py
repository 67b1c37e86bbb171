"""OpenAI Agents SDK: a session that keeps every item, and a filter that sends what fits and recalls the rest.

    from tinymem.integrations.openai_agents import TinymemSession, recalling

    config = RunConfig(call_model_input_filter=recalling(memory, max_tokens=4_000))
    await Runner.run(agent, "Where is staging?", session=TinymemSession("thread-7", memory), run_config=config)

The session gives back exactly the items that it was given, reasoning included. The filter sends the model those that
fit, and one block with what the memory recalls of all sessions. Each works without the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import chain, groupby, islice, repeat
from typing import Any, NamedTuple

from tinymem.errors import MessageError, MissingExtraError
from tinymem.integrations.native import (
    AnyMemory,
    find_session,
    fit_items,
    lineage,
    list_tools,
    name_subagent,
    run_on,
    steps_apart,
    to_sync,
)
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.memory.tools import MemoryTool
from tinymem.messages.formats import conversation_from
from tinymem.messages.formats.conversation import Added, items_of
from tinymem.messages.formats.parts import joined
from tinymem.messages.recognition import NATIVE
from tinymem.steps.content import to_json, to_mutable
from tinymem.steps.step import Message

try:
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit
    from agents.run import CallModelData, ModelInputData
    from agents.run_internal.agent_tool_configuration import _current_run  # nothing public tells runs apart
    from agents.tool import FunctionTool
    from agents.tracing import get_current_trace
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.openai_agents", "openai-agents") from error

__all__ = ["TinymemSession", "memory_tools", "recalling"]

MARK = "openai_agents"  # in the native form of a message: the session that its items are of
SESSION = "run the agent with a TinymemSession, give recalling a session, or RunConfig a group_id, where tracing is on"

DIGITS = 6  # by which the runs of an agent as a tool differ
Item = Any  # of the Responses API, a dict


class _AgentRun(NamedTuple):
    """A run, as what it calls knows it.

    Attributes:
        name: The name of its conversation.
        sdk_run: The SDK's object of it.
        outer: The run that it is a tool of.
        given: The name that its filter was given.
        session: Its session, if it has one.
        read: The items that it read of its session, each with the number of its step.
    """

    name: str
    sdk_run: Any
    outer: _AgentRun | None = None
    given: str | None = None
    session: TinymemSession | None = None
    read: Sequence[tuple[int, Item]] = ()


_noted: ContextVar[_AgentRun | None] = ContextVar("the newest run that was noted here", default=None)


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
        most = resolve_session_limit(limit, self.session_settings)
        found = await run_on(self.memory, _items, self.session_id, most)
        if (sdk_run := _current_run.get()) is not None:  # a run begins with this
            _, outer = _lookup()
            _noted.set(_AgentRun(self.session_id, sdk_run, outer, outer and outer.given, self, found))
        return [item for _, item in found]

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
        session: The name of the conversation; that of the run's TinymemSession, or the `group_id` of its trace, unless
            given.
        options: Other arguments of `HierarchicalMemory.fit`, as filters.
    """

    async def filtered(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        sent = await run_on(memory, _fitted, given, _entered(data, session), max_tokens, options)
        return ModelInputData(input=sent, instructions=given.instructions)

    return filtered


def _lookup() -> tuple[_AgentRun | None, _AgentRun | None]:
    """Return what is noted of the run that goes on, and of the run that it is a tool of.

    A note outlives its run, since the SDK begins none in a context of its own.
    """
    noted = _noted.get()
    if noted is None or noted.sdk_run is _current_run.get():
        return noted, noted and noted.outer
    return None, None if noted.sdk_run.closed else noted


def _entered(data: CallModelData[Any], session: str | None) -> _AgentRun:
    """Return the run that calls the model, and note that it does."""
    run, outer = _lookup()
    around = run or outer
    if session is not None and session != (around and around.given):  # not the filter of the run around it
        name = session
    elif around is None:
        name = find_session(None, getattr(get_current_trace(), "group_id", None), SESSION)
    elif run is not None:
        name = run.name
    else:
        digest = hashlib.sha256(to_json(data.model_data.input[:1]).encode()).hexdigest()[:DIGITS]
        name = name_subagent(around.name, f"{data.agent.name}-{digest}")
    if run is None or run.name != name:
        run = _AgentRun(name, _current_run.get(), outer)
    run = run._replace(given=session)
    _noted.set(run)
    return run


def _fitted(
    memory: HierarchicalMemory,
    given: ModelInputData,
    run: _AgentRun,
    max_tokens: int | None,
    options: Mapping[str, Any],
) -> list[Item]:
    sent = {*map(to_json, given.input)}
    left_out = {number for number, item in run.read if to_json(item) not in sent}  # by a session_input_callback
    is_archived = run.session is not None and to_sync(run.session.memory) is memory
    more = {"archive": not is_archived, "metadata": lineage(run.name), **options}
    more["without"] = [*steps_apart(memory, run.name), *left_out]
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


def _stored(memory: HierarchicalMemory, session: str) -> Iterator[tuple[int, list[Item]]]:
    """Yield the number of each step of a session with its items, the newest first."""
    for step in memory.history(session, newest=True):
        natives = [message.get(NATIVE) for message in step.to_messages()]
        items = [native["items"] for native in natives if isinstance(native, Mapping) and native.get(MARK) == session]
        if items:  # else the filter was given it, and the session was not
            yield step.step_number or 0, [*chain.from_iterable(map(to_mutable, items))]


def _items(memory: HierarchicalMemory, session: str, limit: int | None) -> list[tuple[int, Item]]:
    """Return the newest items of a session in order, each with the number of its step."""
    newest = chain.from_iterable(zip(repeat(number), reversed(items)) for number, items in _stored(memory, session))
    return [*islice(newest, limit)][::-1]


def _add(memory: HierarchicalMemory, session: str, items: Sequence[Item]) -> None:
    messages = list(_messages(session, items_of(items)))
    memory.archive_messages(messages, session=session, format="openai", on_conflict="add")


def _pop(memory: HierarchicalMemory, session: str) -> Item | None:
    number, items = next(_stored(memory, session), (0, []))
    if not items:
        return None
    _add(memory, session, items[:-1])
    memory.forget([number])
    return items[-1]


def _clear(memory: HierarchicalMemory, session: str) -> None:
    numbers = [number for number, _ in _stored(memory, session)]
    if numbers:
        memory.forget(numbers)


def _messages(session: str, items: Sequence[Item]) -> Iterator[Message]:
    """Yield messages of a chat, each with its items: as many as are understood together, and others as text."""
    for is_understood, group in groupby(items, _is_understood):
        if not is_understood:
            for item in group:
                text = joined(item) or str(item.get("type"))
                yield {"role": "user", "content": text, NATIVE: {MARK: session, "items": [item]}}
            continue
        conversation = conversation_from([*group], "responses")
        for place, message in enumerate(conversation.messages):
            yield {**message, NATIVE: {MARK: session, "items": conversation.write([Added(message, place)])}}


def _is_understood(item: Item) -> bool:
    try:
        return bool(conversation_from([item], "responses").messages)
    except MessageError:
        return False
