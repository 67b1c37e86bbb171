"""The strict judges of Anthropic's and of the Responses API: each rule refuses something."""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic_rules
import pytest
import responses_rules

PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def text(said: str = "Hi.", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or "Hi."}


def uses(id: str = "toolu_1", *before: Any, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": id, "name": "read", "input": {}, **more}
    return {"role": "assistant", "content": [*before, block]}


def result(id: str = "toolu_1", content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def test_a_request_of_every_kind_of_block_is_accepted() -> None:
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}, "title": "a"}
    shown = result(content=[text(), {"type": "image", "source": PNG}])
    messages = [user(text(), document), uses("toolu_1", THOUGHT, text()), user(shown, text(cache_control=None))]
    request = {"model": "m", "max_tokens": 9, "system": [text()], "messages": messages, "thinking": {"type": "enabled"}}
    assert anthropic_rules.broken_rules(request, {json.dumps(THOUGHT, sort_keys=True)}, alternate=True) == []


MARKED = text(cache_control={"type": "ephemeral"})


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([], "at least one message"),
        ([{"role": "tool", "content": "a"}], "must be user or assistant"),
        ([{**user(), "name": "Ann"}], "name: Extra inputs"),
        ([{"role": "user", "content": " "}], "non-whitespace"),
        ([{"role": "user", "content": []}], "with a block in it"),
        ([user(text(""))], "non-whitespace"),
        ([user(text(x=1))], "x: Extra inputs"),
        ([user({"type": "image_url", "image_url": {}})], "not allowed in user"),
        ([user(THOUGHT)], "not allowed in user"),
        ([user({"type": "image", "source": {**PNG, "media_type": "image/bmp"}})], "must be one of"),
        ([user({"type": "image", "source": {**PNG, "media_type": "image/gif"}})], "does not match the data"),
        ([user({"type": "image", "source": {**PNG, "data": "a"}})], "invalid base64"),
        ([user({"type": "image", "source": {**PNG, "data": "iVBORw0K" * 1_000_000}})], "too large"),
        ([user({"type": "image", "source": {**PNG, "x": 1}})], "Extra inputs"),
        ([user({"type": "image", "source": {"type": "url", "url": "a.png"}})], "must be an address"),
        ([user({"type": "document", "source": {"type": "text", "media_type": "text/plain"}})], "needs a plain text"),
        ([user({"type": "document", "source": {}})], "must have a type"),
        ([user(*[{"type": "image", "source": PNG}] * 101)], "over 100 images"),
        ([user(), uses("a b"), user(result("a b"))], "id: does not match"),
        ([user(), uses(name="a.b"), user(result())], "name: does not match"),
        ([user(), uses(input="{}"), user(result())], "must be an object"),
        ([user(), uses(), user(result(content=[uses()["content"][0]]))], "not allowed in tool_result"),
        ([user(), uses(), user()], "without tool_result blocks immediately after"),
        ([user(), uses()], "without tool_result blocks immediately after"),
        ([user(), uses(), user(text(), result())], "must come first"),
        ([user(), uses(), user(), user(result())], "must come first"),
        ([user(result())], "unexpected tool_use_id"),
        ([user(), uses(), user(result(), result())], "unexpected tool_use_id"),
        ([user(), uses(), user(result()), uses(), user(result())], "must be unique"),
        ([uses(), user(result())], "first message must use the user role"),
        ([user(), user()], "roles must alternate"),
        ([user(), uses("toolu_1", {**THOUGHT, "signature": "t"}), user(result())], "Invalid signature"),
        ([user(), uses("toolu_1", {"type": "thinking", "thinking": "a"}), user(result())], "signature: Field required"),
        ([user(), uses(), user(result())], "Expected thinking"),
        ([user(*[MARKED] * 5)], "A maximum of 4 blocks"),
        ([user(text(cache_control={"type": "forever"}))], "must be ephemeral"),
        ([user(text("\ud800"))], "cannot be written as JSON"),
    ],
)
def test_each_rule_of_anthropics_refuses_something(messages: list[Any], rule: str) -> None:
    issued = {json.dumps(THOUGHT, sort_keys=True)}
    request = {"messages": messages, "thinking": {"type": "enabled"}}
    assert re.search(rule, "; ".join(anthropic_rules.broken_rules(request, issued, alternate=True)))


CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "ok"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
ASKED = {"role": "user", "content": "Hi."}


def test_items_of_every_kind_are_accepted() -> None:
    said = {"type": "output_text", "text": "a", "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]}
    image = {"type": "input_image", "image_url": "https://a/b.png", "detail": "auto"}
    shown = {"role": "user", "content": [{"type": "input_text", "text": "a"}, image]}
    custom = [{"type": "custom_tool_call", "call_id": "c", "name": "grep", "input": "x"},
              {"type": "custom_tool_call_output", "call_id": "c", "output": [image]}]  # fmt: skip
    assert responses_rules.broken_rules([ASKED, REASONING, CALL, OUTPUT, *custom, message, shown]) == []


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        ({}, "neither a text nor a list"),
        ([{"type": "magic"}], "type: unknown"),
        ([{**ASKED, "name": "Ann"}], "name: Unknown parameter"),
        ([{"role": "tool", "content": "a"}], "role: unknown"),
        ([{"role": "user", "content": ""}], "content: blank"),
        ([{"role": "user", "content": []}], "empty, or no list"),
        ([{"role": "user", "content": [{"type": "output_text", "text": "a"}]}], "Invalid value: 'output_text'"),
        ([{"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}], "Invalid value: 'input_text'"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "a", "x": 1}]}], "x: Unknown parameter"),
        ([{"role": "user", "content": [{"type": "input_text", "text": " "}]}], "blank"),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "a", "detail": "auto"}]}],
            "neither an addr",
        ),
        ([{"role": "user", "content": [{"type": "input_image", "file_id": "a"}]}], "detail: missing"),
        ([{"role": "user", "content": [{"type": "input_file", "filename": "a"}]}], "no file"),
        ([{"role": "assistant", "id": "msg_1", "content": "a"}], "needs id, status"),
        ([{"type": "reasoning", "id": "rs_1"}], "Missing required"),
        ([{**CALL, "call_id": "a" * 65}], "1 to 64"),
        ([{**CALL, "name": "a.b"}], "name: does not match"),
        ([{**CALL, "arguments": {}}], "must be a string"),
        ([CALL], "No tool output found for call_1"),
        ([CALL, ASKED, OUTPUT], "No tool output found for call_1"),
        ([OUTPUT], "No tool call found"),
        ([CALL, {**OUTPUT, "type": "custom_tool_call_output"}], "No tool call found"),
        ([CALL, OUTPUT, {**CALL, "id": "fc_2"}, OUTPUT], "two calls have the id"),
        ([REASONING], "without its following item"),
        ([REASONING, ASKED], "without its following item"),
        ([CALL, OUTPUT, {**CALL, "call_id": "b"}, {**OUTPUT, "call_id": "b"}], "Duplicate item"),
        ([{**CALL, "id": "call_1"}, OUTPUT], "Expected an ID that begins with fc_"),
        ([{"role": "user", "content": "\ud800"}], "cannot be written as JSON"),
    ],
)
def test_each_rule_of_the_responses_api_refuses_something(items: Any, rule: str) -> None:
    assert re.search(rule, "; ".join(responses_rules.broken_rules(items)))
