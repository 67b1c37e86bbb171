"""The benchmark of retention: end to end on haystacks made here, and its rules against cases worked out by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from test_benchmarks import agent_run, conversation

from benchmarks.harness.data import read_haystacks
from benchmarks.pruning import retention
from benchmarks.pruning.retention import WAYS, Tally, cases, note


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "made.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(haystack) + "\n" for haystack in (conversation(), agent_run()))
    return path


@pytest.fixture(scope="module")
def results(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results") / "retention.summary.json"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retention, "WINDOW", 200)
        retention.main(["--data", str(data), "--shares", "100,20", "--embedder", "hashing:64", "--out", str(out)])
    return out


def test_a_conversation_is_one_memory_and_a_run_one_for_each_cutoff(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "WINDOW", 200)
    talk, run = read_haystacks(data)
    (whole,) = cases(talk)
    assert len(whole.steps) == 90
    parrot, walnuts = (frozenset([whole.steps[at].id]) for at in (4, 7))
    assert whole.evidence == [parrot, walnuts, parrot | walnuts]
    assert whole.needles == []
    early, late = cases(run)
    assert len(early.steps) < len(late.steps) < len(run.units) / 2 + 1
    for one in (early, late):
        (holding,) = [step.id for step in one.steps if "tok-9f27ac31" in step.text]
        assert one.evidence == one.needles == [frozenset([holding])]


def test_evidence_counts_in_parts_and_a_needle_as_long_as_one_step_has_it() -> None:
    tally = Tally()
    note(tally, retention.Case([], [frozenset("ab"), frozenset("c")], [frozenset("ab"), frozenset("c")]), {"a", "c"})
    assert (tally.evidence, tally.needles) == ([0.5, 0], [1, 0])
    assert tally.record() == {"evidence": 0.25, "needles": 0.5}


def test_what_is_said_once_stays_among_small_talk(results: Path) -> None:
    record = json.loads(results.read_text("utf-8"))
    (one,) = record["sets"]
    assert (one["memories"], one["queries"], record["shares"]) == (3, 5, [20, 100])
    for kind in ("steps", "bytes"):
        figures = one["figures"][kind]
        assert list(figures) == list(WAYS)
        for by_share in figures.values():
            assert set(by_share["100"].values()) == {1}
        assert figures["oldest first"]["20"]["evidence"] < 0.1 < figures["random"]["20"]["evidence"]
        assert figures["tinymem"]["20"]["evidence"] >= figures["oldest first"]["20"]["evidence"]
