"""benchmarks.reliability.forgetting, benchmarks.reliability.fuzz and the tables of what a memory survives."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from memories import sqlite

from benchmarks.harness.summary import read_summary
from benchmarks.reliability import forgetting, fuzz
from tinymem import HierarchicalMemory


def run(out: Path) -> dict[str, Any]:
    forgetting.main(["--steps", "60", "--secrets", "5", "--out", str(out)])
    return read_summary(out)


@pytest.mark.slow
def test_nothing_is_found_of_what_was_forgotten_in_any_way(tmp_path: Path) -> None:
    ways = run(tmp_path / "out.summary.json")["ways"]
    assert list(ways) == list(forgetting.WAYS)
    assert all(way["found_before"] == way["needles"] > 40 and way["found_after"] == 0 for way in ways.values())
    notes = 2 * 4_096  # pages of the journal, for what it notes of what is gone
    assert all(way["bytes_before"] + notes >= way["bytes_after"] > 0 and way["steps"] == 5 for way in ways.values())


@pytest.mark.slow
def test_what_is_left_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def drop(memory: HierarchicalMemory, ids: list[str]) -> None:
        sqlite(memory.long_term.journal).read("DELETE FROM steps WHERE session = ?", (forgetting.SESSION,))

    monkeypatch.setattr(forgetting, "WAYS", {"by a statement": drop})
    with pytest.raises(SystemExit, match="something was left"):
        run(tmp_path / "out.summary.json")
    assert read_summary(tmp_path / "out.summary.json")["ways"]["by a statement"]["found_after"] > 20


def test_every_target_is_fuzzed() -> None:
    from fuzz.targets import TARGETS

    assert fuzz.targets() == list(TARGETS)


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
def test_a_target_is_fuzzed_and_counted(tmp_path: Path) -> None:
    out = tmp_path / "out.summary.json"
    fuzz.main(["--seconds", "2", "--only", "step", "--out", str(out)])
    assert read_summary(out)["targets"]["step"]["cases"] > 100
