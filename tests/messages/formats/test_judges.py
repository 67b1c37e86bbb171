"""The strict judges of OpenAI's chat, of Anthropic's and of the Responses API: each rule refuses something."""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic_rules
import openai_rules
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
        ([user(text(x=1))], "x: Extra inputs"),
        ([user({"type": "image_url", "image_url": {}})], "not allowed in user"),
        ([user({"type": "image", "source": {**PNG, "media_type": "image/bmp"}})], "must be one of"),
        ([user({"type": "image", "source": {**PNG, "media_type": "image/gif"}})], "does not match the data"),
        ([user({"type": "image", "source": {**PNG, "x": 1}})], "Extra inputs"),
        ([user({"type": "document", "source": {"type": "text", "media_type": "text/plain"}})], "needs a plain text"),
        ([user(*[{"type": "image", "source": PNG}] * 101)], "over 100 images"),
        ([user(), uses("a b"), user(result("a b"))], "id: does not match"),
        ([user(), uses(input="{}"), user(result())], "must be an object"),
        ([user(), uses(), user()], "without tool_result blocks immediately after"),
        ([user(), uses(), user(text(), result())], "must come first"),
        ([user(result())], "unexpected tool_use_id"),
        ([user(), uses(), user(result()), uses(), user(result())], "must be unique"),
        ([uses(), user(result())], "first message must use the user role"),
        ([user(), user()], "roles must alternate"),
        ([user(), uses("toolu_1", {**THOUGHT, "signature": "t"}), user(result())], "Invalid signature"),
        ([user(), uses("toolu_1", {"type": "thinking", "thinking": "a"}), user(result())], "signature: Field required"),
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
        ([{**ASKED, "name": "Ann"}], "name: Unknown parameter"),
        ([{"role": "user", "content": ""}], "content: blank"),
        ([{"role": "user", "content": [{"type": "output_text", "text": "a"}]}], "Invalid value: 'output_text'"),
        ([{"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}], "Invalid value: 'input_text'"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "a", "x": 1}]}], "x: Unknown parameter"),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "a", "detail": "auto"}]}],
            "neither an addr",
        ),
        ([{"role": "user", "content": [{"type": "input_image", "file_id": "a"}]}], "detail: missing"),
        ([{"type": "reasoning", "id": "rs_1"}], "Missing required"),
        ([{**CALL, "call_id": "a" * 65}], "1 to 64"),
        ([{**CALL, "arguments": {}}], "must be a string"),
        ([CALL, ASKED, OUTPUT], "No tool output found for call_1"),
        ([OUTPUT], "No tool call found"),
        ([CALL, OUTPUT, {**CALL, "id": "fc_2"}, OUTPUT], "two calls have the id"),
        ([REASONING, ASKED], "without its following item"),
        ([CALL, OUTPUT, {**CALL, "call_id": "b"}, {**OUTPUT, "call_id": "b"}], "Duplicate item"),
        ([{**CALL, "id": "call_1"}, OUTPUT], "Expected an ID that begins with fc_"),
    ],
)
def test_each_rule_of_the_responses_api_refuses_something(items: Any, rule: str) -> None:
    assert re.search(rule, "; ".join(responses_rules.broken_rules(items)))


URL = "https://example.com/a.png"


def call(id: str = "call_1", name: str = "read", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*calls: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls) or [call()], **more}


def answers(id: Any = "call_1", content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


def says(content: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def shows(**image: Any) -> dict[str, Any]:
    return says([{"type": "image_url", "image_url": image}])


def test_a_chat_of_every_kind_of_message_is_accepted() -> None:
    custom = {"id": "call_3", "type": "custom", "custom": {"name": "grep", "input": "no JSON"}}
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    file = {"type": "file", "file": {"file_id": "file-1"}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}}
    messages = [
        says("Be brief.", "system"),
        says([{"type": "text", "text": "Be kind."}], "developer"),
        says([{"type": "text", "text": "What is this?"}, image, sound, file], name="Ann_1"),
        asks(call(), call("call_2", arguments='{"path": "a"}'), custom),
        answers(),
        answers("call_2", [{"type": "text", "text": "two"}]),
        answers("call_3", ""),
        says("A picture.", "assistant"),
        says("From now on in French.", "system"),
        says([{"type": "text", "text": "No."}, {"type": "refusal", "refusal": "I cannot."}], "assistant"),
    ]
    assert openai_rules.broken_rules(messages) == openai_rules.broken_rules([]) == []


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        (["hello"], "not a dict with a role"),
        ([says("hm", "assistant", reasoning_content="so")], r"\[0\].reasoning_content: unknown parameter"),
        ([says("hi", name=None)], "name: null"),
        ([says("hi", name="Ann Lee")], "name: does not match the pattern"),
        ([says(None, "assistant")], "content: null"),
        ([says([])], "content: empty array"),
        ([says({"type": "text", "text": "a"})], "content: neither a string nor an array"),
        ([says(" \n")], "content: blank"),
        ([says(["a"])], "type None is not allowed"),
        ([says([{"type": "text", "text": "a", "cache_control": {}}])], "cache_control: unknown parameter"),
        ([says([{"type": "refusal", "refusal": "a"}])], "type 'refusal' is not allowed in the role user"),
        ([asks(), answers(content=shows(url=URL)["content"])], "type 'image_url' is not allowed in the role tool"),
        ([says([{"type": "image_url", "image_url": URL}])], "image_url: not an object"),
        ([shows(url="a.png")], "url: neither an address nor data"),
        ([shows(url=URL, detail="most")], "detail: unknown"),
        ([says([{"type": "file", "file": {"filename": "a"}}])], "neither file_id nor file_data"),
        ([says([{"type": "input_audio", "input_audio": {"data": "a", "format": "ogg"}}])], "neither wav nor mp3"),
        ([says("a", "assistant", tool_calls=[])], "tool_calls: not an array with a call in it"),
        ([asks({"id": "1", "function": {"name": "f", "arguments": "{}"}})], "must have id, type"),
        ([asks(call("a" * 41))], "id: does not match"),
        ([asks(call("functions.read:0"))], "id: does not match"),
        ([asks(call(name="mcp.read"))], "function.name: does not match"),
        ([asks(call(arguments={"path": "a"}))], "function.arguments: not a string"),
        ([asks(call(arguments='{"path": "a'))], "not the text of a JSON object"),
        ([asks(call(arguments='{"a": NaN}'))], "not the text of a JSON object"),
        ([asks(), answers(None)], "tool_call_id: missing"),
        ([answers()], "not of the next call"),
        ([asks(), says("wait"), answers()], r"\[1\]: calls before it have no result: call_1"),
        ([asks()], r"\[1\]: calls before it have no result"),
        ([asks(call(), call("call_2")), answers("call_2"), answers()], "not of the next call"),
        ([asks(), answers(), asks(), answers()], r"\[2\]: two calls have the id call_1"),
        ([says("a\ud800b")], "cannot be written as JSON in UTF-8"),
    ],
)
def test_each_rule_of_the_chat_refuses_something(messages: list[Any], rule: str) -> None:
    assert re.search(rule, "; ".join(openai_rules.broken_rules(messages)))
