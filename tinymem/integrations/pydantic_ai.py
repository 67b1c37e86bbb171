"""Pydantic AI: a capability that fits the history of a run into a budget and recalls the rest.

    from tinymem.integrations.pydantic_ai import Tinymem

    agent = Agent(model, capabilities=[Tinymem(memory, max_tokens=4_000)])
    agent.run_sync("Where is staging?", conversation_id="thread-7")

The history of the run keeps all messages; the model is sent those that fit, as the same objects, and one block with
what the memory recalls. Each conversation is a session of the memory, by its `conversation_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
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
    read_calls,
    run_on,
)
from tinymem.messages.formats.conversation import Placed
from tinymem.messages.formats.parts import joined, mark, rewritten, said, text_part, texts_of
from tinymem.steps.content import as_text
from tinymem.steps.step import Message

try:
    from pydantic_ai import RunContext, Tool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        BinaryContent,
        ImageUrl,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.pydantic_ai", "pydantic-ai") from error

__all__ = ["MessagesConversation", "Tinymem", "memory_tools"]

SESSION = "run the agent with conversation_id=..., or give Tinymem a session"


@dataclass
class Tinymem(AbstractCapability[Any]):
    """Sends the model what fits of the history, and what the memory recalls; the run's messages stay as they are.

    Attributes:
        memory: The memory.
        max_tokens: The most tokens of the messages, the instructions included; the memory's own unless given.
        session: The name of the conversation; the run's `conversation_id` unless given.
    """

    memory: AnyMemory
    max_tokens: int | None = None
    session: str | None = None

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Replace the messages of a request by those that fit."""
        sent = await run_on(self.memory, _fitted, request_context, self._name(ctx), self.max_tokens)
        return replace(request_context, messages=sent)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Archive the answer of the model."""
        conversation = MessagesConversation([*ctx.messages, response])
        await run_on(self.memory, archive, conversation.messages, self._name(ctx))
        return response

    def _name(self, ctx: RunContext[Any]) -> str:
        return find_session(self.session, ctx.conversation_id, SESSION)


def _fitted(memory: AnyMemory, request: ModelRequestContext, session: str, max_tokens: int | None) -> list[Any]:
    instructions = request.model_request_parameters.instruction_parts or ()
    conversation = MessagesConversation(request.messages, "\n\n".join(part.content for part in instructions))
    return fit(memory, conversation, session, max_tokens)


def memory_tools(memory: AnyMemory, **filters: Any) -> list[Tool[Any]]:
    """Return tools by which the model searches the memory: `search_memory` and `open_memory`.

    Args:
        memory: The memory.
        filters: `session` and `where`, as for `HierarchicalMemory.tools`.
    """
    return [
        Tool.from_schema(tool.acall, tool.name, schema["description"], schema["parameters"])
        for tool, schema in list_tools(memory, filters)
    ]


# -- messages ---------------------------------------------------------------------------------------------------------


class MessagesConversation(NativeConversation[tuple[Any, Any]]):
    """Messages of Pydantic AI: each part of a request is a message of a chat, and so is a response.

    `instructions` are counted, and sent beside the messages.
    """

    def __init__(self, messages: Iterable[Any], instructions: str = "") -> None:
        natives: list[tuple[Any, Any]] = [(None, instructions)] if instructions else []
        for message in messages:
            parts = [message] if isinstance(message, ModelResponse) else message.parts
            natives += [(message, part) for part in parts]
        super().__init__(natives)

    def _read(self, native: tuple[Any, Any]) -> Message:
        return _read(native[1])

    def _made(self, message: Message) -> tuple[Any, Any]:
        return None, _made(message)

    def _shortened(self, native: tuple[Any, Any], message: Message) -> tuple[Any, Any]:
        return native[0], _shortened(native[1], message)

    def _written(self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None) -> list[Any]:
        natives = [native for native in map(self._sent, placed) if not isinstance(native[1], str)]  # no instructions
        found: list[Any] = []
        for is_answer, group in groupby(natives, lambda native: isinstance(native[1], ModelResponse)):
            sent = [*group]
            found += [answer for _, answer in sent] if is_answer else [_request(sent)]
        return found


def _request(natives: Sequence[tuple[Any, Any]]) -> Any:
    """Return a request of these parts: the one that they are of, if nothing was added or left out."""
    parts = [part for _, part in natives]
    owner = [ModelRequest([]), *(owner for owner, _ in natives if owner)][-1]
    return owner if parts == [*owner.parts] else replace(owner, parts=parts)


def _read(part: Any) -> Message:
    if isinstance(part, ModelResponse):
        return _answer(part)
    if isinstance(part, (str, SystemPromptPart)):
        return {"role": "system", "content": getattr(part, "content", part)}
    if isinstance(part, ToolReturnPart):
        return make_result(part.tool_call_id, said([text_part(part.model_response_str()), *map(_file, part.files)]))
    if getattr(part, "tool_name", None):  # of a call that is to be made again
        return make_result(part.tool_call_id, part.model_response())
    content = part.model_response() if hasattr(part, "model_response") else getattr(part, "content", None)
    parts = content if isinstance(content, (list, tuple)) else [joined(content)]
    return {"role": "user", "content": said([*chain.from_iterable(map(_user_parts, parts))])}


def _answer(response: ModelResponse) -> Message:
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    thoughts = [part.content for part in response.parts if isinstance(part, ThinkingPart) and part.content]
    made = [make_call(part.tool_call_id, part.tool_name, part.args_as_json_str()) for part in calls]
    return make_answer(said([*chain.from_iterable(map(_said_in, response.parts))]), made, "\n".join(thoughts))


def _said_in(part: Any) -> list[Message]:
    """Return what a part of a response says; thoughts and calls stand elsewhere."""
    if isinstance(part, (ThinkingPart, ToolCallPart)):
        return []
    content = getattr(part, "content", None) or getattr(part, "args", None)
    if isinstance(content, BinaryContent):
        return [mark("file", content.media_type)]
    text = joined(content)
    return [text_part(text)] if text else []


def _user_parts(content: Any) -> list[Message]:
    if getattr(content, "kind", "") == "cache-point":
        return []
    text = content if isinstance(content, str) else getattr(content, "content", None)
    return [text_part(text) if isinstance(text, str) else _file(content)]


def _file(content: Any) -> Message:
    data = content.data_uri if isinstance(content, BinaryContent) else None
    if isinstance(content, ImageUrl) or (data and content.is_image):
        return {"type": "image_url", "image_url": {"url": data or content.url}}
    if data:
        return {"type": "file", "file": {"file_data": data, "filename": content.identifier}}
    return mark(content.kind, getattr(content, "url", None))


def _made(message: Message) -> Any:
    role, content = message["role"], as_text(message.get("content"))
    if role == "assistant":
        calls = [ToolCallPart(name, args, id) for id, name, args in read_calls(message)]
        return ModelResponse([*([TextPart(content)] if content else []), *calls])
    if role == "tool":
        return ToolReturnPart("tool", content, message["tool_call_id"])
    return SystemPromptPart(content) if role in ("system", "developer") else UserPromptPart(content)


def _shortened(part: Any, message: Message) -> Any:
    """Return a copy of a part with the texts and arguments of `message`; thoughts and files stay."""
    texts, content = texts_of(message.get("content")), as_text(message.get("content"))
    if isinstance(part, ModelResponse):
        made = {id: arguments for id, _, arguments in read_calls(message)}
        parts: list[Any] = rewritten(part.parts, _said_in, texts, TextPart)
        return replace(part, parts=[_with_arguments(each, made) for each in parts])
    if isinstance(part, ToolReturnPart) and part.files:
        return replace(part, content=[content, *part.files])
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        return replace(part, content=rewritten(part.content, _user_parts, texts, str))
    return replace(part, content=content) if hasattr(part, "content") else part


def _with_arguments(part: Any, made: Mapping[str, Any]) -> Any:
    return replace(part, args=made.get(part.tool_call_id, part.args)) if isinstance(part, ToolCallPart) else part
