"""benchmarks.speed.embedders end to end, small; what it writes, and the tables that are made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_speed import ROOT, run

from benchmarks.harness.summary import read_summary


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A quick run of two embedders: its figures, and what it printed."""
    out = tmp_path_factory.mktemp("embedders") / "embedders.json"
    done = run(
        "benchmarks.speed.embedders", "--embedders", "static,hashing:64", "--quick", "--turns", "2", "--out", out
    )
    assert not done.returncode, done.stderr
    return out, done.stdout


def test_a_quick_run_measures_everything(measured: tuple[Path, str]) -> None:
    record = read_summary(measured[0])
    assert (record["benchmark"], record["effort"], record["passages"]) == ("embedders", "quick", 256)
    assert record["turns"] == 2
    assert 200 < record["characters"] < 500
    assert len(record["load"]) == 2
    assert [one["embedder"] for one in record["embedders"]] == ["static", "hashing:64"]
    assert [one["dimensions"] for one in record["embedders"]] == [256, 64]
    for one in record["embedders"]:
        assert one["first_vector_seconds"] > 0
        assert one["passages_per_second"] > 1
        assert 0 < one["question_ms"]["p50"] <= one["question_ms"]["p95"]
        assert 10 < one["resident_mib"]["loaded"] <= one["resident_mib"]["used"]
    static, hashing = record["embedders"]
    assert static["resident_mib"]["loaded"] > hashing["resident_mib"]["loaded"] + 20  # its table


def test_the_figures_name_no_path_of_the_machine(measured: tuple[Path, str]) -> None:
    text = measured[0].read_text(encoding="utf-8")
    assert str(Path.home()) not in text
    assert str(ROOT) not in text
    assert "/tmp" not in text
