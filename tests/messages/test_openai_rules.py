"""The strict checker of OpenAI's rules: what it accepts, and that each rule refuses something."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openai_rules import broken_rules

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


def test_a_conversation_of_every_kind_of_message_is_accepted() -> None:
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
    assert broken_rules(messages) == []
    assert broken_rules([]) == []


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        (["hello"], "not a dict with a role"),
        ([{"content": "hello"}], "not a dict with a role"),
        ([says("ok", "function", name="read")], "not a dict with a role"),
        ([says("hm", "assistant", reasoning_content="so")], r"\[0\].reasoning_content: unknown parameter"),
        ([asks(), answers(name="read")], r"\[1\].name: unknown parameter"),
        ([says("hi", name=None)], "name: null"),
        ([says("hi", "assistant", refusal=None)], "refusal: null"),
        ([says("hi", name="Ann Lee")], "name: does not match the pattern"),
        ([says("hi", name="a" * 65)], "name: does not match the pattern"),
        ([says("hi", "assistant", refusal=1)], "refusal: not a string"),
        ([says(None, "assistant")], "content: null"),
        ([{"role": "user"}], "content: null, or missing"),
        ([asks(), answers(content=None)], "content: null"),
        ([says([])], "content: empty array"),
        ([says({"type": "text", "text": "a"})], "content: neither a string nor an array"),
        ([says(" \n")], "content: blank"),
        ([asks(content=""), answers()], "content: blank"),
        ([says(["a"])], "type None is not allowed"),
        ([says([{"text": "a"}])], "type None is not allowed"),
        ([says([{"type": "text", "text": "a", "cache_control": {}}])], "cache_control: unknown parameter"),
        ([says([{"type": "text", "text": ""}])], "text: not a string with something in it"),
        ([says([{"type": "refusal", "refusal": "a"}])], "type 'refusal' is not allowed in the role user"),
        ([asks(), answers(content=shows(url=URL)["content"])], "type 'image_url' is not allowed in the role tool"),
        ([says(shows(url=URL)["content"], "assistant")], "type 'image_url' is not allowed in the role assistant"),
        ([says([{"type": "image_url", "image_url": URL}])], "image_url: not an object"),
        ([shows(url="a.png")], "url: neither an address nor data"),
        ([shows(url=URL, detail="most")], "detail: unknown"),
        ([shows(url=URL, format="png")], "format: unknown parameter"),
        ([says([{"type": "file", "file": {"filename": "a"}}])], "neither file_id nor file_data"),
        ([says([{"type": "file", "file": {"file_id": 1}}])], "file_id: not a string"),
        ([says([{"type": "file", "file": {"file_id": "1", "a": ""}}])], "a: unknown parameter"),
        ([says([{"type": "input_audio", "input_audio": {"data": "a"}}])], "needs data and format"),
        ([says([{"type": "input_audio", "input_audio": {"data": "a", "format": "ogg"}}])], "neither wav nor mp3"),
        ([says("a", "assistant", tool_calls=[])], "tool_calls: not an array with a call in it"),
        ([asks("read")], "must have id, type, and function or custom"),
        ([asks({"id": "1", "function": {"name": "f", "arguments": "{}"}})], "must have id, type"),
        ([asks({**call(), "index": 0})], "must have id, type"),
        ([asks(call(""))], "id: does not match"),
        ([asks(call("a" * 41))], "id: does not match"),
        ([asks(call("functions.read:0"))], "id: does not match"),
        ([asks({"id": "1", "type": "function", "function": {"name": "f"}})], "must have name and arguments"),
        ([asks(call(name="mcp.read"))], "function.name: does not match"),
        ([asks(call(arguments={"path": "a"}))], "function.arguments: not a string"),
        ([asks(call(arguments=""))], "not the text of a JSON object"),
        ([asks(call(arguments='{"path": "a'))], "not the text of a JSON object"),
        ([asks(call(arguments="[1]"))], "not the text of a JSON object"),
        ([asks(call(arguments='{"a": NaN}'))], "not the text of a JSON object"),
        ([asks(call(arguments="[" * 100_000))], "not the text of a JSON object"),
        ([asks(), answers(None)], "tool_call_id: missing"),
        ([answers()], "not of the next call"),
        ([asks(), answers("call_2")], "not of the next call"),
        ([asks(), says("wait"), answers()], r"\[1\]: calls before it have no result: call_1"),
        ([asks()], r"\[1\]: calls before it have no result"),
        ([asks(call(), call("call_2")), answers("call_2"), answers()], "not of the next call"),
        ([asks(), answers(), answers()], "not of the next call"),
        ([asks(), answers(), asks(), answers()], r"\[2\]: two calls have the id call_1"),
        ([asks(call(), call()), answers(), answers()], "two calls have the id call_1"),
        ([says("a\ud800b")], "cannot be written as JSON in UTF-8"),
    ],
)
def test_each_rule_refuses_something(messages: list[Any], rule: str) -> None:
    assert re.search(rule, "; ".join(broken_rules(messages)))
