"""The set of look-ups: the same for a seed, and what a memory finds in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.recall import lookups, run


def test_a_memory_finds_what_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lookups.main(["--out", str(tmp_path / "lookups.jsonl"), "--seed", "11", "--lookups", "48"])
    run.main(["--data", str(tmp_path / "lookups.jsonl"), "--budgets", "256", "--store", "exact"])
    found = re.search(r"recall@256 ([\d.]+)", capsys.readouterr().out)
    assert found is not None and float(found[1]) > 0.95
