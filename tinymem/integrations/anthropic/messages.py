"""Anthropic's Messages API: what to send of a history that you keep.

    from tinymem.integrations.anthropic import messages_request

    history.append({"role": "user", "content": "Where is staging?"})
    request = messages_request(memory, history, session="thread-7", system="You are brief.")
    reply = client.messages.create(model="claude-sonnet-4-5", max_tokens=1_024, **request)
    history.append({"role": "assistant", "content": reply.content})

The history keeps everything, as dicts or objects of the SDK; what is sent are those that fit, as they came, thinking
and signatures included, and one block with what the memory recalls. What is new is archived with the next request, so
end a conversation with `memory.archive_messages(history, session="thread-7")`. The package `anthropic` is not
imported: any client of the API will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tinymem.integrations.native import AnyMemory, run_on, to_sync
from tinymem.memory.tools import MemoryTool

__all__ = ["amessages_request", "messages_request", "messages_tools"]


def messages_request(
    memory: AnyMemory,
    messages: Sequence[Any],
    *,
    session: str,
    max_tokens: int | None = None,
    system: str | Sequence[Any] | None = None,
    cache_control: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the arguments of `client.messages.create` that say the conversation: `messages`, and `system` if given.

    Args:
        memory: The memory.
        messages: The whole history, as dicts or objects of the SDK.
        session: The name of the conversation.
        max_tokens: The most tokens of the messages and the system prompt; the memory's own unless given.
        system: The system prompt, a text or a list of blocks.
        cache_control: The mark at the end of what stays the same from call to call, as `{"type": "ephemeral"}`.
        options: Other arguments of `HierarchicalMemory.fit`, as filters.

    Raises:
        MessageError: A message is malformed; the error names its index.
        BudgetError: What must be in is over the budget by itself.

    >>> from tinymem import HierarchicalMemory
    >>> with HierarchicalMemory() as memory:
    ...     messages_request(memory, [{"role": "user", "content": "Hi."}], session="s1", system="Be brief.")
    {'system': 'Be brief.', 'messages': [{'role': 'user', 'content': 'Hi.'}]}
    """
    given: dict[str, Any] = {"messages": list(messages)}
    if system is not None:
        given["system"] = system if isinstance(system, str) else list(system)
    context = to_sync(memory).fit(given, session=session, max_tokens=max_tokens, format="anthropic", **options)
    request: dict[str, Any] = context.to(cache_control=cache_control)
    return request


def messages_tools(tools: Iterable[MemoryTool]) -> list[dict[str, Any]]:
    """Return the tools of a memory as `client.messages.create(tools=...)` takes them.

    >>> from tinymem import HierarchicalMemory
    >>> with HierarchicalMemory() as memory:
    ...     [sorted(tool) for tool in messages_tools(memory.tools())]
    [['description', 'input_schema', 'name'], ['description', 'input_schema', 'name']]
    """
    schemas = [tool.schema["function"] for tool in tools]
    return [
        {"name": schema["name"], "description": schema["description"], "input_schema": schema["parameters"]}
        for schema in schemas
    ]


async def amessages_request(memory: AnyMemory, messages: Sequence[Any], **options: Any) -> dict[str, Any]:
    """Return what `messages_request` does, while the event loop goes on."""
    return await run_on(memory, messages_request, messages, **options)
