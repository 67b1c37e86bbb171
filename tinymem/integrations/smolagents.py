"""smolagents: an agent whose requests are fitted into a budget, and that recalls what they leave out.

    from tinymem.integrations.smolagents import remember

    agent = remember(ToolCallingAgent(tools, model), memory, max_tokens=4_000)
    agent.run("Where is staging?")

`agent.memory` keeps all steps; the model is sent their messages as far as they fit, as the framework writes them, and
one block with what the memory recalls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from tinymem.errors import MissingExtraError
from tinymem.integrations.native import (
    AnyMemory,
    NativeConversation,
    archive,
    fit,
    list_tools,
    make_call,
    make_result,
    shorten_content,
)
from tinymem.memory.tools import MemoryTool
from tinymem.messages.formats.conversation import Placed
from tinymem.messages.formats.parts import said, text_part
from tinymem.messages.tokens import count_message
from tinymem.protocols import TokenCounter
from tinymem.steps.content import as_text
from tinymem.steps.step import Message

try:
    from smolagents import ActionStep, ChatMessage, FinalAnswerStep, MultiStepAgent, PlanningStep, Tool
    from smolagents.models import MessageRole
    from smolagents.utils import encode_image_base64, make_image_url
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.smolagents", "smolagents") from error

__all__ = ["StepsConversation", "memory_tools", "remember"]

AgentT = TypeVar("AgentT")


def remember(agent: AgentT, memory: AnyMemory, max_tokens: int | None = None, session: str | None = None) -> AgentT:
    """Give an agent a memory: its requests hold what fits of its steps, and what the memory recalls.

    Args:
        agent: A MultiStepAgent.
        memory: The memory.
        max_tokens: The most tokens of the messages, the system prompt included; the memory's own unless given.
        session: The name of the conversation; that of the agent, or "smolagents", unless given.

    Returns:
        The agent.
    """
    made: MultiStepAgent = agent
    name = session or made.name or "smolagents"
    made.write_memory_to_messages = partial(_written, made, memory, max_tokens, name)
    made.step_callbacks.register(
        FinalAnswerStep, lambda step: archive(memory, StepsConversation(made.memory).messages, name)
    )
    return agent


def _written(
    agent: Any, memory: AnyMemory, max_tokens: int | None, session: str, summary_mode: bool = False
) -> list[Any]:
    found: list[Any] = fit(memory, StepsConversation(agent.memory, summary_mode), session, max_tokens)
    return found


class _SmolagentsTool(Tool):
    """A tool of a memory, for calls and for code."""

    output_type = "string"
    skip_forward_signature_validation = True  # its inputs are those of the memory's tool

    def __init__(self, tool: MemoryTool, schema: Message) -> None:
        self.name, self.description, self._tool = tool.name, schema["description"], tool
        parameters = schema["parameters"]
        self.inputs = {
            name: {"type": about["type"], "description": about["description"]}
            | ({} if name in parameters["required"] else {"nullable": True})
            for name, about in parameters["properties"].items()
        }
        super().__init__()

    def forward(self, *args: Any, **named: Any) -> str:
        """Answer a call; arguments may be given by place, as in code."""
        return self._tool.call(**dict(zip(self.inputs, args, strict=False)), **named)


def memory_tools(memory: AnyMemory, **filters: Any) -> list[Tool]:
    """Return tools by which the model searches the memory: `search_memory` and `open_memory`.

    Args:
        memory: The memory.
        filters: `session` and `where`, as for `HierarchicalMemory.tools`.
    """
    return [_SmolagentsTool(tool, schema) for tool, schema in list_tools(memory, filters)]


class StepsConversation(NativeConversation[tuple[ChatMessage, Message]]):
    """The messages of an agent's steps: a step's call and what came of it are a call and its results."""

    def __init__(self, memory: Any, summary_mode: bool = False) -> None:
        steps = [memory.system_prompt, *memory.steps]
        pairs = [*chain.from_iterable(_pairs(step, number, summary_mode) for number, step in enumerate(steps))]
        super().__init__((native, message) for native, message, _ in pairs)
        self._images = [images for _, _, images in pairs]

    def _read(self, native: tuple[ChatMessage, Message]) -> Message:
        return native[1]

    def _written(self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None) -> list[Any]:
        found: list[Any] = []
        for entry in placed:
            if entry.input is not None:
                found += self._images[entry.input]
            if entry.input is not None or entry.message["role"] != "tool":  # no placeholders
                found.append(self._sent(entry)[0])
        return found

    def tokens_beside(self, index: int, counter: TokenCounter) -> int:
        """Count the tokens of the images, too, that are sent with an observation."""
        images = [{"role": "user", "content": _content(image)} for image in self._images[index]]
        return super().tokens_beside(index, counter) + sum(count_message(image, counter) for image in images)

    def _made(self, message: Message) -> tuple[ChatMessage, Message]:
        role = MessageRole.TOOL_RESPONSE if message["role"] == "tool" else MessageRole(message["role"])
        return ChatMessage(role, [text_part(as_text(message.get("content")))]), message

    def _shortened(self, native: tuple[ChatMessage, Message], message: Message) -> tuple[ChatMessage, Message]:
        content = shorten_content(native[0].content, message, lambda part: [_part(part)])
        return replace(native[0], content=content), message


def _pairs(step: Any, number: int, summary_mode: bool) -> Iterator[tuple[ChatMessage, Message, Sequence[ChatMessage]]]:
    """Yield the messages of a step, each with the one of a chat that it is, and the images that are sent before it.

    Images of an observation are put there by callbacks, and taken away later: they are no part of what is archived.
    """
    natives = step.to_messages(summary_mode=summary_mode)
    if not isinstance(step, ActionStep):
        for native in natives:
            is_plan = isinstance(step, PlanningStep)  # whose request to go on is not the user's
            yield native, {"role": "assistant" if is_plan else native.role.value, "content": _content(native)}, ()
        return
    calling = [
        place for place, native in enumerate(natives) if native.role in (MessageRole.TOOL_CALL, MessageRole.ASSISTANT)
    ]
    last = calling[-1] if calling else len(natives)
    after = natives[last + 1 :]
    results = [native for native in after if native.role == MessageRole.TOOL_RESPONSE] or after
    images = [native for native in after if native.role != MessageRole.TOOL_RESPONSE and results is not after]
    name, id = (step.tool_calls[0].name, step.tool_calls[0].id) if step.tool_calls else ("none", "")
    ids = [f"{id or number}-{place}" for place in range(len(results))]
    for place, native in enumerate(natives[: last + 1]):
        calls = [make_call(id, name, "{}") for id in ids] if place == last else []
        yield native, {"role": "assistant", "content": _content(native)} | ({"tool_calls": calls} if calls else {}), ()
    for id, native in zip(ids, results, strict=True):
        yield native, make_result(id, _content(native)), images
        images = []


def _content(native: ChatMessage) -> Any:
    if not isinstance(native.content, list):
        return native.content or ""
    return said([_part(part) for part in native.content])


def _part(part: Mapping[str, Any]) -> Message:
    if part.get("type") != "image":
        return dict(part)
    return {"type": "image_url", "image_url": {"url": make_image_url(encode_image_base64(part["image"]))}}
