"""Dumps of frameworks, as their own functions write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tinymem import ActionStep, SystemPromptStep
from tinymem.runs.readers import read_runs

LOOKING = [{"type": "text", "text": "Looking."}, {"type": "tool_use", "id": "t1"}]
CALL = {"name": "scan", "args": {"host": "h"}, "id": "t1", "type": "tool_call"}
FIELDS: list[dict[str, Any]] = [
    {"type": "system", "content": "Be brief."},
    {"type": "human", "content": "Which port?", "name": None, "id": None},
    {"type": "ai", "content": LOOKING, "tool_calls": [CALL]},
    {"type": "tool", "content": "port 8443 is open", "tool_call_id": "t1", "status": "success"},
    {"type": "ai", "content": "8443.", "tool_calls": []},
]
BY_DICT = [{"type": fields["type"], "data": fields} for fields in FIELDS]
BY_LOAD = [{"lc": 1, "type": "constructor", "id": ["langchain", "schema"], "kwargs": fields} for fields in FIELDS]


def action(number: int, name: str, arguments: Any, seen: str, **more: Any) -> dict[str, Any]:
    """A step of smolagents."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
    timing = {"start_time": 1_772_366_400.0 + number, "end_time": None, "duration": None}
    return {"step_number": number, "timing": timing, "tool_calls": [call], "error": None, "model_output": "Looking.",
            "observations": seen, "action_output": None, "is_final_answer": False, **more}  # fmt: skip


SMOLAGENTS = [
    {"system_prompt": "Be brief."},
    {"task": "Which port?", "task_images": None},
    action(1, "scan", {"host": "h"}, "port 8443 is open"),
    action(2, "python_interpreter", "1/0", "", error={"type": "AgentExecutionError", "message": "division by zero"}),
    action(3, "final_answer", {"answer": "8443."}, "8443."),
]


def write(path: Path, value: Any, indent: int | None) -> Path:
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("dump", [BY_DICT, BY_LOAD])
def test_messages_of_langchain(tmp_path: Path, dump: list[Any], indent: int | None) -> None:
    (run,) = read_runs(write(tmp_path / "run.json", dump, indent))
    prompt, asked, call, answer = run.steps
    assert isinstance(prompt, SystemPromptStep) and asked.text == "Which port?" and answer.text == "8443."
    assert isinstance(call, ActionStep) and call.tool_calls[0].name == "scan"
    assert "Looking." in call.text and "port 8443 is open" in call.text and run.skipped == {}


def test_steps_of_smolagents(tmp_path: Path) -> None:
    (run,) = read_runs(write(tmp_path / "run.json", SMOLAGENTS, None))
    prompt, asked, call, failed, last = run.steps
    assert isinstance(prompt, SystemPromptStep) and asked.text == "Which port?"
    assert "port 8443 is open" in call.text and "division by zero" in failed.text and "8443." in last.text
    assert call.timestamp.isoformat() == "2026-03-01T12:00:01+00:00"


def test_entries_of_other_kinds_are_counted(tmp_path: Path) -> None:
    remove = {"type": "remove", "data": {"type": "remove", "content": ""}}
    (run,) = read_runs(write(tmp_path / "run.json", [*BY_DICT, remove, 7], None))
    assert len(list(run.steps)) == 4 and run.skipped == {"type remove": 1, "type int": 1}
    (run,) = read_runs(write(tmp_path / "run.json", [*SMOLAGENTS, {"hologram": 1}], None))
    assert len(list(run.steps)) == 5 and run.skipped == {"step hologram": 1}


def test_what_the_frameworks_write_is_read(tmp_path: Path) -> None:
    messages = pytest.importorskip("langchain_core.messages")
    said = [messages.HumanMessage("Which port?"), messages.AIMessage("8443.")]
    (run,) = read_runs(write(tmp_path / "run.json", messages.messages_to_dict(said), None))
    assert [step.text for step in run.steps] == ["Which port?", "8443."]
