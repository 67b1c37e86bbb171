"""The benchmarks of reliability hold their promises: kills lose nothing, and of what was forgotten nothing is found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import child_environment

from benchmarks.harness.summary import read_summary
from benchmarks.reliability import forgetting
from benchmarks.reliability.crash_work import OPERATIONS


@pytest.mark.slow  # test_crash.py kills too
@pytest.mark.skipif(
    not (hasattr(os, "fork") and hasattr(signal, "SIGKILL")), reason="no fork or no SIGKILL on this system"
)
def test_kills_at_random_moments_of_every_operation_are_survived(tmp_path: Path) -> None:
    out = tmp_path / "crash.summary.json"
    command = [sys.executable, "-m", "benchmarks.reliability.crash", "--kills", "64", "--seed", "2", "--jobs", "4"]
    environment = child_environment(TMPDIR=str(tmp_path))
    done = subprocess.run([*command, "--out", str(out)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "64 of 64 kills survived" in done.stdout, done.stderr
    record = read_summary(out)
    assert {name: one["kills"] for name, one in record["operations"].items()} == dict.fromkeys(OPERATIONS, 4)
    assert record["survived"] == 64 and record["wrong"] == []
    assert sum(one["inside"] for one in record["operations"].values()) > 40


@pytest.mark.slow
def test_nothing_is_found_of_what_was_forgotten_in_any_way(tmp_path: Path) -> None:
    out = tmp_path / "out.summary.json"
    forgetting.main(["--steps", "60", "--secrets", "5", "--out", str(out)])
    ways = read_summary(out)["ways"]
    assert list(ways) == list(forgetting.WAYS)
    assert all(way["found_before"] == way["needles"] > 40 and way["found_after"] == 0 for way in ways.values())
    notes = 2 * 4_096  # pages of the journal, for what it notes of what is gone
    assert all(way["bytes_before"] + notes >= way["bytes_after"] > 0 and way["steps"] == 5 for way in ways.values())
