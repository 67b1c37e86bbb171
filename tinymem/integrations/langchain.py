"""LangChain: a middleware that fits an agent's history into a budget and recalls the rest, and a retriever.

    from tinymem.integrations.langchain import TinymemMiddleware

    agent = create_agent(model, tools, middleware=[TinymemMiddleware(memory, max_tokens=4_000)])
    agent.invoke({"messages": [("user", "Where is staging?")]}, {"configurable": {"thread_id": "thread-7"}})

The state of the agent keeps all messages; the model is sent those that fit, as the same objects, and one block with
what the memory recalls. Each thread is a session of the memory, by its `thread_id`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import Any

from tinymem.errors import MissingExtraError
from tinymem.integrations.native import (
    AnyMemory,
    NativeConversation,
    archive,
    find_session,
    fit,
    list_tools,
    make_answer,
    make_call,
    make_result,
    name_subagent,
    rank_excerpts,
    read_calls,
    run_on,
    shorten_content,
    to_sync,
)
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.formats.parts import joined, mark, said, text_part
from tinymem.steps.step import Message

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import ModelRequest, ModelResponse
    from langchain_core.documents import Document
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
        convert_to_openai_data_block,
    )
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import StructuredTool
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.langchain", "langchain") from error

__all__ = ["MessagesConversation", "TinymemMiddleware", "TinymemRetriever", "memory_tools"]

THOUGHTS = ("reasoning", "thinking", "reasoning_content")
BESIDE = (*THOUGHTS, "redacted_thinking", "tool_use", "function_call", "input_json_delta")  # and in `tool_calls`
NESTED, TOOLS, DIGITS = "|", "tools", 8  # of a checkpoint's namespace: its places, the node of an agent's tools, an id
SESSION = 'invoke the agent with {"configurable": {"thread_id": ...}}, or give TinymemMiddleware a session'


class TinymemMiddleware(AgentMiddleware):
    """Sends the model what fits of the history, and what the memory recalls; the state stays as it is.

    Args:
        memory: The memory.
        max_tokens: The most tokens of the messages, the system prompt included; the memory's own unless given.
        session: The name of the conversation; the thread's id unless given.
    """

    def __init__(self, memory: AnyMemory, max_tokens: int | None = None, session: str | None = None) -> None:
        super().__init__()
        self.memory, self.max_tokens, self.session = memory, max_tokens, session

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> Any:
        """Call the model with what fits, and archive its answer."""
        session = _session(self.session, request)
        response = handler(_fitted(self.memory, request, session, self.max_tokens))
        _archive(self.memory, request, response, session)
        return response

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> Any:
        """Call the model with what fits, and archive its answer."""
        session = _session(self.session, request)
        response = await handler(await run_on(self.memory, _fitted, request, session, self.max_tokens))
        await run_on(self.memory, _archive, request, response, session)
        return response


def _fitted(memory: AnyMemory, request: ModelRequest, session: str, max_tokens: int | None) -> ModelRequest:
    prompt = [request.system_message] if request.system_message else []
    history, said = MessagesConversation([*prompt, *request.messages]), _said(request)
    is_edited = said != request.messages
    if is_edited:
        archive(memory, MessagesConversation(said).messages, session)
    sent = fit(memory, history, session, max_tokens, archive=not is_edited)
    return request.override(messages=sent[len(prompt) :])


def _archive(memory: AnyMemory, request: ModelRequest, response: ModelResponse, session: str) -> None:
    history = MessagesConversation([*_said(request), *response.result])
    archive(memory, history.messages, session)


def _said(request: ModelRequest) -> list[Any]:
    """Return what was said: the messages of the state, which other middleware may have edited for the request."""
    found: list[Any] = request.state.get("messages") or request.messages
    return found


class TinymemRetriever(BaseRetriever):
    """Retrieves excerpts of what a memory holds, the best first.

    Attributes:
        memory: The memory.
        k: The most documents.
        max_tokens: The most tokens of all of them together.
        session: Only from this session.
        where: Only from steps with these values in their metadata.
    """

    memory: Any
    k: int | None = None
    max_tokens: int = 1_000
    session: str | None = None
    where: dict[str, Any] | None = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any, k: int | None = None) -> list[Document]:
        return _documents(to_sync(self.memory), query, self, k)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any, k: int | None = None) -> list[Document]:
        return await run_on(self.memory, _documents, query, self, k)


def _documents(memory: HierarchicalMemory, query: str, retriever: TinymemRetriever, k: int | None) -> list[Document]:
    recalled = memory.recall(query, retriever.max_tokens, session=retriever.session, where=retriever.where)
    best = rank_excerpts(recalled, k or retriever.k)
    return [Document(item.text, id=f"{item.step.id}:{item.part}:{item.start}", metadata=_about(item)) for item in best]


def _about(item: Any) -> dict[str, Any]:
    step = item.step
    about = {"step": step.id, "type": step.type, "time": step.timestamp.isoformat(), "relevance": item.relevance}
    named = {"session": step.session, "speaker": step.speaker}
    return {**step.metadata, **about, **{name: value for name, value in named.items() if value is not None}}


def memory_tools(memory: AnyMemory, **filters: Any) -> list[StructuredTool]:
    """Return tools by which the model searches the memory: `search_memory` and `open_memory`.

    Args:
        memory: The memory.
        filters: `session` and `where`, as for `HierarchicalMemory.tools`.
    """
    return [
        StructuredTool(
            name=tool.name,
            description=schema["description"],
            args_schema=schema["parameters"],
            func=tool.call,
            coroutine=tool.acall,
        )
        for tool, schema in list_tools(memory, filters)
    ]


def _session(given: str | None, request: ModelRequest) -> str:
    """Return the name of the conversation, which begins with those of the agents that it is a tool of."""
    running = request.runtime.execution_info
    session = find_session(given, running.thread_id and str(running.thread_id), SESSION)
    for place in running.checkpoint_ns.split(NESTED)[:-1]:
        node, _, task = place.partition(":")
        if node == TOOLS:
            session = name_subagent(session, task[:DIGITS])
    return session


# -- messages ---------------------------------------------------------------------------------------------------------


class MessagesConversation(NativeConversation[BaseMessage]):
    """Messages of LangChain."""

    def _read(self, native: BaseMessage) -> Message:
        blocks: list[Any] = native.content_blocks
        content = said(_parts_of(blocks))
        if isinstance(native, ToolMessage):
            return make_result(native.tool_call_id, content)
        if isinstance(native, AIMessage):
            calls = [make_call(call["id"] or "", call["name"], call["args"]) for call in native.tool_calls]
            values = [block.get("value", block) for block in blocks]
            thoughts = [joined(value) for value in values if value.get("type") in THOUGHTS]
            return make_answer(content, calls, "\n".join(thoughts))
        role = "system" if isinstance(native, SystemMessage) else getattr(native, "role", "user")
        return {"role": role, "content": content}

    def _made(self, message: Message) -> BaseMessage:
        return convert_to_messages([message])[0]

    def _shortened(self, native: BaseMessage, message: Message) -> BaseMessage:
        update: dict[str, Any] = {"content": shorten_content(native.content, message, _read_part)}
        if isinstance(native, AIMessage):
            pairs = zip(native.tool_calls, read_calls(message), strict=True)
            update["tool_calls"] = [{**call, "args": arguments} for call, (_, _, arguments) in pairs]
        return native.model_copy(update=update)


def _parts_of(blocks: Iterable[Any]) -> list[Message]:
    return [*chain.from_iterable(map(_parts, blocks))]


def _read_part(part: Any) -> list[Message]:
    return _parts_of(HumanMessage([part]).content_blocks)


def _parts(block: Any) -> list[Message]:
    kind, value = block.get("type") or "", block.get("value", block)
    if kind in ("text", "text-plain"):
        return [text_part(block.get("text") or "")]
    if kind in ("image", "file", "audio", "video"):
        return [_media(block)]
    if kind.startswith("server_tool") or (kind == "non_standard" and value.get("type") not in BESIDE):
        return [text_part(joined({**value, "extras": None}))]
    return []  # calls, which stand beside the content, and thoughts


def _media(block: Any) -> Message:
    extras = block.get("extras") or {}
    try:
        made: Message = convert_to_openai_data_block({"filename": extras.get("filename") or "file", **block})
    except (KeyError, ValueError):  # a chat has no form for it
        return mark(block["type"], block.get("url"), block.get("file_id"))
    return made
