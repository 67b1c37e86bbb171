"""Every shape that runs are recorded in, whole and damaged."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tinymem import ActionStep, HierarchicalMemory, MessageStep, Step, SystemPromptStep, TaskStep
from tinymem.errors import InputError
from tinymem.messages import messages_from_steps
from tinymem.runs.readers import APART, read_runs

Write = Callable[..., Path]


def call(name: str, text: str = "", **beside: Any) -> list[dict[str, Any]]:
    """An assistant's turn with one tool call, and its result."""
    made = {"id": name, "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    return [
        {"role": "assistant", "content": f"calling {name}", "tool_calls": [made], **beside},
        {"role": "tool", "tool_call_id": name, "content": text or f"result of {name}"},
    ]


RUN = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Fix it."},
    *call("c1"),
    {"role": "assistant", "content": "Done."},
]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file of lines (JSON unless they are text) and says where it is."""

    def writing(*lines: Any, name: str = "run.jsonl", end: str = "\n") -> Path:
        path = tmp_path / name
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end
        data = text.encode("utf-8")
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return writing


def read(path: Path) -> list[list[Step]]:
    return [run.steps for run in read_runs(path)]


def messages(steps: list[Step]) -> list[dict[str, Any]]:
    return messages_from_steps(steps)


def fails(path: Path) -> tuple[list[Step], str]:
    """What was read before the damage, and what was said about it."""
    before: list[Step] = []
    with pytest.raises(InputError) as caught:
        for run in read_runs(path):
            before += run.steps
    assert not open_files(path)
    return before, str(caught.value)


def open_files(path: Path) -> list[str]:
    """The open descriptors of a file, where the system lists them."""
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        return []
    return [entry.name for entry in descriptors.iterdir() if os.path.realpath(entry) == str(path)]


# -- shapes


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
@pytest.mark.parametrize(
    "lines", [[json.dumps(RUN)], [json.dumps(RUN, indent=2)], ["\ufeff", *RUN[:2], "", *RUN[2:], ""]]
)
def test_messages_in_a_list_or_a_line_each(write: Write, name: str, lines: list[Any]) -> None:
    (steps,) = read(write(*lines, name=name))
    assert messages(steps) == RUN
    assert [type(step) for step in steps] == [SystemPromptStep, TaskStep, ActionStep, MessageStep]
    assert {step.session for step in steps} == {f"{name}#1"}


@pytest.mark.parametrize("key", [None, "messages", "traj"])
def test_a_run_a_line(write: Write, key: str | None) -> None:
    lines = [run if key is None else {key: run, "reward": 1} for run in (RUN, RUN[1:])]
    first, second = read(write(*lines))
    assert (messages(first), messages(second)) == (RUN, RUN[1:])
    assert {s.session for s in first}.isdisjoint(s.session for s in second)  # the same call id occurs in both


def test_mini_swe_agent_trajectory(write: Write) -> None:
    parts = [{"type": "text", "text": "Solve this."}]
    kept = [RUN[0], {"role": "user", "content": parts}, {"role": "assistant", "content": "Look.\n```bash\nls\n```"}]
    noise = [{**message, "extra": {"response": {"id": 1}, "timestamp": 1_700_000_000.5}} for message in kept]
    end = {"role": "exit", "content": "Submitted", "extra": {"exit_status": "Submitted"}}
    whole = {"messages": [*noise, end], "info": {"cost": 1}, "trajectory_format": "mini-swe-agent-1.1"}
    (steps,) = read(write(json.dumps(whole, indent=1), name="a.traj.json"))
    assert messages(steps) == [*kept, {"role": "user", "content": "Submitted"}]
    assert steps[0].timestamp == datetime.fromtimestamp(1_700_000_000.5, timezone.utc)


def test_a_long_run_is_one_run(write: Write) -> None:
    """Only its first user message is the task, and calls keep their results, however late."""
    asked, result = call("late")
    turns = [m for at in range(90) for m in [*call(f"c{at}"), {"role": "user", "content": f"go on {at}\ud800\0"}]]
    run = [*RUN[:2], asked, *turns, result]
    (steps,) = read(write(*run))
    assert messages(steps) == run
    assert sum(isinstance(step, TaskStep) for step in steps) == 1
    calls = [step.tool_calls[0] for step in steps if isinstance(step, ActionStep)]
    assert all(call.answered for call in calls)


def test_what_has_no_time_says_so_and_not_when_it_came(write: Write) -> None:
    clocks = [None, "2026-01-02T09:00:00+09:00", None, "2026-01-03T10:00:00"]
    said = [
        {"role": "user", "content": f"The gate code is {at}.", "timestamp": clock} for at, clock in enumerate(clocks)
    ]
    with HierarchicalMemory(embedder="hashing:64", store="exact") as memory:
        for run in read_runs(write(*said)):
            memory.add_steps(run.steps)
        shown = str(memory.recall("gate code", min_relevance=0))
        days = [step.timestamp.isoformat() for step in memory.history()]
    assert [shown.count(day) for day in ("[undated]", "[2026-01-02]", "[2026-01-03]")] == [2, 1, 1]
    assert days == ["2026-01-02T00:00:00+00:00"] * 3 + ["2026-01-03T10:00:00+00:00"], "without a zone it is UTC"


# -- damage


AFTER = {"role": "user", "content": "after"}
SHAPES: dict[str, list[Any]] = {
    "messages": [*RUN, AFTER],
    "runs": [RUN, RUN, [AFTER]],
    "wrapped": [{"messages": RUN}, {"traj": RUN}, {"messages": [AFTER]}],
    "events": [
        {"type": "user", "uuid": f"u{at}", "sessionId": "s", "message": {"role": "user", "content": f"say {at}"}}
        for at in range(6)
    ],
    "log": [
        {"sessionId": "s", "projectHash": "p"},
        *({"id": f"m{at}", "type": "user", "content": f"say {at}"} for at in range(5)),
    ],
}
DAMAGE = {
    "cut": b'{"role": "user", "cont', "nul": b"\0" * 600, "no text": b'{"role": "caf\xe9"}', "deep": b"[" * 100_000,
    "null": b"null",
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("at", [0, 2])
def test_a_damaged_line_costs_that_line(tmp_path: Path, shape: str, damage: str, at: int) -> None:
    lines = [json.dumps(line).encode() for line in SHAPES[shape]]
    file, whole = tmp_path / "run.jsonl", tmp_path / "whole" / "run.jsonl"
    whole.parent.mkdir()
    whole.write_bytes(b"\n".join(lines))
    file.write_bytes(b"\n".join([*lines[:at], DAMAGE[damage], *lines[at:]]))
    runs = [*read_runs(file, left_out=(left_out := Counter[str]()))]
    assert [messages(run.steps) for run in runs] == [messages(steps) for steps in read(whole)]
    assert left_out == {f"damaged line {at + 1}": 1}


def test_objects_that_were_written_onto_one_line_are_read_as_far_as_they_are_whole(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    first, *rest = map(json.dumps, SHAPES["events"])
    file.write_text(f"{first}\n{rest[0]}{rest[1]}{rest[2][:40]}\n\0\0{rest[3]}\n", "utf-8")
    (run,) = read_runs(file, left_out=(left_out := Counter[str]()))
    assert [step.text for step in run.steps] == ["say 0", "say 1", "say 2", "say 4"]
    assert left_out == {"damaged line 2": 1, "damaged line 3": 1}


@pytest.mark.parametrize(
    "bad",
    [
        {"role": "robot", "content": "?"},
        {"role": "assistant", "tool_calls": [{"id": "x"}]},
        {"text": "?"},
    ],
)
@pytest.mark.parametrize("shape", ["lines", "list"])
def test_a_malformed_message_costs_that_message(write: Write, bad: dict[str, Any], shape: str) -> None:
    lines = [*RUN, bad, AFTER]
    (run,) = read_runs(write(*lines) if shape == "lines" else write(lines), left_out=(left_out := Counter[str]()))
    assert messages(run.steps) == [*RUN, AFTER]
    assert left_out == {"damaged line 6" if shape == "lines" else "damaged message 5": 1}


@pytest.mark.parametrize(
    ("clock", "time"),
    [
        *((clock, "2026-03-01T12:00:00+00:00") for clock in (
            1772366400, 1772366400000, 1772366400000000, 1772366400000000000, "1772366400", "1772366400000.0",
            "20260301120000", "2026-03-01T12:00:00.0000001Z", "2026-03-01 12:00:00 UTC", "2026-03-01T14:00:00+02:00",
        )),
        ("20260301", "2026-03-01T00:00:00+00:00"),
        (20260301, "2026-03-01T00:00:00+00:00"),
        *((clock, None) for clock in ("yesterday", "2026", 2026, 12.5, -1, True, "20261399", 1e300, 10**400)),
        ({}, None),
        ([], None),
    ],
)  # fmt: skip
def test_a_time_is_read_by_its_size_or_costs_itself_and_no_text(write: Write, clock: Any, time: str | None) -> None:
    clocks = [{**AFTER, "timestamp": clock}, {**AFTER, "created_at": 1e9}]
    (run,) = read_runs(write(clocks), left_out=(left_out := Counter[str]()))
    assert [step.text for step in run.steps] == ["after", "after"] and not left_out
    (step, _) = run.steps
    assert ("undated" in step.metadata, step.timestamp.isoformat()) == (
        time is None,
        time or "2001-09-09T01:46:40+00:00",
    )


def test_a_result_whose_call_is_not_there_is_kept_and_counted(write: Write) -> None:
    orphan = {"role": "tool", "tool_call_id": "c9", "content": "18 sheep"}
    (run,) = read_runs(write([*RUN, orphan, AFTER]), left_out=(left_out := Counter[str]()))
    assert run.steps[-2].to_messages(style="tools") == [orphan] and len(messages(run.steps)) == 7
    assert left_out == {APART: 1}


def test_cut_and_damaged_gzip(write: Write) -> None:
    path = write(*(RUN[1:2] * 5000), name="run.jsonl.gz")
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    before, said = fails(path)
    assert len(before) > 256 and "after line" in said and "gzip" in said
    path.write_bytes(data[:20] + b"\xff" * 10 + data[30:])
    assert "gzip" in fails(path)[1]


@pytest.mark.parametrize(
    ("data", "before", "said"),
    [
        (b"\x7fELF\0\x10\x00\xff\xfe" * 20, [], ["not valid JSON"]),
        (b'{"role": "user",\n "content": "caf\xe9"}\n', [], ["not valid JSON", "0xe9"]),
        (None, [], ["No such file"]),
    ],
)
def test_what_is_no_text(tmp_path: Path, data: bytes | None, before: list[str], said: list[str]) -> None:
    path = tmp_path / "run.jsonl"
    if data is not None:
        path.write_bytes(data)
    steps, error = fails(path)
    assert [step.text for step in steps] == before and all(text in error for text in said)
    assert "no export that is known" in fails(tmp_path)[1]


@pytest.mark.parametrize("text", ["", "[]", "7", '[{"a": 1}]'])
def test_wrong_shape(write: Write, text: str) -> None:
    before, said = fails(write(text, name="run.json"))
    assert before == []
    assert "run.json" in said


FORMATS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"role": "user", "content": [
            {"type": "document", "title": "vault.txt", "source": {"type": "text", "data": "the vault code is 8812"}},
            {"type": "text", "text": "Look."},
        ]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {"host": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "up"}]},
    ],
    "responses": [
        {"role": "user", "content": "the vault code is 8812"},
        {"type": "function_call", "call_id": "t1", "name": "look", "arguments": '{"host": "a"}'},
        {"type": "function_call_output", "call_id": "t1", "output": "up"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_runs_of_other_providers_are_read_by_their_shape(tmp_path: Path, format: str, lines: bool) -> None:
    said, path = FORMATS[format], tmp_path / "run.jsonl"
    text = "\n".join(map(json.dumps, said)) if lines else json.dumps(said)
    path.write_text(text, encoding="utf-8")
    (run,) = read_runs(path)
    steps = list(run.steps)
    assert [step.type for step in steps] == ["task", "action"]
    assert "the vault code is 8812" in steps[0].text
