"""The demo that people see first, and the recorder that made its run."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tinymem import ActionStep, HierarchicalMemory
from tinymem.cli.demo import BUDGET, QUESTIONS, RECORDING, Report, run_demo
from tinymem.errors import InputError
from tinymem.messages.tokens import count_tokens, default_counter
from tinymem.messages.validity import problems
from tinymem.runs.readers import read_runs
from tinymem.steps.content import as_text

recorder = pytest.importorskip("benchmarks.demo.record", reason="benchmarks/ is not in the wheel")
unix = pytest.mark.skipif(shutil.which("bash") is None, reason="the recording is made with bash")


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDING.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def report() -> Report:
    return run_demo(store="exact")


# -- the recording


def test_recording_is_a_long_valid_run(recorded: list[dict[str, Any]]) -> None:
    calls = [message for message in recorded if message.get("tool_calls")]
    assert 170 <= len(calls) <= 220
    assert problems(recorded) == []
    assert 25_000 <= count_tokens(recorded, default_counter()) <= 60_000
    assert RECORDING.stat().st_size < 300_000


def test_recording_is_of_the_script_as_it_stands(recorded: list[dict[str, Any]]) -> None:
    """Whoever changes the script has to record again: python -m benchmarks.demo.record"""
    said = [(m["role"], m["content"]) for m in recorded[2:] if m["role"] != "tool"]
    assert said == [(turn.role, turn.said) for turn in recorder.script()]
    commands = [
        json.loads(m["tool_calls"][0]["function"]["arguments"])["command"] for m in recorded if "tool_calls" in m
    ]
    assert commands == [turn.command for turn in recorder.script() if turn.command]


def test_recording_names_no_machine(recorded: list[dict[str, Any]]) -> None:
    text = json.dumps(recorded)
    assert recorder.leaks(text) == []
    for path in ("/tmp/", "/home/", "/root", "/work", "site-packages"):
        assert path not in text


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
def test_an_answer_stands_in_what_a_command_printed(recorded: list[dict[str, Any]], question: str, answer: str) -> None:
    """The questions are about observations, and do not give their answers away."""
    assert any(m["role"] == "tool" and answer in as_text(m["content"]) for m in recorded)
    assert answer not in question


@unix
def test_recorder_really_runs_its_first_steps(recorded: list[dict[str, Any]]) -> None:
    """The first ten steps print today what they printed then: material and commands are deterministic."""
    fresh = list(itertools.islice(recorder.record(recorder.script()), 22))
    versions = [at for at, message in enumerate(recorded) if "python 3" in as_text(message["content"])]
    for at, (now, then) in enumerate(zip(fresh, recorded, strict=False)):
        if at not in versions and "Traceback" not in str(then["content"]):  # what Python's version shows in
            assert now == then


# -- the demo


def test_every_answer_comes_back_and_none_is_in_the_window(report: Report) -> None:
    assert report.answered == len(QUESTIONS) and not any(one.in_window for one in report.asked)
    assert all(one.tokens <= BUDGET for one in report.asked) and report.window_tokens <= 2_000
    (run,) = read_runs(RECORDING)
    for one in report.asked:
        assert one.step is not None
        step = run.steps[one.step - 1]
        assert isinstance(step, ActionStep) and one.answer in step.text


def test_output_fits_eighty_columns(report: Report) -> None:
    text = report.text()
    assert max(map(len, text.splitlines())) <= 80
    for question, answer in QUESTIONS:
        assert question in text and answer in text
    assert f"{len(QUESTIONS)} of {len(QUESTIONS)} answers came back; the window alone held 0" in text


def test_an_answer_that_does_not_come_back_is_said(report: Report) -> None:
    lost = dataclasses.replace(report.asked[0], step=None, line="", in_window=True)
    text = dataclasses.replace(report, asked=(lost, *report.asked[1:])).text()
    assert "not recalled in" in text
    assert f"{len(QUESTIONS) - 1} of {len(QUESTIONS)} answers came back; the window alone held 1" in text


def test_the_memory_can_be_kept_and_is_not_mixed(tmp_path: Path) -> None:
    report = run_demo(tmp_path / "kept")
    with HierarchicalMemory(tmp_path / "kept", create=False) as memory:
        assert memory.stats().steps == report.steps
    with pytest.raises(InputError, match="choose a new folder"):
        run_demo(tmp_path / "kept")
