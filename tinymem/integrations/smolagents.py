"""smolagents: an agent whose requests are fitted into a budget, and that recalls what they leave out.

    from tinymem.integrations.smolagents import remember

    agent = remember(ToolCallingAgent(tools, model), memory, max_tokens=4_000)
    agent.run("Where is staging?")

`agent.memory` keeps all steps; the model is sent their messages as far as they fit, as the framework writes them, and
one block with what the memory recalls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from tinymem.errors import MissingExtraError
from tinymem.integrations.native import (
    AnyMemory,
    NativeConversation,
    archive,
    fit,
    list_tools,
    make_answer,
    make_call,
    make_result,
    name_subagent,
    shorten_content,
)
from tinymem.memory.tools import MemoryTool
from tinymem.messages.calls import raw_calls
from tinymem.messages.formats.conversation import Placed
from tinymem.messages.formats.parts import said, text_part, texts_of
from tinymem.steps.content import as_parts, as_text
from tinymem.steps.step import Message

try:
    from smolagents import ActionStep, ChatMessage, FinalAnswerStep, MultiStepAgent, TaskStep, Tool
    from smolagents.agents import populate_template
    from smolagents.models import MessageRole
    from smolagents.utils import encode_image_base64, make_image_url
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.smolagents", "smolagents") from error

__all__ = ["StepsConversation", "memory_tools", "remember"]

_LABELS = re.compile("^(?:Execution logs|Last output from code snippet):\n", re.MULTILINE)  # of an observation
SEAM = "\0"  # where a task stands in the template around it
UNREAD = "none"  # the name of a call that could not be read
AgentT = TypeVar("AgentT")


def remember(agent: AgentT, memory: AnyMemory, max_tokens: int | None = None, session: str | None = None) -> AgentT:
    """Give an agent a memory: its requests hold what fits of its steps, and what the memory recalls.

    What an agent does for one that manages it is a conversation of its own, `NAME/agents/AGENT`. The two are not
    recalled into each other, since what it reports is the result of the call.

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

    def fitted(summary_mode: bool = False) -> list[Any]:
        history = StepsConversation(made, summary_mode)
        return fit(memory, history, _entered(made, name), max_tokens, archive=not summary_mode)

    def archived(step: FinalAnswerStep) -> None:
        archive(memory, StepsConversation(made).messages, _entered(made, name))

    made.write_memory_to_messages = fitted
    made.step_callbacks.register(FinalAnswerStep, archived)
    return agent


def _entered(agent: Any, name: str) -> str:
    """Return the name of the conversation of an agent, and tell it those that the agent manages."""
    is_managed = agent.task and _asked(agent.task, agent) != agent.task
    outer = getattr(agent, "managed_in", None) if is_managed else None
    session = name_subagent(outer, name) if outer else name
    for managed in agent.managed_agents.values():
        managed.managed_in = session
    return session


def _asked(task: str, agent: Any) -> str:
    """Return what is asked in a task, without what the framework says around it to an agent that is managed."""
    before, after = _around(agent.prompt_templates["managed_agent"]["task"], agent.name)
    return task.removeprefix(before).replace(after, "", 1) if before and task.startswith(before) else task


@lru_cache
def _around(template: str, name: str | None) -> tuple[str, str]:
    text = populate_template(template, variables={"name": name, "task": SEAM})
    before, _, after = text.partition(SEAM)
    return before, after


class _SmolagentsTool(Tool):
    """A tool of a memory, for calls and for code."""

    output_type = "string"
    skip_forward_signature_validation = True  # its inputs are those of the memory's tool

    def __init__(self, tool: MemoryTool, schema: Message) -> None:
        self.name, self.description, self._tool = tool.name, schema["description"], tool
        parameters = schema["parameters"]
        self.inputs = {
            name: {**about, "nullable": name not in parameters["required"]}
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


class SpokenTurn(NamedTuple):
    """A message of a chat with what was said, and the messages in which the framework sends it."""

    message: Message
    natives: Sequence[ChatMessage]


class StepsConversation(NativeConversation[SpokenTurn]):
    """The steps of an agent, without the words that the framework puts around what was said.

    A step's calls and what came of them are a call and its result.
    """

    def __init__(self, agent: Any, summary_mode: bool = False) -> None:
        steps = [agent.memory.system_prompt, *agent.memory.steps]
        super().__init__(chain.from_iterable(_turns(step, agent, summary_mode) for step in steps))

    def _read(self, native: SpokenTurn) -> Message:
        return native.message

    def _written(self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None) -> list[Any]:
        turns = (self._sent(entry) for entry in placed if entry.input is not None or entry.message["role"] != "tool")
        return [*chain.from_iterable(turn.natives for turn in turns)]  # without placeholders of results

    def _made(self, message: Message) -> SpokenTurn:
        text, calls = as_text(message.get("content")), [call["function"] for call in raw_calls(message)]
        if message["role"] == "tool":
            return SpokenTurn(message, [ChatMessage(MessageRole.TOOL_RESPONSE, [text_part(f"Observation:\n{text}")])])
        if calls and calls[0]["name"] != UNREAD:
            text = f"{text}\nCalling tools:\n{calls}"
        return SpokenTurn(message, [ChatMessage(MessageRole(message["role"]), [text_part(text)])])

    def _shortened(self, native: SpokenTurn, message: Message) -> SpokenTurn:
        if message["role"] == "user":
            first, *more = native.natives
            content = shorten_content(first.content, message, lambda part: [_part(part)])
            return SpokenTurn(message, [replace(first, content=content), *more])
        beside = [sent for sent in native.natives if sent.role == MessageRole.USER]  # images, or to go on with a plan
        return SpokenTurn(message, [*self._made(message).natives, *beside])


def _turns(step: Any, agent: Any, summary_mode: bool) -> Iterator[SpokenTurn]:
    """Yield what was said in a step: its first message, or a call and its result.

    What comes behind a plan, the request to go on, is not the user's.
    """
    natives = step.to_messages(summary_mode=summary_mode)
    if isinstance(step, ActionStep) and any(native.role == MessageRole.TOOL_RESPONSE for native in natives):
        yield from _call_and_result(step, agent, natives)
        return
    for first in natives[:1]:
        parts = [*map(_part, as_parts(first.content))]
        if isinstance(step, TaskStep):
            parts[0] = text_part(_asked(step.task, agent))
        yield _turn({"role": first.role.value, "content": said(parts)}, natives, texts_of(parts))


def _call_and_result(step: Any, agent: Any, natives: Sequence[ChatMessage]) -> Iterator[SpokenTurn]:
    """Yield one call for all calls of a step, since they have one result, and what came of them.

    Images of an observation are put there by callbacks, and taken away later: they are no part of what is archived.
    """
    calling = [native for native in natives if native.role in (MessageRole.TOOL_CALL, MessageRole.ASSISTANT)]
    words = "".join(as_text(native.content) for native in calling if native.role == MessageRole.ASSISTANT)
    if step.code_action:  # which stands in the call
        words = words.split(step.code_action)[0].rstrip().removesuffix(agent.code_block_tags[0]).rstrip()
    call, arguments = _call_of(step.tool_calls), (repr(call.arguments) for call in step.tool_calls or ())
    yield _turn(make_answer(words, [call]), calling, [words, *arguments])
    seen = [text.strip("\n") for text in _LABELS.split(step.observations or "")]
    error = str(step.error or "")
    told = filter(None, [*seen, error and f"Error: {error}"])
    yield _turn(make_result(call["id"], "\n".join(told)), natives[len(calling) :], [*seen, error])


def _turn(message: Message, natives: Sequence[ChatMessage], words: Iterable[str]) -> SpokenTurn:
    """Return a turn; what stands around the words that were said is counted, and no part of what was said."""
    around = "\n".join(chain.from_iterable(texts_of(native.content) for native in natives))
    for text in words:
        around = around.replace(text, "", 1)
    return SpokenTurn({**message, "reasoning_content": around} if around else message, natives)


def _call_of(called: Any) -> Message:
    if not called:
        return make_call("", UNREAD, {})
    functions = [call.dict()["function"] for call in called]
    arguments = functions[0]["arguments"]
    if len(functions) > 1:
        arguments = {"calls": functions}
    elif not isinstance(arguments, dict):
        arguments = {"code": arguments}
    return make_call(called[0].id, called[0].name, arguments)


def _part(part: Mapping[str, Any]) -> Message:
    if part.get("type") != "image":
        return dict(part)
    return {"type": "image_url", "image_url": {"url": make_image_url(encode_image_base64(part["image"]))}}
