"""The demo that people see first, and the recorder that made its run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tinymem import ActionStep
from tinymem.cli.demo import BUDGET, QUESTIONS, RECORDING, run_demo
from tinymem.runs.readers import read_runs

recorder = pytest.importorskip("benchmarks.demo.record", reason="benchmarks/ is not in the wheel")


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDING.read_text(encoding="utf-8").splitlines()]


# -- the recording


def test_recording_names_no_machine(recorded: list[dict[str, Any]]) -> None:
    text = json.dumps(recorded)
    assert recorder.leaks(text) == []
    for path in ("/tmp/", "/home/", "/root", "/work", "site-packages"):
        assert path not in text


# -- the demo


def test_every_answer_comes_back_and_none_is_in_the_window() -> None:
    report = run_demo()
    assert report.answered == len(QUESTIONS) and not any(one.in_window for one in report.asked)
    assert all(one.tokens <= BUDGET for one in report.asked) and report.window_tokens <= 2_000
    (run,) = read_runs(RECORDING)
    for one in report.asked:
        assert one.step is not None
        step = run.steps[one.step - 1]
        assert isinstance(step, ActionStep) and one.answer in step.text
        assert f"step {one.step}: " in report.text() and one.answer in one.shown
