"""What is read of a conversation, by its shape or by the name of its format, and what is refused."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from tinymem.errors import InputError, MessageError
from tinymem.messages import steps_from_messages
from tinymem.messages.formats import conversation_from

CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}


def says(*blocks: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


USE = says({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}, role="assistant")
RESULT = says({"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "8443"}]})

DEEP: Any = reduce(lambda inside, _: {"in": inside}, range(1_200), dict[str, Any]())


@pytest.mark.parametrize(
    ("items", "format"),
    [
        ([], "openai"),
        ([{"role": "user", "content": "Hi."}], "openai"),
        ([says({"type": "text", "text": "Hi."})], "openai"),
        ([{"role": "assistant", "content": None, "tool_calls": [CALL]}], "openai"),
        ([USE, RESULT], "anthropic"),
        ({"system": "Be brief.", "messages": []}, "anthropic"),
        ([says({"type": "thinking", "thinking": "hm", "signature": "s"}, role="assistant")], "anthropic"),
        ([says({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}})], "anthropic"),
        ([{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}], "responses"),
        ([says({"type": "input_text", "text": "Hi."})], "responses"),
        ([{"type": "message", "role": "user", "content": "Hi."}], "responses"),
    ],
)
def test_the_format_is_known_by_its_shape(items: Any, format: str) -> None:
    assert conversation_from(items).format == format


@pytest.mark.parametrize(
    ("items", "format", "index", "says"),
    [
        ([{"role": "assistant", "tool_calls": [CALL]}, RESULT], None, 1, "name the format"),
        ([{"role": "user", "content": "a"}, {"role": "judge", "content": "a"}], None, 1, "role must be one of"),
        ([{"role": "user", "content": 7}], "openai", 0, "content must be"),
        (["hello"], None, 0, "must be a mapping"),
        ("hello", None, None, "must be a list"),
        (
            [{"role": "user", "content": "a"}, {"type": "item_reference", "id": "rs_1"}],
            "responses",
            1,
            "give all items",
        ),
        ([{"type": "compaction", "encrypted_content": "a"}], None, 0, "without compaction"),
        ([{"type": "telepathy_call"}], None, 0, "unknown type"),
        ([{"type": "function_call", "name": "f", "arguments": "{}"}], None, 0, "must have a call_id"),
        ([says({"type": "hologram"})], "responses", 0, "unknown type"),
        ([says({"type": "hologram"})], "anthropic", 0, "leave it out"),
        ([USE, says({"type": "tool_result"})], "anthropic", 1, "must have a tool_use_id"),
        ([says({"type": "tool_use", "id": "a", "name": "b", "input": {}})], "anthropic", 0, "unknown here"),
        ([{"role": "tool", "tool_call_id": "a", "content": "b"}], "anthropic", 0, "name another format"),
        ([{**USE, "content": [{**USE["content"][0], "input": DEEP}]}, RESULT], None, None, "over 200 levels"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_index(items: Any, format: Any, index: Any, says: str) -> None:
    with pytest.raises(MessageError, match=says) as caught:
        conversation_from(items, format)
    assert caught.value.index == index


def test_an_unknown_format_is_refused_by_its_name() -> None:
    with pytest.raises(InputError, match="format must be one of openai, responses, anthropic, or None, not 'klingon'"):
        conversation_from([], "klingon")


def test_text_in_blocks_and_marks_of_caches_make_no_other_message() -> None:
    plain = [{"role": "user", "content": "Hi."}]
    marked = [says({"type": "text", "text": "Hi.", "cache_control": {"type": "ephemeral"}})]
    assert [conversation_from(items, "anthropic").messages for items in (plain, marked)] == [plain, plain]
    assert conversation_from(marked, "openai").messages == plain


def test_blocks_of_anthropic_in_a_chat_are_the_text_of_it() -> None:
    found = conversation_from([USE, RESULT], "openai").messages
    assert [m["content"] for m in found] == ["read({})", "8443"]


@pytest.mark.parametrize("messages", [[USE], [{"role": "user", "content": "Hi."}, RESULT]])
def test_messages_of_anthropic_are_no_steps_before_they_are_read(messages: Any) -> None:
    with pytest.raises(MessageError, match=r"conversation_from\(messages, 'anthropic'\)") as caught:
        steps_from_messages(messages)
    assert caught.value.index == len(messages) - 1


def test_an_answer_of_anthropics_api_is_a_message() -> None:
    answer = {"id": "msg_1", "type": "message", "model": "m", "usage": {}, **USE}
    conversation = conversation_from([answer], "anthropic")
    assert conversation.messages[0]["tool_calls"][0]["id"] == "toolu_1"


@pytest.mark.parametrize("format", ["openai", "anthropic", "responses"])
def test_items_that_come_again_are_kept_and_those_that_were_changed_in_place_are_read_anew(format: str) -> None:
    given = [says({"type": "text", "text": text}) for text in ("One.", "Two.")]
    first = conversation_from(given, format)
    given[1]["content"][0]["text"] = "Three."
    second = conversation_from([*given, says({"type": "text", "text": "Four."})], format, first)
    assert second.items[0] is first.items[0]
    said = [steps_from_messages([message])[0].text for message in second.messages]
    assert said == ["One.", "Three.", "Four."] and "Two." in str(first.items)
