"""`tinymem bench`: recall on recorded runs, of what the agent copied from far back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from commands import tinymem as tinymem  # the fixture

from tinymem.errors import InputError
from tinymem.runs.replays.benching import bench

CALLS = 40
SERVICES = "auth billing search export mail queue cache proxy audit report".split()  # noqa: SIM905


def session(path: Path) -> Path:
    """An agent that reads a configuration for each service, much else, and then needs ten of the keys again."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Rotate the keys of all services."}]

    def act(number: int, command: str, output: str) -> None:
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"c": command})},
        }
        messages.append({"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": output})

    for number, service in enumerate(SERVICES):
        act(number, f"cat {service}.env", f"The {service} service reads vault_key_{service}_{number}7 at its start.")
    for number in range(CALLS):
        act(100 + number, f"ls -l {number}", f"Nothing of interest in folder {number}. " + "All is well here. " * 60)
    for number, service in enumerate(SERVICES):
        act(200 + number, f"echo now the {service} service", f"Which key does the {service} service read at its start?")
        act(300 + number, f"rotate vault_key_{service}_{number}7", "done")
    path.write_text("".join(json.dumps(message) + "\n" for message in messages), encoding="utf-8")
    return path


def test_what_a_call_copied_from_far_back_comes_back(tmp_path: Path) -> None:
    heard: list[tuple[int, int | None]] = []
    found = bench([session(tmp_path / "run.jsonl")], budgets=[300, 1_000], progress=lambda *done: heard.append(done))
    assert (found.runs, found.questions, found.needles, found.budgets) == (1, 10, 10, (300, 1_000))
    assert found.shares["tinymem"] == [1, 1] and found.shares["newest"] == [0, 0] and found.shares["BM25"][1] == 1
    assert heard[-1] == (10, 10)


def test_the_command_prints_a_table(tmp_path: Path, tinymem: Run) -> None:
    file = session(tmp_path / "run.jsonl")
    done = tinymem("bench", str(file), "--budget", "300")
    assert done.status == 0 and "10 calls copied 10 identifiers and lines from 2,000 tokens back" in done.out
    assert "             300\ntinymem     1.00\n" in done.out and "newest      0.00\n" in done.out
    told = json.loads(tinymem("bench", str(file), "--budget", "300", "--json").out)
    assert told["needles"] == 10 and told["shares"]["tinymem"] == [1.0]
    price = f"{told['tokens']['tinymem'][0]:,.0f}"
    assert done.out.endswith("newest       inf\n") and f"tinymem {price:>8}\n" in done.out


def test_what_cannot_be_measured_is_said(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "user", "content": "Hello"}\n{"role": "assistant", "content": "Hi"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="no call in these runs copied anything"):
        bench([file])
    with pytest.raises(InputError, match="budgets"):
        bench([file], budgets=[0])
