"""Whatever providers send is kept as it came, and sent in a form that OpenAI's API accepts, inside the budget."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openai_rules import broken_rules
from provider_chats import provider_chats
from strategies import MODERATE, THOROUGH, WORDS, Chat, broken_chats
from turns import answers, asks, call

from tinymem import ActionStep, AdaptiveMemoryManager, HierarchicalMemory, MemoryManager, Step, count_tokens
from tinymem.errors import BudgetError, MessageError
from tinymem.messages import messages_from_steps, problems, repair, steps_from_messages
from tinymem.steps.step import STYLES, Style

PIECES = st.lists(st.integers(0, 100), max_size=3)
PNG = "data:image/png;base64,iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": PNG}}


def as_json(messages: Any) -> str:
    return json.dumps(messages, sort_keys=True)  # NaN is NaN here, and True is not 1


def in_pieces(memory: Any, messages: Chat, cuts: list[int]) -> None:
    bounds = [0, *sorted({cut % (len(messages) + 1) for cut in cuts}), len(messages)]
    for start, end in itertools.pairwise(bounds):
        memory.add_messages(messages[start:end])


# -- in, and out again as it was --------------------------------------------------------------------------------------


@THOROUGH
@given(provider_chats())
def test_messages_of_any_provider_come_back_as_they_came(messages: Chat) -> None:
    before = copy.deepcopy(messages)
    steps = steps_from_messages(messages)
    assert as_json(messages_from_steps(steps, style="tools")) == as_json(before) == as_json(messages)
    kept = [Step.from_dict(json.loads(json.dumps(step.to_dict()))) for step in steps]
    assert as_json(messages_from_steps(kept, style="tools")) == as_json(before)


LEGACY = {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}}
ANSWER = {"role": "function", "name": "read", "content": "a"}


@MODERATE
@given(provider_chats(), PIECES, st.integers(0, 100))
@example([LEGACY, ANSWER, ANSWER], [], 1)
def test_added_in_pieces_they_come_back_and_given_again_only_what_is_new_is_added(
    messages: Chat, cuts: list[int], cut: int
) -> None:
    memory = MemoryManager()
    in_pieces(memory, messages, cuts)
    assert as_json(messages_from_steps(memory.steps, style="tools")) == as_json(messages)
    memory = MemoryManager()
    for some in (messages[: cut % (len(messages) + 1)], messages, messages):
        memory.add_messages(some, on_conflict="skip")
    assert as_json(messages_from_steps(memory.steps, style="tools")) == as_json(messages)


# -- what is sent -----------------------------------------------------------------------------------------------------


@THOROUGH
@given(provider_chats() | broken_chats())
def test_repair_makes_what_the_api_accepts_and_twice_changes_nothing_more(messages: Chat) -> None:
    before = as_json(messages)
    repaired = repair(messages)
    assert broken_rules(repaired) == [] and problems(repaired) == []
    assert repair(repaired) == repaired
    assert as_json(messages) == before and (problems(messages) or as_json(repaired) == before)
    if not problems(messages):
        assert [rule for rule in broken_rules(messages) if "not of the next call" not in rule] == []


@MODERATE
@given(provider_chats(), PIECES, st.integers(20, 400), st.sampled_from(STYLES))
def test_adaptive_memories_send_what_the_api_accepts_within_their_tokens(
    messages: Chat, cuts: list[int], most: int, style: Style
) -> None:
    memory = AdaptiveMemoryManager(most, style=style, counter=WORDS)
    try:
        in_pieces(memory, messages, cuts)
    except BudgetError as error:
        assert error.needed > most
    except MessageError:
        assert len(memory) == 0 or memory.open_calls == frozenset() or cuts  # the result of a call that was refused
    sent = memory.to_messages()
    assert broken_rules(sent) == []
    assert count_tokens(sent, WORDS) == memory.tokens <= most
    for other, summary in itertools.product(STYLES, (False, True)):
        assert broken_rules(memory.to_messages(summary, other)) == []


# -- one by one -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"path": "a"}, '{"path": "a"}'),
        ('{"path":"a"}', '{"path":"a"}'),
        ("", "{}"),
        (None, "{}"),
        ("null", "{}"),
        ("ls -l", '{"input": "ls -l"}'),
        ('{"path": "a', '{"input": "{\\"path\\": \\"a"}'),
        ("[1]", '{"input": "[1]"}'),
        ({"x": float("nan")}, '{"input": "{\\"x\\": NaN}"}'),
        (["a"], '{"input": "[\\"a\\"]"}'),
        ('{"a": "\ud83d"}', '{"a": "\ufffd"}'),
    ],
)
def test_arguments_are_sent_as_the_text_of_an_object(given: Any, sent: str) -> None:
    messages = [asks(call(arguments=given)), answers()]
    assert repair(messages)[0]["tool_calls"][0]["function"]["arguments"] == sent
    assert as_json(messages_from_steps(steps_from_messages(messages), style="tools")) == as_json(messages)


def test_ids_that_are_used_again_are_told_apart_and_stay_with_their_results() -> None:
    messages = [asks(call("call_0")), answers("call_0", "a"), asks(call("call_0")), answers("call_0", "b")]
    sent = repair(messages)
    assert [m["tool_calls"][0]["id"] for m in sent[::2]] == ["call_0", "call_0_2"]
    assert [(m["tool_call_id"], m["content"]) for m in sent[1::2]] == [("call_0", "a"), ("call_0_2", "b")]
    unanswered = repair([messages[0], *messages[2:]])
    assert [m["content"] for m in unanswered[1::2]] == ["[no result was recorded]", "b"]


def test_in_a_context_an_id_that_is_used_again_is_told_apart_by_its_step(memory: HierarchicalMemory) -> None:
    for text in "abc":
        memory.add_messages([asks(call("call_0")), answers("call_0", text)])
    numbers = [step.step_number for step in memory.short_term.steps[1:]]
    sent = memory.context(max_tokens=2_000).messages
    ids = [m["tool_calls"][0]["id"] for m in sent if m["role"] == "assistant"]
    assert ids == ["call_0", *(f"call_0_{number}" for number in numbers)]
    assert [m["content"] for m in sent if m["role"] == "tool"] == ["a", "b", "c"]


def test_results_without_ids_answer_the_calls_of_their_tools_one_message_at_a_time() -> None:
    calls: Chat = [{"function": {"name": name, "arguments": {}}} for name in ("read", "list", "read")]
    results = [{"role": "tool", "tool_name": name, "content": text} for name, text in [("list", "b"), ("read", "a")]]
    memory = MemoryManager()
    for message in [asks(*calls, content=""), *results, {"role": "tool", "content": "c"}]:
        memory.add_messages([message])
    assert memory.open_calls == frozenset()
    sent = repair(messages_from_steps(memory.steps, style="tools"))
    assert [message["content"] for message in sent] == [None, "a", "b", "c"]


def test_a_call_without_an_id_gets_the_same_one_whenever_it_is_given_and_none_of_its_turn() -> None:
    messages = [asks(call("call_read_1"), call(None), call("call_0"), call("call_0"))]
    first, again = (steps_from_messages(messages)[0] for _ in range(2))
    assert isinstance(first, ActionStep) and isinstance(again, ActionStep)
    ids = [one.id for one in first.tool_calls]
    assert ids == ["call_read_1", "call_read_2", "call_0", "call_read_3"] == [one.id for one in again.tool_calls]


def test_images_of_results_follow_in_a_message_that_says_whose_they_are() -> None:
    shot = [{"type": "text", "text": "Taken."}, IMAGE]
    mcp = [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]
    sent = repair([asks(call("1"), call("2"), call("3")), answers("1", shot), answers("2"), answers("3", mcp)])
    assert [m["role"] for m in sent] == ["assistant", "tool", "tool", "tool", "user"]
    assert sent[1]["content"] == [{"type": "text", "text": "Taken."}]
    assert sent[3]["content"] == "(see the message after this)"
    told = [{"type": "text", "text": f"What call {id} returned:"} for id in "13"]
    assert sent[4]["content"] == [told[0], IMAGE, told[1], IMAGE]


def test_functions_before_tools_become_tool_calls() -> None:
    older = {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}}
    result = {"role": "function", "name": "read", "content": "ok"}
    assert repair([older, result]) == [asks(call("call")), answers("call")]
    assert repair([result]) == [{"role": "user", "content": "Observation: ok"}]


def test_what_an_assistant_said_elsewhere_is_its_content() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "I cannot."}
    spoken = {"role": "assistant", "content": None, "audio": {"id": "audio_1", "transcript": "Hello."}}
    assert [m["content"] for m in repair([refused, spoken])] == ["I cannot.", "Hello."]


def test_keys_that_a_provider_wants_back_are_sent_when_they_are_named(tmp_path: Path) -> None:
    signature = {"google": {"thought_signature": "sig"}}
    cached = [{"type": "text", "text": "ok", "cache_control": {"type": "ephemeral"}}]
    messages = [asks({**call(), "extra_content": signature}) | {"reasoning_content": "Hm."}, answers("1", cached)]
    keys = ("reasoning_content", "extra_content", "cache_control")
    assert repair(messages, extra_keys=keys) == messages
    assert problems(messages, extra_keys=keys) == [] != problems(messages)
    assert broken_rules(repair(messages)) == []
    with HierarchicalMemory(tmp_path, embedder="hashing:64", store="exact", extra_keys=keys) as memory:
        memory.add_messages(messages)
        context = memory.context(max_tokens=1_000)
        assert context.messages[-2:] == messages and context.tokens == count_tokens(context.messages)
    adaptive = AdaptiveMemoryManager(1_000, extra_keys=keys)
    adaptive.add_messages(messages)
    assert adaptive.to_messages() == messages


def test_system_messages_stay_where_they_were_said_but_never_between_a_call_and_its_result() -> None:
    system = {"role": "system", "content": "From now on in French."}
    user = {"role": "user", "content": "Hi."}
    assert repair([user, system, user]) == [user, system, user]
    assert repair([asks(call()), system, answers()]) == [asks(call()), answers(), system]
