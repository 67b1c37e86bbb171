"""Microsoft Agent Framework: a context provider that recalls before a run, and keeps what was said in it.

    from tinymem.integrations.agent_framework import TinymemProvider

    agent = Agent(client, context_providers=[TinymemProvider(memory, max_tokens=1_000)])
    await agent.run("Where is staging?", session=agent.create_session(session_id="thread-7"))

The framework keeps the history of a session; the provider adds one message with what the memory recalls.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from tinymem.errors import MissingExtraError
from tinymem.integrations.native import (
    AnyMemory,
    archive,
    find_relevant,
    find_session,
    list_tools,
    make_turn,
    run_on,
)
from tinymem.messages.formats.parts import mark, text_part
from tinymem.steps.step import Message

try:
    from agent_framework import ContextProvider, FunctionTool
    from agent_framework import Message as FrameworkMessage
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.agent_framework", "agent-framework") from error

__all__ = ["TinymemProvider", "memory_tools"]

SESSION = "run the agent with a session that has an id, or give TinymemProvider a session"


class TinymemProvider(ContextProvider):
    """A context provider over a memory.

    Args:
        memory: The memory.
        max_tokens: The most tokens of what is recalled for a run.
        session: The name of the conversation; the id of the framework's session unless given.
        source_id: The name by which the framework knows the provider.
    """

    def __init__(
        self, memory: AnyMemory, max_tokens: int = 1_000, session: str | None = None, source_id: str = "tinymem"
    ) -> None:
        super().__init__(source_id)
        self.memory, self.max_tokens, self.session = memory, max_tokens, session

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        """Add what bears on the new messages, of other sessions: the framework sends all of its own."""
        query = "\n".join(message.text for message in context.input_messages)
        found = await run_on(
            self.memory, find_relevant, query, self.max_tokens, session=self.session or context.session_id
        )
        if found.text:
            context.extend_messages(self, [FrameworkMessage(role="user", contents=[found.text])])

    async def after_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        """Archive what was said in the run."""
        name = find_session(self.session, context.session_id, SESSION)
        given = [*context.input_messages, *(context.response.messages if context.response else ())]
        messages = [*chain.from_iterable(map(_messages, given))]
        await run_on(self.memory, archive, messages, name, on_conflict="add")


def memory_tools(memory: AnyMemory, **filters: Any) -> list[FunctionTool]:
    """Return tools by which the model searches the memory: `search_memory` and `open_memory`.

    Args:
        memory: The memory.
        filters: `session` and `where`, as for `HierarchicalMemory.tools`.
    """
    return [
        FunctionTool(
            name=tool.name,
            description=schema["description"],
            func=tool.acall,
            input_model=schema["parameters"],
            approval_mode="never_require",
        )
        for tool, schema in list_tools(memory, filters)
    ]


def _messages(message: Any) -> Iterator[Message]:
    """Return the messages of a chat that one of the framework is; thoughts are not archived."""
    calls = [part for part in message.contents if part.type == "function_call"]
    results = [part for part in message.contents if part.type == "function_result"]
    return make_turn(
        str(message.role),
        map(_part, message.contents),
        [(call.call_id, call.name, call.arguments or {}) for call in calls],
        [(result.call_id, result.result) for result in results],
    )


def _part(part: Any) -> Message | None:
    if part.type == "text":
        return text_part(part.text)
    is_file = part.type in ("data", "uri", "hosted_file")
    return mark("file", getattr(part, "media_type", None)) if is_file else None
