"""benchmarks.speed.loop: what it measures of an event loop, and its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.speed.loop import main


@pytest.mark.slow
def test_all_loops_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "loop.summary.json"
    main(["--seconds", "0.5", "--tasks", "3", "--size", "30", "--out", str(out)])
    record = json.loads(out.read_text("utf-8"))
    assert [*record["stalls_ms"]] == ["before", "working", "beside", "blocked"] and record["tasks"] == 3
    assert all(0 <= one["p50"] <= one["p99"] <= one["max"] for one in record["stalls_ms"].values())
    assert capsys.readouterr().out.count("\n| ") == 5
