"""Steps to records and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from strategies import THOROUGH, steps

from tinymem.errors import FormatError, StepError, TinymemError
from tinymem.steps.step import FORMAT, dump_step, load_step
from tinymem.steps.types import MessageStep, Step, Style, TaskStep


@THOROUGH
@given(steps())
def test_a_step_comes_back_from_its_record_exactly(step: Step) -> None:
    back = Step.from_dict(json.loads(json.dumps(step.to_dict())))
    assert back == step
    assert type(back) is type(step)
    assert back.timestamp.utcoffset() == step.timestamp.utcoffset()
    styles: tuple[Style, ...] = ("tools", "observation")
    for style in styles:
        assert back.to_messages(style=style) == step.to_messages(style=style)


@THOROUGH
@given(steps())
def test_a_saved_line_is_ascii_and_one_line(step: Step) -> None:
    line = dump_step(step)
    assert line.isascii() and "\n" not in line and "\x00" not in line
    assert load_step(line) == step
    assert dump_step(load_step(line)) == line


@pytest.mark.parametrize(
    ("change", "says_what"),
    [
        ({"type": "dream"}, "'dream' is not one of"),
        ({"task": 7}, "TaskStep.task must be"),
        ({"colour": "red"}, "colour"),
        ({"timestamp": "yesterday"}, "ISO 8601"),
        ({"id": ""}, "id must be a string"),
        ({"overlay": 7}, "overlay a list"),
        ({"timestamp": "9999-12-31T23:59:59-12:00"}, "years 1 to 9999"),
    ],
)
def test_a_damaged_record_is_refused_and_the_field_named(change: dict[str, Any], says_what: str) -> None:
    with pytest.raises(StepError, match=says_what):
        Step.from_dict({**TaskStep("Ship it").to_dict(), **change})


@pytest.mark.parametrize("version", [None, FORMAT + 1])
def test_a_record_of_another_format_says_so(version: object) -> None:
    with pytest.raises(FormatError, match="upgrade tinymem"):
        Step.from_dict({**TaskStep("t").to_dict(), "format": version})


@pytest.mark.parametrize("line", ["[" * 100_000, "7", '{"format": 1}'])
def test_a_damaged_line_is_refused(line: str) -> None:
    with pytest.raises(StepError):
        load_step(line)


def test_what_is_not_json_is_refused_when_it_is_saved() -> None:
    for value in (object(), {1, 2}, b"bytes"):
        with pytest.raises(TinymemError, match="cannot be saved"):
            dump_step(MessageStep("user", "x", metadata={"value": value}))
