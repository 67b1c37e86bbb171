"""Counting tokens, by hand and in bulk."""

from __future__ import annotations

import doctest
import time
from typing import Any

import pytest
from hypothesis import given
from strategies import FILE, IMAGE, MODERATE, THOROUGH, WORDS, Chat, chats, texts

import tinymem.tokens
from tinymem.errors import InputError
from tinymem.protocols import TokenCounter
from tinymem.tokens import (
    EstimatingCounter,
    TiktokenCounter,
    count_message,
    count_messages,
    counter_from,
    default_counter,
)

CL100K = TiktokenCounter()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("お誕生日おめでとう", 9),
    ],
)
def test_known_counts_of_cl100k(text: str, tokens: int) -> None:
    """The examples of OpenAI's cookbook."""
    assert CL100K.count(text) == tokens


def test_the_cookbook_example_counts_as_the_api_charges_it() -> None:
    """129 prompt tokens, as OpenAI's cookbook shows for gpt-4; `name` costs one token beyond its own."""
    messages = [
        {
            "role": "system",
            "content": "You are a helpful, pattern-following assistant that translates corporate jargon into plain "
            "English.",
        },
        {"role": "system", "name": "example_user", "content": "New synergies will help drive top-line growth."},
        {
            "role": "system",
            "name": "example_assistant",
            "content": "Things working well together will increase revenue.",
        },
        {
            "role": "system",
            "name": "example_user",
            "content": "Let's circle back when we have more bandwidth to touch base on opportunities for increased "
            "leverage.",
        },
        {
            "role": "system",
            "name": "example_assistant",
            "content": "Let's talk later when we're less busy about how to do better.",
        },
        {
            "role": "user",
            "content": "This late pivot means we don't have time to boil the ocean for the client deliverable.",
        },
    ]
    assert count_messages(messages, CL100K) == 129


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ({"role": "user", "content": "one two three"}, 3 + 1 + 3),
        ({"role": "user", "content": ""}, 3 + 1),
        ({"role": "assistant", "content": None}, 3 + 1),
        ({"role": "user", "name": "Ann Lee", "content": "hi"}, 3 + 1 + 2 + 1 + 1),
        ({"role": "tool", "tool_call_id": "call 1", "content": "ok"}, 3 + 1 + 2 + 1),
        ({"role": "user", "content": [{"type": "text", "text": "two words"}, IMAGE]}, 3 + 1 + 2 + 765),
        ({"role": "user", "content": [FILE]}, 3 + 1 + 5),
        ({"role": "user", "content": []}, 3 + 1),
        ({"role": "assistant", "content": "a", "reasoning_content": "b c"}, 3 + 1 + 1 + 2),
        ({"role": "assistant", "content": "a", "annotations": [1, 2]}, 3 + 1 + 1 + 2),
        (
            {
                "role": "assistant",
                "content": "both",
                "tool_calls": [
                    {"id": "id 1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}},
                    {"id": "2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
                ],
            },
            3 + 1 + 1 + (3 + 2 + 1 + 2) + (3 + 1 + 1 + 1),
        ),
    ],
)
def test_a_message_costs_its_texts_and_the_overhead(message: dict[str, Any], tokens: int) -> None:
    assert count_message(message, WORDS) == tokens


@MODERATE
@given(chats())
def test_a_prompt_costs_the_sum_of_its_messages(messages: Chat) -> None:
    whole = count_messages(messages, CL100K)
    assert whole == 3 + sum(count_message(message, CL100K) for message in messages)
    assert count_messages([], CL100K) == 3


@THOROUGH
@given(texts(200))
def test_the_estimate_never_undercounts(text: str) -> None:
    assert CL100K.count(text) <= EstimatingCounter().count(text)


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_start|>", "\ud800", "\x00" * 10, "a\udfff\ud800b"])
def test_special_tokens_and_lone_surrogates_are_plain_text(text: str) -> None:
    assert CL100K.count(text) > 1 or text == "\ud800"


@pytest.mark.parametrize("unit", ["a", "word ", "日", " ", "\n", "😀", "x1!\t"])
def test_a_million_characters_are_counted_in_linear_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    small, large = _seconds(text[: len(text) // 4]), _seconds(text)
    assert large < 5
    assert large < 12 * small + 0.2  # linear would be 4 times; quadratic 16


def _seconds(text: str) -> float:
    start = time.process_time()
    assert CL100K.count(text) > 0
    return time.process_time() - start


def test_a_counter_is_given_by_name_object_or_default() -> None:
    assert counter_from(WORDS) is WORDS
    assert counter_from(None) is default_counter()
    assert counter_from("cl100k_base").name == default_counter().name == "cl100k_base"
    assert isinstance(WORDS, TokenCounter) and isinstance(CL100K, TokenCounter)


def test_an_unknown_encoding_is_named() -> None:
    with pytest.raises(InputError, match="'klingon' is not an encoding"):
        counter_from("klingon")


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(tinymem.tokens).failed == 0


def test_a_long_text_is_counted_once_and_takes_the_room_of_no_other() -> None:
    counter = TiktokenCounter()
    texts = ["what every message of a window says", "a long observation " * 200_000]
    counts = [counter.count(text) for text in texts]
    counter._encoding = None  # type: ignore[assignment]  # from now on, nothing can be encoded
    assert [counter.count(text) for text in texts] == counts
    assert counts[1] == pytest.approx(600_001, abs=60)
