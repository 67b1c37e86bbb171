"""benchmarks.speed.fit: what it measures of a known history, and its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.speed.fit import main


@pytest.mark.slow
def test_fit_is_measured_in_all_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "fit.summary.json"
    main(["--sizes", "40", "--asks", "3", "--out", str(out)])
    (record,) = json.loads(out.read_text("utf-8"))["sizes"]
    assert record["messages"] <= 40 and record["context"] > 0
    assert all(record[what].keys() == {"openai", "responses", "anthropic"} for what in ("fit", "grown"))
    assert capsys.readouterr().out.count("\n| ") == 4
