"""The strict judges of OpenAI's chat, of Anthropic's and of the Responses API: each rule refuses something."""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic_rules
import openai_rules
import pytest
import responses_rules
from turns import answers, asks, call, says

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


MARKED = text(cache_control={"type": "ephemeral"})


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([], "at least one message"),
        ([{"role": "tool", "content": "a"}], "must be user or assistant"),
        ([{**user(), "name": "Ann"}], "name: Extra inputs"),
        ([{"role": "user", "content": " "}], "non-whitespace"),
        ([user({"type": "image", "source": {**PNG, "media_type": "image/bmp"}})], "must be one of"),
        ([user({"type": "image", "source": {**PNG, "media_type": "image/gif"}})], "does not match the data"),
        ([user(*[{"type": "image", "source": PNG}] * 101)], "over 100 images"),
        ([user(), uses(), user()], "without tool_result blocks immediately after"),
        ([user(), uses(), user(result()), uses(), user(result())], "must be unique"),
        ([uses(), user(result())], "first message must use the user role"),
        ([user(), user()], "roles must alternate"),
        ([user(), uses("toolu_1", {**THOUGHT, "signature": "t"}), user(result())], "Invalid signature"),
        ([user(), uses(), user(result())], "Expected thinking"),
        ([user(*[MARKED] * 5)], "A maximum of 4 blocks"),
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


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        ({}, "neither a text nor a list"),
        ([{**ASKED, "name": "Ann"}], "name: Unknown parameter"),
        ([{"role": "user", "content": ""}], "content: blank"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "a", "x": 1}]}], "x: Unknown parameter"),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "a", "detail": "auto"}]}],
            "neither an addr",
        ),
        ([{"type": "reasoning", "id": "rs_1"}], "Missing required"),
        ([{**CALL, "arguments": {}}], "must be a string"),
        ([CALL, ASKED, OUTPUT], "No tool output found for call_1"),
        ([REASONING, ASKED], "without its following item"),
        ([{**CALL, "id": "call_1"}, OUTPUT], "Expected an ID that begins with fc_"),
    ],
)
def test_each_rule_of_the_responses_api_refuses_something(items: Any, rule: str) -> None:
    assert re.search(rule, "; ".join(responses_rules.broken_rules(items)))


URL = "https://example.com/a.png"


def shows(**image: Any) -> dict[str, Any]:
    return says([{"type": "image_url", "image_url": image}])


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        (["hello"], "not a dict with a role"),
        ([says("hm", "assistant", reasoning_content="so")], r"\[0\].reasoning_content: unknown parameter"),
        ([says("hi", name="Ann Lee")], "name: does not match the pattern"),
        ([says({"type": "text", "text": "a"})], "content: neither a string nor an array"),
        ([says(" \n")], "content: blank"),
        ([says([{"type": "text", "text": "a", "cache_control": {}}])], "cache_control: unknown parameter"),
        ([asks("1"), answers(content=shows(url=URL)["content"])], "type 'image_url' is not allowed in the role tool"),
        ([says([{"type": "image_url", "image_url": URL}])], "image_url: not an object"),
        ([shows(url="a.png")], "url: neither an address nor data"),
        ([says("a", "assistant", tool_calls=[])], "tool_calls: not an array with a call in it"),
        ([asks(call(arguments='{"path": "a'))], "not the text of a JSON object"),
        ([answers()], "not of the next call"),
        ([asks("1"), says("wait"), answers()], r"\[1\]: calls before it have no result: 1"),
        ([asks("1"), answers(), asks("1"), answers()], r"\[2\]: two calls have the id 1"),
        ([says("a\ud800b")], "cannot be written as JSON in UTF-8"),
    ],
)
def test_each_rule_of_the_chat_refuses_something(messages: list[Any], rule: str) -> None:
    assert re.search(rule, "; ".join(openai_rules.broken_rules(messages)))
