"""OpenAI's chat completions and Responses API: what to send of a history that you keep.

    from tinymem.integrations.openai import chat_request

    history.append({"role": "user", "content": "Where is staging?"})
    reply = client.chat.completions.create(model="gpt-5", **chat_request(memory, history, session="thread-7"))
    history.append(reply.choices[0].message)

The history keeps everything, as dicts or objects of the SDK; what is sent are those that fit, as they came, reasoning
items included, and one block with what the memory recalls. What is new is archived with the next request, so end a
conversation with `memory.archive_messages(history, session="thread-7")`. The package `openai` is not imported: any
client of these APIs will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tinymem.integrations.native import AnyMemory, fit_items, run_on, to_sync
from tinymem.memory.tools import MemoryTool

__all__ = ["achat_request", "aresponses_request", "chat_request", "responses_request", "responses_tools"]


def chat_request(
    memory: AnyMemory, messages: Sequence[Any], *, session: str, max_tokens: int | None = None, **options: Any
) -> dict[str, Any]:
    """Return the arguments of `client.chat.completions.create` that say the conversation.

    Args:
        memory: The memory.
        messages: The whole history, as dicts or objects of the SDK.
        session: The name of the conversation.
        max_tokens: The most tokens of the messages; the memory's own unless given.
        options: Other arguments of `HierarchicalMemory.fit`, as filters.

    Raises:
        MessageError: A message is malformed; the error names its index.
        BudgetError: What must be in is over the budget by itself.

    >>> from tinymem import HierarchicalMemory
    >>> with HierarchicalMemory() as memory:
    ...     chat_request(memory, [{"role": "user", "content": "Hi."}], session="s1")
    {'messages': [{'role': 'user', 'content': 'Hi.'}]}
    """
    context = to_sync(memory).fit(list(messages), session=session, max_tokens=max_tokens, format="openai", **options)
    return {"messages": context.to()}


def responses_request(
    memory: AnyMemory,
    items: Sequence[Any],
    *,
    session: str,
    max_tokens: int | None = None,
    instructions: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the arguments of `client.responses.create` that say the conversation.

    Args:
        memory: The memory.
        items: The whole history: inputs, and the `output` of each response.
        session: The name of the conversation.
        max_tokens: The most tokens of the items and the instructions; the memory's own unless given.
        instructions: The instructions, which are sent beside the items.
        options: Other arguments of `HierarchicalMemory.fit`, as filters.

    Raises:
        MessageError: An item is not understood, or stands for others that are not there; the error names its index.
        BudgetError: What must be in is over the budget by itself.

    >>> from tinymem import HierarchicalMemory
    >>> with HierarchicalMemory() as memory:
    ...     responses_request(memory, [{"role": "user", "content": "Hi."}], session="s1", instructions="Be brief.")
    {'input': [{'role': 'user', 'content': 'Hi.'}], 'instructions': 'Be brief.'}
    """
    request: dict[str, Any] = {"input": fit_items(memory, instructions, items, session, max_tokens, options)}
    return {**request, "instructions": instructions} if instructions else request


def responses_tools(tools: Iterable[MemoryTool]) -> list[dict[str, Any]]:
    """Return the tools of a memory as `client.responses.create(tools=...)` takes them.

    The chat API takes `[tool.schema for tool in tools]`.

    >>> from tinymem import HierarchicalMemory
    >>> with HierarchicalMemory() as memory:
    ...     [(tool["type"], tool["name"]) for tool in responses_tools(memory.tools())]
    [('function', 'search_memory'), ('function', 'open_memory')]
    """
    return [{"type": "function", **tool.schema["function"]} for tool in tools]


async def achat_request(memory: AnyMemory, messages: Sequence[Any], **options: Any) -> dict[str, Any]:
    """Return what `chat_request` does, while the event loop goes on."""
    return await run_on(memory, chat_request, messages, **options)


async def aresponses_request(memory: AnyMemory, items: Sequence[Any], **options: Any) -> dict[str, Any]:
    """Return what `responses_request` does, while the event loop goes on."""
    return await run_on(memory, responses_request, items, **options)
