"""What objects of the real SDKs bring, and what the strict servers refuse that stand for the providers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from provider_servers import StrictServer, strict_server
from scripted_model import Move
from turns import entries_of

from tinymem.messages.formats import conversation_from

anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed (extra: test-all)")

ASKED: Any = {"role": "user", "content": "Read a."}


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with strict_server(lambda messages: Move(path="a")) as running:
        yield running


def written(items: Any, format: str | None = None) -> Any:
    """A conversation, read and written back."""
    conversation = conversation_from(items, format)
    return conversation.write(entries_of(conversation))


@pytest.mark.parametrize("change", [{"thinking": "Other."}, {"signature": "other"}], ids=str)
def test_the_server_refuses_thinking_that_was_changed(server: StrictServer, change: dict[str, str]) -> None:
    frame: Any = {"model": "m", "max_tokens": 2_048, "thinking": {"type": "enabled", "budget_tokens": 1_024}}
    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        answer = client.messages.create(messages=[ASKED], **frame)
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "ok"}
            for block in answer.content
            if block.type == "tool_use"
        ]
        history = [ASKED, {"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
        sent = written(history, "anthropic")["messages"]
        client.messages.create(messages=sent, **frame)
        thinking, *said = sent[1]["content"]
        sent[1] = {**sent[1], "content": [{**thinking, **change}, *said]}
        with pytest.raises(anthropic.BadRequestError, match="Invalid signature"):
            client.messages.create(messages=sent, **frame)


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
    del part["parsed"]
    assert written([said, made]) == [{**frame, "content": [part]}, item]

    block: Any = ParsedTextBlock.model_validate({"type": "text", "text": "{}", "parsed_output": None})
    assert written([{"role": "assistant", "content": [block]}], "anthropic")["messages"][-1] == {
        "role": "assistant", "content": [{"type": "text", "text": "{}"}]
    }  # fmt: skip
