"""What a memory leaves out, shortens and adds, written back in the format that came."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic_rules
import pytest
import responses_rules
from hypothesis import given
from hypothesis import strategies as st
from native_chats import anthropic_chats, responses_chats
from strategies import MODERATE
from strategies import WORDS as WORD_COUNT
from turns import entries_of

from tinymem.errors import InputError
from tinymem.messages import groups, steps_from_messages
from tinymem.messages.formats import Conversation, conversation_from, write_messages
from tinymem.messages.formats.conversation import Added
from tinymem.steps.types import Step

RECALLED = {"role": "user", "content": "<recalled>The port is 8443.</recalled>"}
MARK = {"type": "ephemeral"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def parallel() -> dict[str, Any]:
    """A request whose tool turn is open: thinking, two calls, and words beside the results."""
    said = [
        {"type": "thinking", "thinking": "Two files.", "signature": "sig"},
        {"type": "text", "text": "I read both."},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {"path": "b"}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "A" * 300}, IMAGE]},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "B" * 300, "is_error": True},
        {"type": "text", "text": "And now?"},
    ]
    return {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Read a and b."},
            {"role": "assistant", "content": said},
            {"role": "user", "content": results},
        ],
    }


def shortened(message: dict[str, Any], text: str) -> dict[str, Any]:
    content = message["content"]
    parts = [{**part, "text": text} if "text" in part else part for part in content] if type(content) is list else text
    return {**message, "content": parts}


# -- Anthropic --------------------------------------------------------------------------------------------------------


def test_calls_and_results_become_messages_of_a_chat() -> None:
    messages = conversation_from(parallel()).messages
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert messages[2]["content"] == "I read both."
    assert [call["function"]["arguments"] for call in messages[2]["tool_calls"]] == ['{"path": "a"}', '{"path": "b"}']
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    assert messages[3]["content"] == [{"type": "text", "text": "A" * 300}, image]
    assert (messages[4]["tool_call_id"], messages[4]["content"], messages[5]["content"]) == (
        "toolu_2",
        "B" * 300,
        "And now?",
    )


def test_a_shortened_result_stays_with_its_call_and_thinking_stays_as_it_was() -> None:
    request = parallel()
    conversation = conversation_from(copy.deepcopy(request), "anthropic")
    entries = entries_of(conversation)
    entries[3] = Added(shortened(conversation.messages[3], "A…"), 3, True)
    sent = conversation.write(entries)
    assert sent["messages"][:2] == request["messages"][:2]
    results = sent["messages"][2]["content"]
    assert results[0]["content"] == [{"type": "text", "text": "A…"}, IMAGE]
    assert results[1:] == request["messages"][2]["content"][1:]
    assert conversation.write(entries_of(conversation)) == request


def test_what_is_recalled_stands_behind_the_results_and_before_the_words() -> None:
    conversation = conversation_from(parallel())
    entries = entries_of(conversation)
    sent = conversation.write([*entries[:5], Added(RECALLED), entries[5]])
    assert [block["type"] for block in sent["messages"][2]["content"]] == ["tool_result", "tool_result", "text", "text"]
    assert sent["messages"][2]["content"][2]["text"] == RECALLED["content"]
    between = conversation.write([*entries[:4], Added(RECALLED), *entries[4:]])
    assert between == sent


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_a_result_that_is_missing_gets_one_under_the_id_of_the_call() -> None:
    request = parallel()
    del request["messages"][2]
    conversation = conversation_from(request)
    renamed = copy.deepcopy(conversation.messages[2])
    renamed["tool_calls"][0]["id"] = "sent_1"
    entries = [*entries_of(conversation)[:2], Added(renamed, 2)]
    for id in ("sent_1", "toolu_2"):
        entries.append(Added({"role": "tool", "tool_call_id": id, "content": "[no result was recorded]"}))
    sent = conversation.write(entries)
    assert sent["messages"][1] == request["messages"][1]
    assert anthropic_rules.broken_rules(sent, alternate=True) == []


def test_a_result_whose_call_is_gone_is_sent_as_text() -> None:
    conversation = conversation_from({"messages": parallel()["messages"]})
    told = {"role": "user", "content": "Observation: B"}
    assert conversation.write([Added(told, 2)])["messages"] == [{"role": "user", "content": [_text("Observation: B")]}]


def test_an_answer_that_would_come_first_or_touch_thinking_is_set_apart() -> None:
    conversation = conversation_from(parallel())
    entries = entries_of(conversation)
    sent = conversation.write([Added({"role": "assistant", "content": "Earlier."}), *entries[2:]])
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert anthropic_rules.broken_rules({**sent, "thinking": {"type": "enabled"}}, alternate=True) == []


@pytest.mark.parametrize(("stable", "where"), [(0, None), (1, "system"), (2, 0), (3, 1), (5, 2)])
def test_the_mark_of_the_cache_ends_the_stable_part(stable: int, where: Any) -> None:
    conversation = conversation_from(parallel())
    entries = entries_of(conversation)
    sent = conversation.write([*entries[:5], Added(RECALLED), entries[5]], stable=stable, cache_control=MARK)
    marked = [at for at, message in enumerate(sent["messages"]) if "cache_control" in json.dumps(message)]
    assert marked == ([where] if isinstance(where, int) else [])
    assert ("cache_control" in json.dumps(sent["system"])) == (where == "system")
    if where == 2:
        assert [bool(b.get("cache_control")) for b in sent["messages"][2]["content"]] == [False, True, False, False]
    assert conversation.write(entries) == parallel()


def test_a_mark_is_not_put_on_thinking_nor_beyond_four() -> None:
    request = parallel()
    request["messages"][1]["content"] = request["messages"][1]["content"][:1]
    request["messages"] = request["messages"][:2]
    conversation = conversation_from(request)
    sent = conversation.write(entries_of(conversation), stable=3, cache_control=MARK)
    assert sent["messages"][1] == request["messages"][1] and "cache_control" in json.dumps(sent["messages"][0])
    full = {**parallel(), "tools": [{"name": name, "cache_control": MARK} for name in "abcd"]}
    conversation = conversation_from(full)
    assert conversation.write(entries_of(conversation), stable=3, cache_control=MARK) == full


@pytest.mark.parametrize("format", ["openai", "responses"])
def test_other_formats_have_no_marks_of_caches(format: str) -> None:
    with pytest.raises(InputError, match="cache_control is Anthropic's"):
        write_messages([RECALLED], format, cache_control=MARK)


# -- Responses --------------------------------------------------------------------------------------------------------


def items() -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "Read a."},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "I read it.", "annotations": []}]},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "A" * 300},
    ]  # fmt: skip


def test_reasoning_stays_with_what_follows_it() -> None:
    conversation = conversation_from(items())
    assert [m["role"] for m in conversation.messages] == ["user", "assistant", "assistant", "tool"]
    entries = entries_of(conversation)
    sent = conversation.write([entries[0], Added(RECALLED), *entries[2:]])
    assert [item.get("id") or item.get("role") for item in sent] == ["user", "user", "rs_2", "fc_1", None]
    entries[1] = Added({"role": "assistant", "content": "I…"}, 1, True)
    entries[3] = Added({**conversation.messages[3], "content": "A…"}, 3, True)
    sent = conversation.write(entries)
    assert sent[1] == items()[1] and sent[3:5] == items()[3:5]
    assert sent[2] == {"role": "assistant", "content": "I…"}
    assert sent[5] == {**items()[5], "output": "A…"}


def test_tools_that_openai_runs_say_what_they_were_asked() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "port of staging"}}
    conversation = conversation_from([*items()[:1], search, *items()[2:3]])
    assert "port of staging" in json.dumps(conversation.messages[1]["content"])
    assert conversation.write(entries_of(conversation)) == [*items()[:1], search, *items()[2:3]]


def test_shell_and_approvals_are_calls_with_results() -> None:
    given: list[dict[str, Any]] = [
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed",
         "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "local_shell_call_output", "id": "call_1", "output": "a.txt"},
        {"type": "mcp_approval_request", "id": "mcpr_1", "name": "send", "arguments": "{}", "server_label": "mail"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False, "reason": "not now"},
        {"type": "shell_call", "call_id": "call_2", "action": {"commands": ["ls"]}, "status": "completed"},
        {"type": "shell_call_output", "call_id": "call_2", "output": [
            {"stdout": "b.txt\n" * 300, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
    ]  # fmt: skip
    conversation = conversation_from(given)
    assert [m["role"] for m in conversation.messages] == ["assistant", "tool"] * 3
    assert '"ls"' in conversation.messages[0]["tool_calls"][0]["function"]["arguments"]
    assert [m["content"] for m in conversation.messages[1:4:2]] == ["a.txt", "denied not now"]
    assert conversation.write(entries_of(conversation)) == given
    entries = [*entries_of(conversation)[:-1], Added(shortened(conversation.messages[-1], "b…"), 5, True)]
    outcome = given[-1]["output"][0]["outcome"]
    assert conversation.write(entries)[-1]["output"] == [{"stdout": "b…", "stderr": "", "outcome": outcome}]


# -- any --------------------------------------------------------------------------------------------------------------


def test_a_shortened_chat_message_keeps_its_files_and_other_keys() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "long", "cache_control": MARK},
        {"type": "image_url", "image_url": {"url": "u"}},
    ]
    given: list[dict[str, Any]] = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "long", "reasoning_content": "hm"},
    ]
    conversation = conversation_from(given)
    assert "cache_control" not in json.dumps(conversation.messages)
    entries = [Added(shortened(message, "l…"), at, True) for at, message in enumerate(conversation.messages)]
    sent = conversation.write(entries)
    assert sent[0]["content"] == [{"type": "text", "text": "l…"}, parts[1]]
    assert sent[1] == {**given[1], "content": "l…"}


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ([{"role": "assistant", "content": "Yes.", "reasoning_content": "two words"}], [2]),
        ([{"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "two words"}],
           "encrypted_content": "x" * 1_600}, *items()[4:]], [302, 0]),
        ([{"role": "user", "content": "Hm?"}, {"role": "assistant", "content": [
            {"type": "redacted_thinking", "data": "x" * 160},
            {"type": "thinking", "thinking": "a b c", "signature": ""},
            {"type": "text", "text": "Yes."}]}], [0, 33]),
    ],
)  # fmt: skip
def test_thinking_and_reasoning_are_counted_beside_the_messages(given: Any, tokens: list[int]) -> None:
    conversation = conversation_from(given)
    assert [conversation.tokens_beside(place, WORD_COUNT) for place in range(len(tokens))] == tokens


def fitted(draw: Callable[..., Any], conversation: Conversation) -> Iterator[Added]:
    """Entries as a context makes them: groups left out, some shortened, and the recalled block before the newest."""
    steps = steps_from_messages(conversation.messages)
    places: dict[str, list[int]] = {}
    at = 0
    for step in steps:
        count = len(step.to_messages(style="tools"))
        places[step.id] = [*range(at, at + count)]
        at += count
    kept = [group for group in groups(steps) if draw(st.integers(0, 2))] or groups(steps)[-1:]
    for number, group in enumerate(kept):
        if number == len(kept) - 1 and draw(st.booleans()):
            yield Added(RECALLED)
        for step in group:
            yield from _shown(step, places[step.id], draw(st.sampled_from([0, 0, 4])))


def _shown(step: Step, places: list[int], length: int) -> Iterator[Added]:
    whole = step.to_messages(style="tools")
    cut = step.shortened(length).to_messages(style="tools") if length else whole
    for at, message, before in zip(places, cut, whole, strict=True):
        if message.get("content") or message.get("tool_calls") or message["role"] == "tool":
            yield Added(message, at, message != before)


@MODERATE
@given(st.data(), anthropic_chats())
def test_what_a_context_keeps_anthropic_accepts(data: st.DataObject, request: dict[str, Any]) -> None:
    issued = {json.dumps(b, sort_keys=True) for m in request["messages"] for b in m["content"] if isinstance(b, dict)}
    conversation = conversation_from(request, "anthropic")
    entries = list(fitted(data.draw, conversation))
    before = json.dumps(request)
    stable = data.draw(st.integers(0, len(entries)))
    sent = conversation.write(entries, stable=stable, cache_control=MARK)
    if any(entry.message["role"] != "system" for entry in entries):
        assert anthropic_rules.broken_rules(sent, issued) == []
    assert json.dumps(request) == before


@MODERATE
@given(st.data(), responses_chats())
def test_what_a_context_keeps_the_responses_api_accepts(data: st.DataObject, given: list[dict[str, Any]]) -> None:
    conversation = conversation_from(given, "responses")
    sent = conversation.write(list(fitted(data.draw, conversation)))
    assert responses_rules.broken_rules(sent) == []
    assert all(item in given for item in sent if item.get("type") == "reasoning")
