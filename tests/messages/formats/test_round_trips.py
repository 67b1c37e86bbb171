"""Conversations of every format: read and written back they are the same, and in any other format they are accepted."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judges import JUDGES
from native_chats import anthropic_chats, responses_chats
from provider_chats import provider_chats
from strategies import MODERATE, broken_chats, chats
from turns import entries_of

from tinymem.messages import repair
from tinymem.messages.formats import conversation_from, write_messages
from tinymem.messages.formats.conversation import encodable_value

NATIVE = {"openai": chats() | provider_chats(), "responses": responses_chats(), "anthropic": anthropic_chats()}
FORMATS = sorted(JUDGES)


def as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def has_user(messages: list[dict[str, Any]]) -> bool:
    return any(message["role"] not in ("system", "developer") for message in messages)


@pytest.mark.parametrize("format", FORMATS)
def test_read_and_written_it_is_the_same(format: str) -> None:
    @MODERATE
    @given(NATIVE[format])
    def check(items: Any) -> None:
        before = copy.deepcopy(items)
        conversation = conversation_from(items, format)
        written = conversation.write(entries_of(conversation))
        assert as_json(items) == as_json(before) and as_json(written) == as_json(encodable_value(items))

    check()


@pytest.mark.parametrize("format", FORMATS)
def test_read_in_one_format_and_written_in_another_it_is_accepted(format: str) -> None:
    @MODERATE
    @given(NATIVE[format])
    def check(items: Any) -> None:
        messages = conversation_from(items, format).messages
        for other in FORMATS:
            if other != "anthropic" or has_user(repair(messages)):
                assert JUDGES[other](write_messages(messages, other)) == [], other

    check()


@MODERATE
@given(broken_chats(), st.sampled_from(FORMATS))
def test_broken_chats_are_accepted_in_every_format(messages: list[dict[str, Any]], other: str) -> None:
    if other != "anthropic" or has_user(repair(messages)):
        assert JUDGES[other](write_messages(messages, other)) == []
