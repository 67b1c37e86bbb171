"""benchmarks.speed end to end, small; what it writes, and the table that is made of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import child_environment

from benchmarks.harness.summary import read_summary
from benchmarks.speed import endurance, stages
from benchmarks.speed import run as speed
from benchmarks.speed.steps import steps_from
from tinymem import HierarchicalMemory

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=child_environment(), check=False)


class Measured(NamedTuple):
    """Quick runs at 25 steps, and then at 40, whose build was stopped after 20."""

    path: Path
    printed: str
    first: dict[str, Any]  # the summary of the first run
    last: dict[str, Any]  # and of both


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("speed")
    out = folder / "speed.summary.json"
    done = run("benchmarks.speed", "--sizes", "25", "--quick", "--out", out)
    assert not done.returncode, done.stderr
    first = read_summary(out)
    with HierarchicalMemory(folder / "40" / "memory") as memory:
        memory.add_steps(list(steps_from(None, 20)))
        memory.flush()
    (folder / "40" / "chunks.jsonl").write_text("[1.5, 1.0, 20, 20]\n", encoding="utf-8")
    done = run("benchmarks.speed", "--sizes", "40", "--quick", "--out", out, "--folder", folder)
    assert not done.returncode, done.stderr
    return Measured(out, done.stdout, first, read_summary(out))


@pytest.mark.slow
def test_a_quick_run_measures_everything(measured: Measured) -> None:
    record = measured.last
    assert record["benchmark"] == "speed"
    assert record["effort"] == "quick"
    assert record["data"] == "made"
    assert [one["size"] for one in record["sizes"]] == [25, 40]
    for one in record["sizes"]:
        assert one["steps"] == one["size"] + 5 + 2  # and those that were added singly, and before contexts
        assert one["passages"] > one["steps"]
        assert len(one["archive"]["ratios"]) == 2  # chunks of 20 steps
        for name in ("add", "chroma_add", "context", "recall", "chroma_query"):
            assert 0 < one[name]["p50"] <= one[name]["p95"] <= one[name]["max"]
        assert all(one["opened"][name] > 0 for name in ("open", "first_recall", "first_context"))
        assert one["opened"]["reading"] > 50
        assert 0 < one["disk_mib"]["journal"] <= one["disk_mib"]["memory"]  # rounded to tenths
    assert set(record["starts_ms"]) == set(speed.STARTS)
    assert all(len(one["load"]) == 2 for one in record["sizes"])


@pytest.mark.slow
def test_a_build_goes_on_where_it_was_stopped_and_other_sizes_keep_their_figures(measured: Measured) -> None:
    other, continued = measured.last["sizes"]
    assert [other] == measured.first["sizes"]
    assert continued["archive"]["ratios"][0] == round(1.0 / 1.5, 4)  # of the chunk before the stop


def test_every_stage_is_timed_and_left_as_it_was() -> None:
    before = HierarchicalMemory.recall
    found = stages.profile(300, 2)
    assert {*found} == {"context", "recall"}
    assert all(found["context"][stage] for stage in stages.STAGES)
    assert HierarchicalMemory.recall is before
    assert len(stages.table({300: found}).splitlines()) == len(stages.STAGES) + 3


@pytest.mark.parametrize(
    ("what", "points"), [(["month", "--adds", "20", "--contexts", "10"], 10), (["namespaces", "--count", "2"], 3)]
)
def test_endurance_measures_private_memory_on_the_way(tmp_path: Path, what: list[str], points: int) -> None:
    out = tmp_path / "endurance.summary.json"
    endurance.main([*what, "--steps", "3", "--out", str(out)])
    record = read_summary(out)
    assert record["benchmark"] == what[0]
    assert len(record["points"]) == points
    assert all(point["private_mib"] > 1 for point in record["points"])
