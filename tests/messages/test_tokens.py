"""Counting tokens, by hand and in bulk."""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import FILE, IMAGE, THOROUGH, WORDS, texts

from tinymem.errors import InputError
from tinymem.messages.media import PER_PAGE
from tinymem.messages.tokens import (
    BUNDLED,
    LONGEST_TOKEN,
    EstimatingCounter,
    TiktokenCounter,
    count_message,
    count_tokens,
    counter_from,
    default_counter,
    encoding_of,
)
from tinymem.protocols import TokenCounter

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
    assert TiktokenCounter("o200k_base").count(text) == (8 if tokens == 9 else tokens)


def test_the_cookbook_example_counts_as_the_api_charges_it() -> None:
    """129 prompt tokens, as OpenAI's cookbook shows for gpt-4; `name` costs one token beyond its own."""
    system: dict[str, Any] = {"role": "system"}
    messages = [
        {**system, "content": "You are a helpful, pattern-following assistant that translates corporate jargon into "
         "plain English."},
        {**system, "name": "example_user", "content": "New synergies will help drive top-line growth."},
        {**system, "name": "example_assistant", "content": "Things working well together will increase revenue."},
        {**system, "name": "example_user", "content": "Let's circle back when we have more bandwidth to touch base on "
         "opportunities for increased leverage."},
        {**system, "name": "example_assistant",
         "content": "Let's talk later when we're less busy about how to do better."},
        {"role": "user", "content": "This late pivot means we don't have time to boil the ocean for the client "
         "deliverable."},
    ]  # fmt: skip
    assert count_tokens(messages, CL100K) == 129


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ({"role": "user", "content": "one two three"}, 3 + 1 + 3),
        ({"role": "user", "content": ""}, 3 + 1),
        ({"role": "assistant", "content": None}, 3 + 1),
        ({"role": "user", "name": "Ann Lee", "content": "hi"}, 3 + 1 + 2 + 1 + 1),
        ({"role": "tool", "tool_call_id": "call 1", "content": "ok"}, 3 + 1 + 2 + 1),
        ({"role": "user", "content": [{"type": "text", "text": "two words"}, IMAGE]}, 3 + 1 + 2 + 85),
        ({"role": "user", "content": [FILE]}, 3 + 1 + PER_PAGE),
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


@THOROUGH
@given(texts(200))
def test_the_estimate_never_undercounts(text: str) -> None:
    assert CL100K.count(text) <= EstimatingCounter().count(text)


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_start|>", "\ud800", "\x00" * 10, "a\udfff\ud800b"])
def test_special_tokens_and_lone_surrogates_are_plain_text(text: str) -> None:
    assert CL100K.count(text) > 1 or text == "\ud800"


BREAKS = ["\n", "\r\n", "\n\n", "/", " ", "  ", "\t", "\u3000"]
PIECES = [*BREAKS, "a", "A", "don't", "'s", "12345", "==", "é", "日本", "😀", "x" * 9]


@THOROUGH
@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | texts(100), st.sampled_from(BUNDLED))
def test_counts_line_by_line_are_those_of_the_encoding(text: str, encoding: str) -> None:
    counter = TiktokenCounter(encoding)
    plain = len(encoding_of(encoding).encode_ordinary(text))
    assert counter.count(text) == plain
    counter.count(f"{text}\n{text}")  # what is remembered of its lines
    assert counter.count(text) == plain


@THOROUGH
@given(st.lists(st.sampled_from([*PIECES, "，", "_", "'", "e\u0301", "Ⅷ"])).map("a,".join), st.sampled_from(BUNDLED))
def test_a_long_text_is_cut_where_its_tokens_do_not_change(text: str, encoding: str) -> None:
    counter = TiktokenCounter(encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinymem.messages.tokens._SLICE", 50)
        assert counter.count(text) == len(encoding_of(encoding).encode_ordinary(text))


def test_o200k_is_what_openai_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks have the hash that tiktoken asks of what it downloads, and the pattern is tiktoken's."""
    openai_public = importlib.import_module("tiktoken_ext.openai_public")
    asked = dict[str, str]()
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda url, expected_hash: asked.update(hash=expected_hash))
    theirs = openai_public.o200k_base()
    ours = encoding_of("o200k_base")
    tokens = [ours.decode_single_token_bytes(rank) for rank in range(199_998)]
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens))
    assert hashlib.sha256(b"".join(lines)).hexdigest() == asked["hash"]
    assert ours._pat_str == theirs["pat_str"]
    assert max(len(token.decode("utf-8", "ignore")) for token in tokens) == LONGEST_TOKEN


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("gpt-4o-2024-05-13", "o200k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("gpt-oss-120b", "o200k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
    ],
)
def test_a_counter_is_given_by_the_name_of_a_model(name: str, encoding: str) -> None:
    assert counter_from(name) is counter_from(encoding)
    assert counter_from(name).name == encoding
    message = {"role": "user", "content": "お誕生日おめでとう"}
    assert count_tokens([message], name) == count_tokens([message], TiktokenCounter(encoding))


@pytest.mark.slow
def test_the_two_usual_encodings_need_no_network() -> None:
    program = """
import socket
def refused(*a, **k): raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = refused
from tinymem.messages.tokens import counter_from
print([counter_from(name).count("hello world") for name in ("cl100k_base", "o200k_base", "gpt-4o")])
try:
    counter_from("p50k_base")
except ValueError as error:
    print(error)
"""
    empty = {**os.environ, "TIKTOKEN_CACHE_DIR": ""}  # and no copy from an earlier day
    said = subprocess.run([sys.executable, "-c", program], env=empty, capture_output=True, text=True, check=True).stdout
    assert said.startswith("[2, 2, 2]\nthe encoding p50k_base could not be loaded")
    assert "take cl100k_base or o200k_base" in said


@pytest.mark.parametrize("wrong", [5, True, [], {}, b"cl100k_base", TiktokenCounter, frozenset()], ids=repr)
def test_what_is_no_counter_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="counter must be"):
        counter_from(wrong)


def test_a_counter_is_given_by_name_object_or_default() -> None:
    assert counter_from(WORDS) is WORDS and isinstance(WORDS, TokenCounter) and isinstance(CL100K, TokenCounter)
    assert counter_from(None) is default_counter()
    assert counter_from("cl100k_base").name == default_counter().name == "cl100k_base"
    with pytest.raises(InputError, match=r"counter must be an encoding of tiktoken \(cl100k_base, .*not 'klingon"):
        counter_from("klingon")
