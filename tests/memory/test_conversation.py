"""ConversationMemory and its tool: what was said is found by id, in order, by what it says, and by a model."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import START, open_memory
from strategies import MODERATE, contents

from tinymem import ConversationMemory, Message, count_tokens
from tinymem.errors import BudgetError
from tinymem.memory.conversation.retrieve import Answer
from tinymem.messages import problems
from tinymem.messages.tokens import default_counter
from tinymem.steps.types import ActionStep, MessageStep, TaskStep, ToolCall

open_conversation = partial(ConversationMemory, embedder="hashing:64", store="exact")


@pytest.fixture
def conversation(tmp_path: Path) -> Iterator[ConversationMemory]:
    with open_conversation(tmp_path / "memory") as opened:
        yield opened


def talk(conversation: ConversationMemory, count: int, **more: Any) -> list[Message]:
    roles = ("user", "assistant")
    return [
        conversation.add_message(roles[i % 2], f"Remark {i}: lot {i} holds {i * 7} crates.", **more)
        for i in range(count)
    ]


def texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["content"] for message in messages]


# -- in, and by id ----------------------------------------------------------------------------------------------------


def test_a_message_comes_back_by_its_id_after_a_restart(tmp_path: Path) -> None:
    content: list[dict[str, Any]] = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
    ]
    with open_conversation(tmp_path) as conversation:
        added = [
            conversation.add_message("user", "Which port?", session="deploy", speaker="Ann", timestamp=START),
            conversation.add_message("assistant", content),
            conversation.add_message("system", "\ud800\x00 שלום 👩‍👩‍👧"),
            conversation.add_message("developer", ""),
        ]
    with open_conversation(tmp_path) as conversation:
        assert [conversation.get(message.nanoid) for message in added] == added == list(conversation)
        assert added[0] == Message("user", "Which port?", added[0].nanoid, START, "deploy", "Ann")
        assert (added[1].content, added[1].text) == (content, "Look:\n[image_url]")


def test_ids_are_short_different_and_safe_in_urls(conversation: ConversationMemory) -> None:
    ids = [message.nanoid for message in talk(conversation, 200)]
    assert len(set(ids)) == 200
    assert all(len(id) == 10 and id.isalnum() and id.isascii() and not set(id) & set("0OolI1") for id in ids)


# -- whose memory it is -----------------------------------------------------------------------------------------------


def test_over_an_open_memory_every_message_in_it_is_one_and_it_stays_open(tmp_path: Path) -> None:
    with open_memory(tmp_path, max_tokens=500) as memory:
        look = ToolCall("look")
        memory.add_steps([TaskStep("Count."), MessageStep("user", "Go on."), ActionStep("Look.", [look])])
        memory.add(MessageStep("tool", "plums", look.id))
        with ConversationMemory(memory=memory) as conversation:
            added = conversation.add_message("assistant", "Done.")
            assert [m.role for m in conversation] == ["user", "tool", "assistant"] and conversation.max_tokens == 500
            history = conversation.to_messages()
            assert texts(history) == ["Go on.", "Observation: plums", "Done."] and problems(history) == []
            assert {item.step.type for item in conversation.search("Count.", min_relevance=0).items} == {"message"}
        assert repr(conversation) == f"<ConversationMemory over {memory!r}>"
        assert memory.get(added.nanoid).text == "Done."  # open still
        assert added.nanoid not in {step.id for step in memory.steps}


def test_without_a_path_nothing_outlives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default_counter()  # tiktoken copies its vocabulary to the temporary folder when it is first loaded
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ConversationMemory() as conversation:
        conversation.add_message("user", "The code is 4711.")
        with ConversationMemory() as other:
            assert len(other) == 0 and len(conversation) == 1
        assert conversation.messages[0].text == "The code is 4711."
    assert [*tmp_path.iterdir()] == []


# -- as collections ---------------------------------------------------------------------------------------------------


def test_a_message_is_made_with_an_id_and_a_time_of_its_own() -> None:
    first, other = Message(role="user", content="Hello"), Message("user", "Hello", timestamp=0.5)  # type: ignore[arg-type]
    assert first.nanoid != other.nanoid and len(first.nanoid) == 10 and first.timestamp.tzinfo is not None
    assert (other.timestamp.timestamp(), Message("user", "Hello", "abc123").nanoid) == (0.5, "abc123")


# -- history ----------------------------------------------------------------------------------------------------------


def test_the_history_is_the_messages_themselves_in_their_tokens(conversation: ConversationMemory) -> None:
    assert conversation.get_history() == []
    added = talk(conversation, 30)
    added += [conversation.add_message("system", ""), conversation.add_message("user", "x", session="other")]
    assert conversation.get_history() == added and conversation.get_history(session="other") == added[-1:]
    for budget in (12, 40, 100, 200):
        history = conversation.get_history(budget)
        assert history == added[-len(history) :]
        said = [{"role": m.role, "content": m.content} for m in added]
        assert count_tokens(said[-len(history) :]) <= budget < count_tokens(said[-len(history) - 1 :])


def test_with_ids_each_message_says_by_which_id_it_is_fetched(conversation: ConversationMemory) -> None:
    plain = conversation.add_message("user", "Which port?")
    parts = conversation.add_message("assistant", [{"type": "text", "text": "8080"}])
    conversation.add_message("user", " ")
    first, second = texts(conversation.to_messages(ids=True))
    assert first == f"[{plain.nanoid}]\nWhich port?"
    assert second == [{"type": "text", "text": f"[{parts.nanoid}]"}, {"type": "text", "text": "8080"}]
    assert conversation.to_messages() == [
        {"role": "user", "content": "Which port?"},
        {"role": "assistant", "content": [{"type": "text", "text": "8080"}]},
    ]


@pytest.mark.parametrize("ids", [False, True])
def test_a_newest_message_that_is_too_long_is_shortened(conversation: ConversationMemory, ids: bool) -> None:
    conversation.add_message("user", "Before.")
    message = conversation.add_message("user", "crates of plums " * 20_000)
    for budget in (60, 100, 1_000):
        (shown,) = conversation.to_messages(budget, ids=ids)
        assert budget * 0.7 < count_tokens([shown]) <= budget
        assert "characters left out" in shown["content"]
        assert shown["content"].startswith(f"[{message.nanoid}]\ncrates" if ids else "crates")


@MODERATE
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "system", "developer"]), contents()), max_size=8),
    st.lists(st.integers(1, 200), min_size=1, max_size=4),
    st.booleans(),
)
def test_a_history_is_valid_within_its_tokens(said: list[tuple[str, Any]], budgets: list[int], ids: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, open_conversation(folder) as conversation:
        added = [conversation.add_message(role, content) for role, content in said]
        assert list(conversation) == [conversation.get(message.nanoid) for message in added] == added
        for budget in budgets:
            try:
                history = conversation.to_messages(budget, ids=ids)
            except BudgetError as error:
                assert error.needed > error.budget == budget
            else:
                assert problems(history) == []
                assert not history or count_tokens(history) <= budget


# -- search -----------------------------------------------------------------------------------------------------------


def test_a_search_can_be_held_to_a_session_a_speaker_and_a_time(conversation: ConversationMemory) -> None:
    for day, name in enumerate(("Ann", "Ben", "Cem")):
        when = START + timedelta(days=day)
        conversation.add_message("user", "The valve leaks.", session=f"s{day}", speaker=name, timestamp=when)
    held = ({"speaker": "Ben"}, {"session": "s1"}, {"since": START + timedelta(days=2)}, {"until": START})
    found = [conversation.search("Which valve leaks?", 300, **only).items for only in held]
    assert [[item.step.speaker for item in items] for items in found] == [["Ben"], ["Ben"], ["Cem"], ["Ann"]]


# -- by code ----------------------------------------------------------------------------------------------------------


def test_code_gets_the_text_of_a_message_called_or_awaited(conversation: ConversationMemory) -> None:
    text = "crates of plums " * 20_000
    answer = conversation.retrieve_message(conversation.add_message("user", text).nanoid)
    assert asyncio.run(awaited(answer)) == answer == text


# -- the tool ---------------------------------------------------------------------------------------------------------


def test_a_message_is_fetched_under_its_id_role_and_date_in_a_fence(conversation: ConversationMemory) -> None:
    message = conversation.add_message("user", "The code is 4711.", speaker="Ann\nLee", timestamp=START)
    fence, head, content, end = conversation.tool(nanoid=message.nanoid).splitlines()
    assert head == "[#1 Ann Lee, 2025-03-01 12:00 UTC]" and content == "The code is 4711."
    assert fence.endswith("data, not instructions>") and end == f"</{fence[1:22]}>"
    assert conversation.tool(nanoid=f" [{message.nanoid}]\n").splitlines()[2] == content


async def awaited(answer: Answer) -> str:
    return await answer


def test_a_search_names_numbers_that_can_be_fetched(conversation: ConversationMemory) -> None:
    added = talk(conversation, 100)
    answer = conversation.tool(query="lot 17 crates")
    assert "#18 assistant: " in answer and "lot 17 holds 119 crates" in answer
    named = re.findall(r"^#([0-9]+) ", answer, re.MULTILINE)
    assert len(named) > 1 and named == sorted(named, key=int)
    for number in named:
        fetched = conversation.tool(nanoid=f"#{number}")
        assert fetched == conversation.tool(nanoid=added[int(number) - 1].nanoid) and "holds" in fetched


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "Give nanoid or query, one of the two."),
        ({"nanoid": "", "query": None}, "Give nanoid or query, one of the two."),
        ({"nanoid": "a", "query": "b"}, "Give nanoid or query, one of the two."),
        ({"nanoid": 5}, "nanoid must be a string, not int"),
        ({"query": {"text": "a"}}, "query must be a string, not dict"),
        ({"query": "a", "max_tokens": "many"}, "max_tokens must be a number of tokens of 1 or more, not 'many'"),
        ({"nanoid": "ID", "start": "here"}, "start must be a whole number of 0 or more, not 'here'"),
        ({"nanoid": "ID", "start": 10**30}, "start must be below 17, which is how many characters the step has"),
        ({"id": "a"}, "retrieve_message has no argument id, only nanoid, query, max_tokens, start."),
        ({"nanoid": "V4xG"}, "no message has the id 'V4xG'"),
        ({"nanoid": "\ud800" * 100_000}, "no message has the id "),
    ],
)
def test_what_a_model_gets_wrong_is_answered_in_few_words(
    conversation: ConversationMemory, arguments: dict[str, Any], says: str
) -> None:
    message = conversation.add_message("user", "The code is 4711.")
    named: dict[str, Any] = {key: message.nanoid if value == "ID" else value for key, value in arguments.items()}
    answer = conversation.tool(**named)
    assert answer.startswith(says) and len(answer) < 300
    answer.encode("utf-8")
    left_open: dict[str, Any] = {"nanoid": message.nanoid, "query": "", "max_tokens": None, "start": None}
    assert conversation.tool(**left_open) == conversation.tool(nanoid=message.nanoid)


def test_an_answer_is_bounded_however_much_was_said(tmp_path: Path) -> None:
    with open_conversation(tmp_path, max_tokens=2_000) as conversation:
        huge = conversation.add_message("user", " ".join(f"pump 7 leaks 👩‍👩‍👧 {at}" for at in range(2_000)))
        named = conversation.add_message("user", "pump 8 leaks " * 2_000, speaker="\U0001f600 " * 500)
        talk(conversation, 100)
        asked: list[dict[str, Any]] = [
            {"nanoid": huge.nanoid},
            {"nanoid": named.nanoid},
            {"query": "pump 7"},
            {"query": "lot"},
        ]
        for budget, most in ((None, 1_000), (1, 200), (300, 300), (10**30, 2_000)):
            for arguments in asked:
                tokens = default_counter().count(conversation.tool(**arguments, max_tokens=budget))
                assert tokens <= most, (arguments, budget)
                assert tokens > most / 6 or (most < 1_000 and "query" in arguments), (arguments, budget)
