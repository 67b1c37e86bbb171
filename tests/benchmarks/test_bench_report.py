"""The report: what stages are worth, curves, explanations; on haystacks made here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_benchmarks import agent_run, conversation

from benchmarks.fitting.evidence import Candidates
from benchmarks.harness.data import read_haystacks
from benchmarks.harness.methods import Setup
from benchmarks.recall import ablation
from benchmarks.recall import run as recall
from benchmarks.recall.variants import FULL, VARIANTS, Variant, constants
from tinymem.recall.fusion import load_weights


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two conversations and two agent runs."""
    path = tmp_path_factory.mktemp("report") / "made.jsonl"
    made = [one | {"id": f"{one['id']}{i}"} for i in range(2) for one in (conversation(), agent_run())]
    path.write_text("".join(json.dumps(one) + "\n" for one in made), encoding="utf-8")
    return path


# -- ablation ---------------------------------------------------------------------------------------------------------


def test_with_all_stages_it_measures_what_recall_gives(data: Path, tmp_path: Path) -> None:
    variants = {FULL: Variant(fusion=load_weights())}
    for haystack in list(read_haystacks(data))[:2]:
        method = Candidates(Setup(tmp_path / haystack.id, store="exact", agent_run=haystack.is_agent_run))
        for query in haystack.queries:
            method.add(haystack.units[len(method.units) : query.cutoff])
            for name, budget, found in ablation.recalled(query, method, variants, (128, 512)):
                assert name == FULL and found == method.recall(query.question, budget)
        method.close()


@pytest.fixture(scope="module")
def ablated(data: Path) -> Path:
    """A results file of three variants."""
    out = data.with_name("ablation.json")
    chosen = {name: VARIANTS[name] for name in (FULL, "no dates", "cosine + BM25, nothing fitted")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablation, "VARIANTS", chosen)
        ablation.main(["--data", str(data), "--out", str(out), "--budgets", "64,512"])
    return out


def test_figures_are_means_over_held_out_and_all_haystacks(ablated: Path, data: Path) -> None:
    record = json.loads(ablated.read_text(encoding="utf-8"))
    assert (record["budgets"], record["trained_on"]) == ([64, 512], ["made.jsonl"])
    (made,) = record["sets"]
    assert (made["haystacks"], made["queries"]) == (
        4,
        {"held_out": 4, "all": 10},
    )  # without adversarial ones
    full = made["figures"][FULL]
    assert full["512"] == {"held_out": [1.0, 0.0], "all": [1.0, 0.0]} and full["64"]["all"][0] < 1
    assert str(data.parent) not in ablated.read_text(encoding="utf-8")


# -- explanations -----------------------------------------------------------------------------------------------------


def explained(capsys: pytest.CaptureFixture[str], data: Path, asked: str, budget: int) -> str:
    recall.main(["--explain", asked, "--data", str(data), "--budgets", str(budget)])
    return capsys.readouterr().out


def test_evidence_that_came_back_is_shown_with_rank_and_reasons(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, data, "parrot", 512)
    assert text.startswith("talk0, query parrot (single): Which parrot did Clara adopt?\n90 units, 92 passages")
    assert "recall 1.000" in text and "u4  Ben: My sister Clara" in text and "(1 of 1 passages chosen)" in text
    evidence = text.partition("evidence:")[2].partition("chosen, best first:")[0]
    assert re.search(r"#5\.0 \[0:\d+\], rank 1, score [+-]\d+\.\d\d, \d+ tokens: chosen; \w+ \+\d", evidence)
    again = explained(capsys, data, "WHICH PARROT did", 512)  # the fence's tokens differ from memory to memory
    assert evidence in again


def test_evidence_that_was_missed_says_why(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, data, "parrot", 40)
    assert "recall 0.000" in text and "did not fit what was left" in text
    text = explained(capsys, data, "both", 64)
    assert "recall 0.500" in text and "ranked below the budget, which was full at rank 1" in text
    nobody = {"tinymem.recall.candidates.EVERYTHING": 0, "tinymem.recall.candidates.NEAREST": 1}
    with constants({**nobody, "tinymem.recall.candidates.AROUND": 0}):
        assert "tokens: not a candidate" in explained(capsys, data, "both", 512)
