"""Steps: immutable, typed, and how they render themselves."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import IMAGE, MODERATE, THOROUGH, steps

from tinymem.errors import StepError
from tinymem.steps.content import as_text
from tinymem.steps.ids import new_id
from tinymem.steps.types import (
    STEP_TYPES,
    ActionStep,
    MessageStep,
    PlanningStep,
    ScratchpadStep,
    Signal,
    Step,
    SummaryStep,
    SystemPromptStep,
    TaskStep,
    ToolCall,
)

PARALLEL = ActionStep(
    "Look at both.",
    [
        ToolCall("read", {"path": "a"}, "1", observation="text of a"),
        ToolCall("read", {"path": "b"}, "2", error="no such file"),
    ],
)


def one_of(cls: type[Step], **fields: Any) -> Step:
    """A step of this type."""
    if cls is ActionStep:
        return ActionStep("think", **fields)
    return MessageStep("user", "text", **fields) if cls is MessageStep else cls("text", **fields)  # type: ignore[call-arg]


every_type = pytest.mark.parametrize("cls", STEP_TYPES.values(), ids=STEP_TYPES)


@every_type
def test_a_step_cannot_be_assigned_to(cls: type[Step]) -> None:
    step = one_of(cls)
    for f in dataclasses.fields(step):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(step, f.name, None)


@every_type
def test_changing_what_was_passed_in_has_no_effect(cls: type[Step]) -> None:
    metadata: dict[str, Any] = {"tags": ["a"]}
    overlay = [{"set": {"name": "x"}}]
    content: list[dict[str, Any]] = [{"type": "text", "text": "a"}]
    steps = [one_of(cls, metadata=metadata, overlay=overlay), TaskStep(content), ActionStep(content)]
    steps += [steps[0].evolve(metadata=metadata), ActionStep(tool_name="f", tool_args=metadata, observation=content)]
    before = [step.to_dict() for step in steps]
    metadata["tags"].append("b")
    overlay[0]["set"]["name"] = "y"
    content[0]["text"] = "b"
    content.append(content[0])
    assert [step.to_dict() for step in steps] == before


def test_evolve_refuses_unknown_fields_and_leaves_the_step() -> None:
    step = TaskStep("a")
    assert step.evolve(task="b", pinned=True) == TaskStep(
        "b", pinned=True, id=step.id, timestamp=step.timestamp
    )  # fmt: skip
    assert step.task == "a"
    with pytest.raises(StepError, match="TaskStep has no field colour"):
        step.evolve(colour="red")
    with pytest.raises(StepError, match="task must be a string"):
        step.evolve(task=7)


WEST = timezone(timedelta(hours=-12))
DEEP: list[Any] = []
for _ in range(100):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("build", "says_what"),
    [
        (lambda: TaskStep(7), "TaskStep.task must be"),  # type: ignore[arg-type]
        (lambda: ActionStep(tool_name="f", tool_args=[1]), "tool_args must be"),  # type: ignore[arg-type]
        (lambda: ActionStep(tool_name="f", tool_calls=[ToolCall("g")]), "tool_name or tool_calls, not both"),
        (lambda: ActionStep(tool_calls=[ToolCall("g")], observation="x"), "each call carries its own"),
        (lambda: ToolCall(7), "name and id must be strings"),  # type: ignore[arg-type]
        (lambda: ActionStep(tool_calls=["f"]), "tool_calls must be of type ToolCall"),  # type: ignore[list-item]
        (lambda: ActionStep(is_final="no"), "is_final must be a bool"),  # type: ignore[arg-type]
        (lambda: MessageStep("robot", "x"), "role must be one of"),
        (lambda: TaskStep("x", id=""), "id must be"),
        (lambda: TaskStep("x", session=7), "session must be a string"),  # type: ignore[arg-type]
        (lambda: TaskStep("x", step_number="1"), "number must be an int"),  # type: ignore[arg-type]
        (lambda: TaskStep("x", pinned="no"), "pinned a bool"),  # type: ignore[arg-type]
        (lambda: TaskStep("x", metadata=[1]), "metadata must be a mapping"),  # type: ignore[arg-type]
        (lambda: TaskStep("x", overlay=[{"set": 7}]), "overlay a list of"),
        (lambda: TaskStep("x", timestamp=datetime.max.replace(tzinfo=WEST)), "years 1 to 9999"),
        (lambda: SummaryStep("x", covers=[7]), "covers must be a list of ids"),  # type: ignore[list-item]
        (lambda: TaskStep("x", metadata={"deep": DEEP}), "over 100 levels"),
        (lambda: MessageStep("user", [{"type": "text", "text": DEEP}]), "over 100 levels"),
        (lambda: MessageStep("tool", "x"), "tool_call_id"),
        (lambda: TaskStep("x").to_messages(style="xml"), "style must be"),  # type: ignore[arg-type]
    ],
)
def test_bad_values_are_refused_and_named(build: Any, says_what: str) -> None:
    with pytest.raises(StepError, match=says_what):
        build()


@THOROUGH
@given(steps(), st.integers(0, 60))
def test_a_shortened_step_has_no_text_over_its_length(step: Step, max_length: int) -> None:
    short = step.shortened(max_length)
    contents = [getattr(short, name, None) for name in ("content", "thought", "code", "output", "failure")]
    if isinstance(short, ActionStep):
        contents += [value for call in short.tool_calls for value in (call.observation, call.error)]
        contents += [signal.message for signal in short.signals]
    for content in contents:
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content or ()]
        assert all(len(text) <= max_length for text in texts)
    assert short.shortened(max_length) == short
    assert short.id == step.id and len(short.to_messages()) == len(step.to_messages())


def test_shortening_keeps_head_tail_calls_and_images() -> None:
    step = ActionStep(
        tool_name="read",
        tool_args={"path": "p" * 100},
        observation=[{"type": "text", "text": "a" * 90 + "z" * 90}, IMAGE],
    )
    call = step.shortened(60).tool_calls[0]
    assert call.arguments == {"path": "p" * 100}
    assert call.observation is not None and call.observation[1] == IMAGE
    text = as_text(call.observation[:1])
    assert text.startswith("a") and text.endswith("z") and "characters left out" in text


def test_parallel_calls_in_style_tools() -> None:
    asked, first, second = PARALLEL.to_messages(style="tools")
    assert asked["role"] == "assistant" and asked["content"] == "Look at both."
    assert [c["function"] for c in asked["tool_calls"]] == [
        {"name": "read", "arguments": '{"path": "a"}'},
        {"name": "read", "arguments": '{"path": "b"}'},
    ]
    assert first == {"role": "tool", "tool_call_id": "1", "content": "text of a"}
    assert second == {"role": "tool", "tool_call_id": "2", "content": "Error: no such file"}


def test_parallel_calls_in_style_observation() -> None:
    assert PARALLEL.to_messages(style="observation") == [
        {"role": "assistant", "content": 'Look at both.\nread({"path": "a"})\nread({"path": "b"})'},
        {"role": "user", "content": "Observation: text of a\nError: no such file"},
    ]


def test_an_action_speaks_for_all_its_calls() -> None:
    assert (PARALLEL.observation, PARALLEL.error) == ("text of a", "no such file")
    single = ActionStep(tool_name="f", tool_args={"x": 1}, observation="ok", error="late")
    assert (single.observation, single.error) == ("ok", "late")
    assert single.to_messages(style="tools")[1]["content"] == "ok\nError: late"
    assert single.to_messages()[1]["content"] == "Error: late\nObservation: ok"
    assert ActionStep(tool_name="f").observation is None


@pytest.mark.parametrize("style", ["tools", "observation"])
def test_code_is_shown_in_both_styles_and_signals_are_only_searched(style: Any) -> None:
    step = ActionStep("Add.", code="print(1 + 1)", observation="2", signals=[Signal("uncertain", "maybe")])
    assert step.to_messages(style=style) == [
        {"role": "assistant", "content": "Add.\n```python\nprint(1 + 1)\n```"},
        {"role": "user", "content": "Observation: 2"},
    ]
    assert "[uncertain] maybe" in step.text


def test_an_empty_observation_is_still_a_result() -> None:
    assert ActionStep(tool_name="f", observation="").to_messages()[1]["content"] == "Observation: "
    assert ActionStep(tool_name="f", observation="").to_messages(style="tools")[1]["content"] == ""
    assert ActionStep(code="x = 1", observation="").to_messages()[-1]["content"] == "Observation: "
    assert len(ActionStep(tool_name="f").to_messages()) == 1


@pytest.mark.parametrize(
    ("step", "roles"),
    [
        (SystemPromptStep("x"), []),
        (PlanningStep("x"), []),
        (MessageStep("system", "x"), []),
        (MessageStep("developer", "x"), []),
        (ActionStep("only a thought"), []),
        (TaskStep("x"), ["user"]),
        (SummaryStep("x"), ["user"]),
        (ScratchpadStep("x"), ["assistant", "user"]),
        (MessageStep("user", "x"), ["user"]),
        (ActionStep("a thought", code="1", observation="1"), ["assistant", "user"]),
        (ActionStep("a thought", [ToolCall("f", observation="ok")]), ["assistant", "tool"]),
    ],
)
def test_summary_mode_leaves_out_system_prompts_plans_and_thoughts(step: Step, roles: list[str]) -> None:
    for style, wanted in (("tools", roles), ("observation", ["user" if role == "tool" else role for role in roles])):
        messages = step.to_messages(summary_mode=True, style=style)  # type: ignore[arg-type]
        assert [message["role"] for message in messages] == wanted and "thought" not in str(messages)
        assert step.to_messages(style=style)  # type: ignore[arg-type]  # and the usual mode has them all


@MODERATE
@given(steps())
def test_offsets_into_parts_are_offsets_into_what_was_said(step: Step) -> None:
    assert all(part.text.strip() for part in step.parts())
    assert step.text == "\n".join(part.text for part in step.parts())


def test_ids_grow_as_they_are_made_and_those_of_many_threads_are_unique() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: [new_id() for _ in range(1000)], range(8)))
    assert all(ids == sorted(ids) and new_id() > ids[-1] for ids in made)
    every = {id for ids in made for id in ids}
    assert len(every) == 8000 and all(len(id) == 22 and id.isalnum() for id in every)
