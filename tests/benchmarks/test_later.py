"""The share of failures that say what passed later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.recall import later


def test_failures_are_counted_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [("pytest a", "Exit code 1"), ("pytest b", "Exit code 1\n1 failed"), ("pytest a", "3 passed"), ("ls", "a b")]
    units: list[dict[str, object]] = []
    for place, (command, result) in enumerate(runs):
        call = {"id": f"c{place}", "name": "Bash", "arguments": json.dumps({"command": command})}
        units += [
            {"id": f"u{place}", "speaker": "assistant", "text": "", "tool_calls": [call]},
            {"id": f"r{place}", "speaker": "tool", "text": result, "tool_call_id": f"c{place}"},
        ]
    file = tmp_path / "runs.jsonl"
    file.write_text(json.dumps({"id": "run", "units": units, "queries": []}), encoding="utf-8")
    later.main(["--data", str(file), "--sample", "5"])
    printed = capsys.readouterr().out
    assert "| runs | 2 | 1 | 0.50 |" in printed and printed.count("[later: #3 pytest a passed]") == 1
