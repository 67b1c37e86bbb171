"""Chat messages to steps and back, groups, and repair."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from strategies import MODERATE, Chat, histories
from turns import answers, asks, says

from tinymem.errors import MessageError
from tinymem.messages.conversion import groups, messages_from_steps, open_calls, steps_from_messages
from tinymem.messages.validity import problems, repair
from tinymem.steps.types import ActionStep, MessageStep, Step, SystemPromptStep, TaskStep, ToolCall


def test_an_agent_run_becomes_typed_steps() -> None:
    steps = steps_from_messages(
        [
            says("Be careful.", "system"),
            says("Ship it.", "user"),
            asks("1", "2", content="Test and lint."),
            answers("1", "12 passed"),
            answers("2", "clean"),
            says("Shipped.", "assistant"),
        ]
    )
    assert [type(step) for step in steps] == [SystemPromptStep, TaskStep, ActionStep, MessageStep]
    action = steps[2]
    assert isinstance(action, ActionStep)
    assert [(c.id, c.observation) for c in action.tool_calls] == [("1", "12 passed"), ("2", "clean")]
    assert action.observation == "12 passed\nclean"
    chat = steps_from_messages([says("s", "system"), {**says("hi", "user"), "name": "Ann"}])  # without tools no task
    assert [type(step) for step in chat] == [SystemPromptStep, MessageStep] and chat[1].speaker == "Ann"


@pytest.mark.parametrize(
    "messages",
    [
        [asks("1", "2"), answers("2", "b"), answers("1", "a")],
        [asks("1"), asks("2"), answers("1", "a"), answers("2", "b")],
        [asks("1"), asks("2"), answers("2", "b"), answers("1", "a")],
        [asks("1", "2"), answers("2", "b"), says("wait", "user"), says("so", "assistant"), answers("1", "a")],
        [asks("1"), says("on", "user"), asks("3"), asks("2"), says("?", "user"), answers("2", "b"), answers("1", "a")],
    ],
)
def test_results_are_of_the_calls_that_they_name_in_whatever_order_they_come(messages: Chat) -> None:
    steps = steps_from_messages(messages)
    calls = {c.id: c.observation for step in steps if isinstance(step, ActionStep) for c in step.tool_calls}
    assert (calls["1"], calls["2"], calls.get("3")) == ("a", "b", None)
    assert messages_from_steps(steps) == messages and problems(repair(messages)) == []
    kept = [Step.from_dict(json.loads(json.dumps(step.to_dict()))) for step in steps]
    assert messages_from_steps(kept) == messages


@pytest.mark.parametrize("content", ["", [], None])
def test_an_empty_result_is_a_result(content: Any) -> None:
    steps = steps_from_messages([asks("1"), answers("1", content)])
    assert not open_calls(steps) and messages_from_steps(steps) == [asks("1"), answers("1", content)]
    assert repair(messages_from_steps(steps))[1] == answers("1", "")


def test_of_open_calls_with_one_id_the_newest_is_answered() -> None:
    steps = steps_from_messages([asks("1"), says("again", "user"), asks("1"), answers("1", "new"), answers("1", "old")])
    assert [step.tool_calls[0].observation for step in steps if isinstance(step, ActionStep)] == ["old", "new"]


@pytest.mark.parametrize(
    "orphan", [answers("9", "lost"), {"role": "tool", "content": "lost"}, answers("1", "lost"), answers("", "lost")]
)
def test_a_result_of_no_call_is_kept_as_what_it_is_and_sent_as_text(orphan: dict[str, Any]) -> None:
    messages = [asks("1"), answers("1"), orphan, says("on", "user")]
    steps = steps_from_messages(messages)
    assert messages_from_steps(steps, style="tools") == messages
    sent = [message for group in groups(steps) for message in messages_from_steps(group)]
    assert problems(repair(sent)) == [] and says("Observation: lost", "user") in sent


@pytest.mark.parametrize(
    ("messages", "index", "says_what"),
    [
        ([says("a", "user"), {"role": "robot", "content": "b"}], 1, "role must be one of"),
        ([{"content": "b"}], 0, "role must be one of"),
        (["text"], 0, "must be a mapping"),
        ([{"role": "assistant", "tool_calls": {"id": "1"}}], 0, "tool_calls"),
        ([{"role": "assistant", "tool_calls": 7}], 0, "tool_calls must be a list"),
        ([{"role": "assistant", "tool_calls": [{"id": "1"}]}], 0, "has no name"),
        ([{"role": "assistant", "tool_calls": [{"id": 1, "function": {"name": "f"}}]}], 0, "an id"),
        ([{"role": "assistant", "tool_calls": [{"id": "1", "function": "f"}]}], 0, "has no name"),
        ([says("a", "user"), says(7, "user")], 1, "content"),
        ([asks("1"), answers("1", 7)], 1, "content must be a string"),
        ([{"role": ["user"], "content": "x"}], 0, "role must be one of"),
        ([asks("1"), {"role": "tool", "tool_call_id": 7, "content": "x"}], 1, "tool_call_id of a result"),
    ],
)
def test_a_malformed_message_is_named_by_its_index(messages: list[Any], index: int, says_what: str) -> None:
    with pytest.raises(MessageError, match=says_what) as caught:
        steps_from_messages(messages)
    assert caught.value.index == index


@MODERATE
@given(histories())
def test_groups_are_a_partition_in_which_calls_and_results_stay_together(steps: list[Step]) -> None:
    found = groups(steps)
    assert [step for group in found for step in group] == steps
    for group in found:
        calls = {c.id for step in group if isinstance(step, ActionStep) for c in step.tool_calls}
        assert all(s.tool_call_id in calls for s in group if isinstance(s, MessageStep) and s.role == "tool")


def test_what_is_said_between_a_call_and_its_result_is_in_their_group() -> None:
    action = ActionStep(tool_calls=[ToolCall("f", id="1")])
    said, result, later = MessageStep("user", "wait"), MessageStep("tool", "ok", "1"), MessageStep("user", "thanks")
    assert groups([action, said, result, later]) == [[action, said, result], [later]]
    assert open_calls([action, said]) == {"1"}
    assert open_calls([action, said, result]) == set()


def test_repair_moves_late_results_behind_their_calls_in_the_order_of_the_calls() -> None:
    messages = [asks("1", "2"), says("wait", "user"), answers("2", "b"), answers("1", "a")]
    assert repair(messages) == [asks("1", "2"), answers("1", "a"), answers("2", "b"), says("wait", "user")]


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([answers("1")], "message 0: a tool result that answers no open call"),
        ([asks("1"), says("x", "user"), answers("1")], "message 1: it stands between a call and its result"),
        ([asks("1")], "message 0: a call without a result"),
        ([says(" ", "user")], "message 0: nothing in it"),
        (
            [{"role": "assistant", "content": "x", "tool_calls": []}],
            "message 0: tool_calls in a form that the API refuses",
        ),
        (
            [{"role": "user", "content": "x", "annotations": []}],
            "message 0: annotations in a form that the API refuses",
        ),
    ],
)
def test_problems_names_what_is_wrong_and_where(messages: Chat, problem: str) -> None:
    assert problem in problems(messages)
