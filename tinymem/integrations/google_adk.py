"""Google ADK: a memory service whose users each have a memory of their own.

    from tinymem.integrations.google_adk import TinymemMemoryService

    service = TinymemMemoryService(Memories("./memory"))
    runner = Runner(agent=agent, app_name="app", session_service=sessions, memory_service=service)

Give the agent `TinymemPreloadTool()`, or `load_memory` of ADK. A session may be added again and again: only events
that are new are kept, as steps of the namespace of the app and the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from tinymem.errors import MissingExtraError
from tinymem.integrations.native import rank_excerpts
from tinymem.memory.aio.memories import AsyncMemories
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.memory.memories import Memories
from tinymem.messages.formats.parts import joined
from tinymem.steps.content import to_json
from tinymem.steps.ids import new_id
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

try:
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.tools import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.adk.tools.preload_memory_tool import PreloadMemoryTool
    from google.genai import types
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.google_adk", "google-adk") from error

__all__ = ["TinymemMemoryService", "TinymemPreloadTool", "memory_tools"]

T = TypeVar("T")

_served: ContextVar[Sequence[str]] = ContextVar("the ids of the events that a request has", default=())


class TinymemMemoryService(BaseMemoryService):
    """A memory service of ADK: each user of each app is a namespace.

    Args:
        memories: The memories of all users.
        max_tokens: The most tokens of what a search finds, each with its time and author, as ADK writes them.
    """

    def __init__(self, memories: Memories | AsyncMemories, max_tokens: int = 1_000) -> None:
        self.memories, self.max_tokens = _async(memories), max_tokens

    async def add_session_to_memory(self, session: Any) -> None:
        """Keep the events of a session that are new."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Keep events that are new."""
        steps = list(_steps(events, session_id, custom_metadata))
        add = partial(HierarchicalMemory.archive, on_conflict="skip")
        await _run(self.memories, _namespace(app_name, user_id), add, steps)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what bears on a query, the best first; nothing where nothing does."""
        found = await _run(self.memories, _namespace(app_name, user_id), _found, query, self.max_tokens, _served.get())
        return SearchMemoryResponse(memories=found)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Remove what was said in an event for good; it does not come back with its session."""
        if memory_id:
            await _run(self.memories, _namespace(app_name, user_id), _delete, memory_id)


class TinymemPreloadTool(PreloadMemoryTool):
    """ADK's `preload_memory`, less the events of the session that is served, which its requests have already.

    The service is asked for a user, and is not given the session; this tool gives it.
    """

    async def process_llm_request(self, *, tool_context: Any, llm_request: Any) -> None:
        """Add what bears on the newest message to a request."""
        before = _served.set([event.id for event in tool_context.session.events])
        try:
            await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        finally:
            _served.reset(before)


async def _run(memories: AsyncMemories, namespace: str, function: Callable[..., T], *args: Any) -> T:
    async with memories.open(namespace) as memory:
        return await memory.run(function, *args)


def _async(memories: Memories | AsyncMemories) -> AsyncMemories:
    return memories if isinstance(memories, AsyncMemories) else AsyncMemories.over(memories)


def memory_tools(memories: Memories | AsyncMemories) -> list[BaseToolset]:
    """Return tools by which the model searches its user's memory: `search_memory` and `open_memory`, as a toolset.

    Args:
        memories: The memories of all users.
    """
    return [_MemoryToolset(_async(memories))]


class _MemoryToolset(BaseToolset):
    """The tools of the memory of the user who is served."""

    def __init__(self, memories: AsyncMemories) -> None:
        super().__init__()
        self._memories = memories

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        """Return the tools; without a context there is no user, so there are none."""
        if readonly_context is None:
            return []
        namespace = _namespace(readonly_context.session.app_name, readonly_context.user_id)
        tools = await _run(self._memories, namespace, HierarchicalMemory.tools)
        return [_AdkTool(self._memories, namespace, tool.schema["function"]) for tool in tools]


class _AdkTool(BaseTool):
    """A tool of a memory."""

    def __init__(self, memories: AsyncMemories, namespace: str, schema: Mapping[str, Any]) -> None:
        super().__init__(name=schema["name"], description=schema["description"])
        self._memories, self._namespace, self._schema = memories, namespace, schema

    def _get_declaration(self) -> types.FunctionDeclaration:
        parameters = self._schema["parameters"]
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> str:
        """Answer a call."""
        return await _run(self._memories, self._namespace, _called, self.name, args)


def _called(memory: HierarchicalMemory, name: str, arguments: Mapping[str, Any]) -> str:
    return next(tool for tool in memory.tools() if tool.name == name).call(**arguments)


def _namespace(app: str, user: str) -> str:
    """Return the name of a user's namespace, as in `app/ann`."""
    return f"{quote(app, safe='')}/{quote(user, safe='')}"


def _delete(memory: HierarchicalMemory, id: str) -> None:
    """Leave nothing of a step but its id, by which its event is known when it comes again."""
    step = memory.get(id)
    memory.archive([MessageStep("user", "", id=step.id, session=step.session)], on_conflict="replace")


def _steps(events: Sequence[Any], session: str | None, more: Mapping[str, object] | None = None) -> Iterator[Step]:
    for event in events:
        text = _text(event.content)
        if text:
            role = "user" if event.author == "user" else "assistant"
            when = datetime.fromtimestamp(event.timestamp, timezone.utc)
            about = {"timestamp": when, "session": session, "speaker": event.author, "metadata": dict(more or {})}
            yield MessageStep(role, text, id=event.id or new_id(), **about)


def _text(content: Any) -> str:
    """Return what the parts of a content say, calls and results of tools too, thoughts not."""
    found = []
    for part in (content and content.parts) or ():
        if part.function_call:
            found.append(f"{part.function_call.name}({to_json(part.function_call.args or {})})")
        elif part.function_response:
            found.append(joined(part.function_response.response))
        elif part.text and not part.thought:
            found.append(part.text)
    return "\n".join(found)


def _found(memory: HierarchicalMemory, query: str, max_tokens: int, sent: Sequence[str]) -> list[MemoryEntry]:
    """Return what bears on a query, the best first, as much as fits, without the events that are `sent`."""
    found, left = [], max_tokens
    recalled = memory.recall(query, max_tokens, without=memory.long_term.journal.numbers(sent).values())
    for entry in map(_entry, rank_excerpts(recalled) if recalled.is_relevant else ()):
        left -= memory.long_term.counter.count(f"Time: {entry.timestamp}\n{entry.author}: {_text(entry.content)}\n")
        if left >= 0:
            found.append(entry)
    return found


def _entry(item: Any) -> MemoryEntry:
    step = item.step
    role = "user" if step.role == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=item.text)])
    when = step.timestamp.isoformat(timespec="seconds")
    return MemoryEntry(content=content, id=step.id, author=step.speaker, timestamp=when)
