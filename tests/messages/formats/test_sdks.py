"""Agents of the real SDKs against strict servers: every request of a long run is accepted, and the answer is right."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from provider_servers import StrictServer, strict_server
from scripted_model import TASK, Move, World, forty_sheets, next_move

from tinymem import AsyncHierarchicalMemory, Context, HierarchicalMemory
from tinymem.messages.formats import conversation_from
from tinymem.messages.formats.conversation import Added

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

BUDGET = 1_500  # tokens, of a run of some 6,000
MARK = {"type": "ephemeral"}
BEGIN = TASK.format(first="hosts/000.md")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Forty sheets, and then the checklist."""
    return forty_sheets(tmp_path_factory.mktemp("world"))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with HierarchicalMemory(tmp_path, embedder="static", store="exact") as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with strict_server(next_move) as running:
        yield running


class Chat:
    """The history as an agent of OpenAI's chat keeps it: with objects of the SDK."""

    format = "openai"

    def __init__(self) -> None:
        self.history: list[Any] = [{"role": "system", "content": "You read."}, {"role": "user", "content": BEGIN}]

    def request(self, sent: Any) -> dict[str, Any]:
        return {"model": "m", "messages": sent}

    def take(self, reply: Any) -> tuple[str, dict[str, str]]:
        """Keep a reply; return its answer and its calls."""
        said = reply.choices[0].message
        self.history.append(said)
        calls = {call.id: json.loads(call.function.arguments)["path"] for call in said.tool_calls or ()}
        return said.content or "", calls

    def give(self, results: dict[str, str]) -> None:
        self.history += [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results.items()]


class Items(Chat):
    """The items of the Responses API."""

    format = "responses"

    def request(self, sent: Any) -> dict[str, Any]:
        return {"model": "m", "input": sent, "store": False}

    def take(self, reply: Any) -> tuple[str, dict[str, str]]:
        self.history += reply.output
        calls = [item for item in reply.output if item.type == "function_call"]
        return reply.output_text, {call.call_id: json.loads(call.arguments)["path"] for call in calls}

    def give(self, results: dict[str, str]) -> None:
        outputs = [{"type": "function_call_output", "call_id": id, "output": text} for id, text in results.items()]
        self.history += outputs


class Messages(Chat):
    """The messages of Anthropic's API."""

    format = "anthropic"

    def __init__(self) -> None:
        self.history = [{"role": "user", "content": BEGIN}]

    def request(self, sent: Any) -> dict[str, Any]:
        return {"model": "m", "max_tokens": 2_048, "thinking": {"type": "enabled", "budget_tokens": 1_024}, **sent}

    def take(self, reply: Any) -> tuple[str, dict[str, str]]:
        self.history.append({"role": "assistant", "content": reply.content})
        text = "".join(block.text for block in reply.content if block.type == "text")
        return text, {block.id: block.input["path"] for block in reply.content if block.type == "tool_use"}

    def give(self, results: dict[str, str]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": [_text(text)]} for id, text in results.items()]
        self.history.append({"role": "user", "content": blocks})


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def given(agent: Chat) -> dict[str, Any]:
    """The arguments of `fit`."""
    is_split = agent.format == "anthropic"
    messages = {"system": "You read.", "messages": agent.history} if is_split else agent.history
    return {"messages": messages, "session": "s1", "max_tokens": BUDGET, "format": agent.format}


def request(agent: Chat, context: Context) -> dict[str, Any]:
    return agent.request(context.to(cache_control=MARK if agent.format == "anthropic" else None))


def prompt(agent: Chat, memory: HierarchicalMemory) -> dict[str, Any]:
    return request(agent, memory.fit(**given(agent)))


def results(world: World, calls: dict[str, str]) -> dict[str, str]:
    return {id: (world.folder / path).read_text() for id, path in calls.items()}


def connected(agent: Chat, server: StrictServer, prefix: str = "") -> Any:
    """The client of the SDK."""
    package, name, path = (anthropic, "Anthropic", "") if isinstance(agent, Messages) else (openai, "OpenAI", "/v1")
    return getattr(package, prefix + name)(base_url=server.url + path, api_key="k", max_retries=0)


def endpoint(client: Any, format: str) -> Any:
    if format == "openai":
        return client.chat.completions.create
    return client.responses.create if format == "responses" else client.messages.create


AGENTS = [Chat, Items, Messages]


@pytest.mark.parametrize("kind", AGENTS)
def test_every_request_of_a_long_run_is_accepted(
    kind: type[Chat], server: StrictServer, world: World, memory: HierarchicalMemory
) -> None:
    agent = kind()
    with connected(agent, server) as client:
        create = endpoint(client, agent.format)
        while True:
            answer, calls = agent.take(create(**prompt(agent, memory)))
            if not calls:
                break
            agent.give(results(world, calls))
    check(answer, server, world)


@pytest.mark.parametrize("kind", AGENTS)
def test_the_asynchronous_clients_and_an_asynchronous_memory_send_the_same(
    kind: type[Chat], server: StrictServer, world: World, memory: HierarchicalMemory
) -> None:
    agent, awaited = kind(), AsyncHierarchicalMemory.over(memory)

    async def run() -> str:
        async with connected(agent, server, "Async") as client:
            create = endpoint(client, agent.format)
            while True:
                answer, calls = agent.take(await create(**request(agent, await awaited.fit(**given(agent)))))
                if not calls:
                    return answer
                agent.give(results(world, calls))

    check(asyncio.run(run()), server, world)


@pytest.mark.parametrize("kind", AGENTS)
def test_answers_that_were_streamed_go_back_too(
    kind: type[Chat], server: StrictServer, world: World, memory: HierarchicalMemory
) -> None:
    agent = kind()

    def reply(request: dict[str, Any]) -> Any:
        if kind is Items:
            *_, last = client.responses.create(**request, stream=True)
            return last.response
        opened = client.messages.stream if kind is Messages else client.chat.completions.stream
        with opened(**request) as stream:
            return stream.get_final_message() if kind is Messages else stream.get_final_completion()

    with connected(agent, server) as client:
        while True:
            answer, calls = agent.take(reply(prompt(agent, memory)))
            if not calls:
                break
            agent.give(results(world, calls))
    check(answer, server, world)


def check(answer: str, server: StrictServer, world: World) -> None:
    """The word that only the fourth sheet leads to, by requests that stayed short."""
    assert server.refused == []
    assert world.word in answer and len(server.requests) == world.sheets + 3
    longest = max(len(json.dumps(body)) for body in server.requests)
    assert longest < 10_000  # of about 25,000


def test_the_server_refuses_what_was_changed(server: StrictServer) -> None:
    server.model = lambda messages: Move(path="a")
    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        agent = Messages()
        _, calls = agent.take(client.messages.create(**agent.request({"messages": agent.history})))
        agent.give(dict.fromkeys(calls, "ok"))
        for change in ({"thinking": "Other."}, {"signature": "other"}):
            messages = conversation_from(agent.history, "anthropic")
            sent = messages.write([Added(message, at) for at, message in enumerate(messages.messages)])
            said = sent["messages"][1]
            changed = [{**said["content"][0], **change}, *said["content"][1:]]
            sent["messages"][1] = {**said, "content": changed}
            with pytest.raises(anthropic.BadRequestError, match="Invalid signature"):
                client.messages.create(**agent.request(sent))


def test_the_server_refuses_a_call_without_its_reasoning(server: StrictServer) -> None:
    server.model = lambda messages: Move(path="a")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        agent = Items()
        _, calls = agent.take(client.responses.create(**agent.request(agent.history)))
        agent.give(dict.fromkeys(calls, "ok"))
        with pytest.raises(openai.BadRequestError, match="without its reasoning"):
            client.responses.create(
                **agent.request([one for one in agent.history if getattr(one, "type", "") != "reasoning"])
            )


def test_what_the_sdks_parsed_out_of_an_answer_is_not_sent_back() -> None:
    """The objects of `parse`, and keys that the API sets to null."""
    from anthropic.types.parsed_message import ParsedTextBlock
    from openai.types.chat import ParsedChatCompletionMessage
    from openai.types.responses import ParsedResponseFunctionToolCall, ParsedResponseOutputMessage

    function = {"name": "read", "arguments": "{}", "parsed_arguments": {"path": None}}
    call = {"id": "call_1", "type": "function", "function": function}
    chat: Any = ParsedChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "refusal": None, "parsed": {"a": 1}, "tool_calls": [call]}
    )
    sent = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    assert conversation_from([chat]).messages == [{"role": "assistant", "content": None, "tool_calls": [sent]}]

    part = {"type": "output_text", "text": "{}", "annotations": [], "parsed": {"a": 1}}
    frame = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    said: Any = ParsedResponseOutputMessage.model_validate({**frame, "content": [part]})
    item = {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}
    made: Any = ParsedResponseFunctionToolCall.model_validate({**item, "parsed_arguments": {}})
    conversation = conversation_from([said, made])
    written = conversation.write([Added(message, at) for at, message in enumerate(conversation.messages)])
    del part["parsed"]
    assert written == [{**frame, "content": [part]}, item]

    block: Any = ParsedTextBlock.model_validate({"type": "text", "text": "{}", "parsed_output": None})
    answer = {"role": "assistant", "content": [block]}
    assert conversation_from([answer], "anthropic").write([Added({"role": "assistant"}, 0)])["messages"] == [
        {"role": "assistant", "content": [{"type": "text", "text": "{}"}]}
    ]
