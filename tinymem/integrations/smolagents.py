"""smolagents: an agent whose requests are fitted into a budget, and that recalls what they leave out.

    from tinymem.integrations.smolagents import remember

    agent = remember(ToolCallingAgent(tools, model), memory, max_tokens=4_000)
    agent.run("Where is staging?")

`agent.memory` keeps all steps; the model is sent their messages as far as they fit, as the framework writes them, and
one block with what the memory recalls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache, partial
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
from tinymem.steps.content import as_text
from tinymem.steps.step import Message

try:
    from smolagents import ActionStep, ChatMessage, FinalAnswerStep, MultiStepAgent, PlanningStep, TaskStep, Tool
    from smolagents.agents import populate_template
    from smolagents.models import MessageRole
    from smolagents.utils import encode_image_base64, make_image_url
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.smolagents", "smolagents") from error

__all__ = ["StepsConversation", "memory_tools", "remember"]

_LABELS = re.compile("^(Execution logs|Last output from code snippet):\n", re.MULTILINE)  # of an observation
SEAM = "\0"  # where a task stands in the template around it
AgentT = TypeVar("AgentT")


class _ManagedRun(NamedTuple):
    """A run of an agent, as the agents that it manages know it.

    Attributes:
        agent: The agent.
        name: The name of its conversation.
        outer: The run of the agent that manages it.
    """

    agent: Any
    name: str
    outer: _ManagedRun | None = None


_newest: ContextVar[_ManagedRun | None] = ContextVar("the run that called a model last", default=None)


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
    made.write_memory_to_messages = partial(_written, made, memory, max_tokens, name)
    made.step_callbacks.register(FinalAnswerStep, lambda step: _archive(made, memory, name))
    return agent


def _written(agent: Any, memory: AnyMemory, max_tokens: int | None, name: str, summary_mode: bool = False) -> list[Any]:
    session, history = _entered(agent, name), StepsConversation(agent, summary_mode)
    found: list[Any] = fit(memory, history, session, max_tokens, archive=not summary_mode)
    return found


def _archive(agent: Any, memory: AnyMemory, name: str) -> None:
    archive(memory, StepsConversation(agent).messages, _entered(agent, name))


def _entered(agent: Any, name: str) -> str:
    """Return the name of the conversation of an agent, and note its run for those that it manages."""
    tasks = [step.task for step in agent.memory.steps if isinstance(step, TaskStep)]
    outer = _newest.get() if tasks and _said_in(tasks[-1], agent) != tasks[-1] else None
    while outer is not None and agent not in outer.agent.managed_agents.values():
        outer = outer.outer
    run = _ManagedRun(agent, name_subagent(outer.name, name) if outer else name, outer)
    _newest.set(run)
    return run.name


def _said_in(task: str, agent: Any) -> str:
    """Return what is asked in a task, without what the framework says around it to an agent that is managed."""
    before, after = _around(agent.prompt_templates["managed_agent"]["task"], agent.name)
    if not before or not after or not task.startswith(before):
        return task
    return "".join(task.removeprefix(before).split(after, 1))


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
        super().__init__(
            chain.from_iterable(_turns(step, place, agent, summary_mode) for place, step in enumerate(steps))
        )

    def _read(self, native: SpokenTurn) -> Message:
        return native.message

    def _written(self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None) -> list[Any]:
        sent = [
            entry for entry in placed if entry.input is not None or entry.message["role"] != "tool"
        ]  # no placeholders
        return [*chain.from_iterable(self._sent(entry).natives for entry in sent)]

    def _made(self, message: Message) -> SpokenTurn:
        role = MessageRole.TOOL_RESPONSE if message["role"] == "tool" else MessageRole(message["role"])
        return SpokenTurn(message, [ChatMessage(role, [text_part(as_text(message.get("content")))])])

    def _shortened(self, native: SpokenTurn, message: Message) -> SpokenTurn:
        results = [sent for sent in native.natives if sent.role == MessageRole.TOOL_RESPONSE]
        natives = []
        for sent in native.natives:
            content = sent.content
            if sent.role == MessageRole.TOOL_CALL:
                content = [text_part(f"Calling tools:\n{[call['function'] for call in raw_calls(message)]}")]
            elif sent in results[:1]:
                content = [text_part(f"Observation:\n{as_text(message['content'])}")]
            elif sent is native.natives[0] and not results:
                content = shorten_content(content, message, lambda part: [_part(part)])
            if sent not in results[1:]:  # which the first one says too
                natives.append(replace(sent, content=content))
        return SpokenTurn(message, natives)


def _turns(step: Any, number: int, agent: Any, summary_mode: bool) -> Iterator[SpokenTurn]:
    """Yield what was said in a step.

    Images of an observation are put there by callbacks, and taken away later: they are no part of what is archived.
    """
    natives = step.to_messages(summary_mode=summary_mode)
    if isinstance(step, TaskStep):
        words = _said_in(step.task, agent)
        parts = [text_part(words), *map(_part, natives[0].content[1:])]
        yield SpokenTurn({"role": "user", "content": said(parts), **_beside(natives, words)}, natives)
    elif isinstance(step, PlanningStep):  # whose request to go on is not the user's
        for plan in natives[:1]:
            yield SpokenTurn({"role": "assistant", "content": _content(plan), **_beside(natives[1:])}, natives)
    elif isinstance(step, ActionStep):
        yield from _turns_of_action(step, number, agent, natives)
    else:
        yield from (SpokenTurn({"role": sent.role.value, "content": _content(sent)}, [sent]) for sent in natives)


def _turns_of_action(step: Any, number: int, agent: Any, natives: Sequence[ChatMessage]) -> Iterator[SpokenTurn]:
    calling = [native for native in natives if native.role in (MessageRole.TOOL_CALL, MessageRole.ASSISTANT)]
    results = natives[len(calling) :]
    if not results:
        yield from (SpokenTurn({"role": "assistant", "content": _content(native)}, [native]) for native in calling)
        return
    answers, call = [native for native in calling if native.role == MessageRole.ASSISTANT], _call_of(step, number)
    words = "\n".join(as_text(_content(native)) for native in answers)
    if step.code_action:  # which stands in the call
        words = words.split(step.code_action)[0].rstrip().removesuffix(agent.code_block_tags[0]).rstrip()
    beside = _beside(calling, words, *(repr(call_of.arguments) for call_of in step.tool_calls or ()))
    yield SpokenTurn({**make_answer(words, [call]), **beside}, calling)
    told = [native for native in results if native.role == MessageRole.TOOL_RESPONSE]
    seen = _LABELS.sub("", step.observations or "").strip("\n")
    texts = [*filter(None, [seen, step.error and f"Error: {step.error}"])]
    result = make_result(call["id"], "\n".join(texts) if told else _content(results[0]))
    yield SpokenTurn({**result, **_beside(told, *texts)}, results)


def _beside(natives: Sequence[ChatMessage], *words: str) -> Message:
    """Return what messages say around the words in them: it is counted, and no part of what was said."""
    texts = chain.from_iterable(texts_of(_content(native)) for native in natives)
    text = "\n".join(texts)
    for said_in in words:
        text = text.replace(said_in, "", 1)
    return {"reasoning_content": text} if text else {}


def _call_of(step: Any, number: int) -> Message:
    """Return the call of a step: one for all of its calls, since they have one result."""
    calls = [call.dict() for call in step.tool_calls or ()]
    if not calls:  # what the model said could not be read
        return make_call(str(number), "none", {})
    first, arguments = calls[0]["function"], calls[0]["function"]["arguments"]
    if not isinstance(arguments, dict):
        arguments = {"code": arguments}
    if len(calls) > 1:
        arguments = {"calls": [call["function"] for call in calls]}
    return make_call(calls[0]["id"] or str(number), first["name"], arguments)


def _content(native: ChatMessage) -> Any:
    if not isinstance(native.content, list):
        return native.content or ""
    return said([_part(part) for part in native.content])


def _part(part: Mapping[str, Any]) -> Message:
    if part.get("type") != "image":
        return dict(part)
    return {"type": "image_url", "image_url": {"url": make_image_url(encode_image_base64(part["image"]))}}
