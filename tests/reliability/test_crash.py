"""Processes that are killed, or end without closing: whatever `add` returned for is there, once, and is found."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from memories import printed

from tinymem import HierarchicalMemory

KILLING = "import sys; from benchmarks.reliability.crash import main; main(sys.argv[1:])"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_process_loses_nothing_that_was_added(tmp_path: Path) -> None:
    """The slow run kills many more, at every operation: see test_bench_crash.py."""
    told = printed(KILLING, "--kills", 8, "--only", "add", "--only", "prune", "--out", tmp_path / "crash.summary.json")
    assert "8 of 8 kills survived" in told


ENDING = """
import os, sys
from tinymem import HierarchicalMemory, MessageStep
memory = HierarchicalMemory(sys.argv[1])
memory.add(MessageStep("user", "The ladder is behind the shed."))
if sys.argv[2] == "hard":
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["soft", "hard"])
def test_a_process_that_ends_without_closing_loses_nothing_and_says_nothing(tmp_path: Path, how: str) -> None:
    assert printed(ENDING, tmp_path, how) == ""
    with HierarchicalMemory(tmp_path) as memory:
        assert "behind the shed" in memory.recall("ladder", 100).text
