"""benchmarks.speed.hops: what it counts of a call, and what it prints."""

from __future__ import annotations

import json

import pytest

from benchmarks.speed.hops import main, passage
from tinymem import HierarchicalMemory, MessageStep


def test_the_lock_is_taken_and_the_version_read_once_for_each_thing_that_needs_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["add"]["locks"], found["add"]["version_reads"]) == (2, 2)  # for the step, and to prune
    assert found["recall"]["version_reads"] == 1
    assert found["context"]["version_reads"] <= 2  # for the window, and for the passages


def test_only_calls_of_another_file_are_hops() -> None:
    with HierarchicalMemory(embedder="hashing", store="exact") as memory:
        closed = passage(lambda: memory.closed)
        added = passage(lambda: memory.add(MessageStep("user", "Hello.")))
    assert (closed.calls, closed.hops, closed.files) == (1, 0, 1)
    assert 0 < added.hops < added.calls
