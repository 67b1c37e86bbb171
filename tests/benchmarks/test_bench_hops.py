"""benchmarks.speed.hops: what it counts of a call, and what it prints."""

from __future__ import annotations

import json

import pytest

from benchmarks.speed.hops import main, passage
from tinymem import HierarchicalMemory, MessageStep


def test_an_add_takes_the_lock_and_reads_the_version_once_for_the_step_and_once_to_prune(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--json"])
    added = json.loads(capsys.readouterr().out)["add"]
    assert (added["locks"], added["version_reads"]) == (2, 2)


def test_a_recall_reads_the_version_once_and_a_context_once_for_the_window_and_once_for_the_passages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["recall"]["version_reads"] == 1
    assert found["context"]["version_reads"] <= 2


def test_only_calls_of_another_file_are_hops() -> None:
    with HierarchicalMemory(embedder="hashing", store="exact") as memory:
        closed = passage(lambda: memory.closed)
        added = passage(lambda: memory.add(MessageStep("user", "Hello.")))
    assert (closed.calls, closed.hops, closed.files) == (1, 0, 1)
    assert 0 < added.hops < added.calls
