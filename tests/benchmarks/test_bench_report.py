"""The report: what stages are worth, curves, explanations; on haystacks made here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from test_benchmarks import agent_run, conversation

from benchmarks.fitting.evidence import Candidates
from benchmarks.harness.data import read_haystacks
from benchmarks.harness.methods import Setup
from benchmarks.harness.summary import read_summary
from benchmarks.recall import ablation, ablation_table, curves
from benchmarks.recall import run as recall
from benchmarks.recall.table import entries
from benchmarks.recall.variants import FULL, VARIANTS, Variant, constants
from tinymem.recall.fusion import published

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two conversations and two agent runs."""
    path = tmp_path_factory.mktemp("report") / "made.jsonl"
    made = [one | {"id": f"{one['id']}{i}"} for i in range(2) for one in (conversation(), agent_run())]
    path.write_text("".join(json.dumps(one) + "\n" for one in made), encoding="utf-8")
    return path


# -- ablation ---------------------------------------------------------------------------------------------------------


def test_with_all_stages_it_measures_what_recall_gives(data: Path, tmp_path: Path) -> None:
    variants = {FULL: Variant(fusion=published())}
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


def test_a_difference_has_its_standard_error() -> None:
    values = [{FULL: {9: [1.0, 0.0]}, "less": {9: [0.0, 0.0]}}, {FULL: {9: [1.0, 1.0]}, "less": {9: [1.0, 1.0]}}]
    assert ablation.figures(values, [9])["less"] == {"9": {"held_out": [1.0, 0.0], "all": [0.5, 0.216506]}}
    assert ablation.figures(values[:1], [9])["less"]["9"]["held_out"] == [0.0, 0.0]
    assert ablation_table.difference(-0.25, 0.1) == "**-0.250**"
    assert ablation_table.difference(-0.25, 0.216506) == "-0.250" and ablation_table.difference(0.0, 0.0) == "+0.000"


# -- curves -----------------------------------------------------------------------------------------------------------


def summary(method: str, adapter: str, name: str, **figures: float) -> str:
    by_budget = {budget.strip("b"): {"recall": value} for budget, value in figures.items()}
    sets = [{"data": f"{name}.jsonl.gz", "units": 10, "ingest_seconds": 1.0, "figures": by_budget}]
    return json.dumps({"format": 1, "method": method, "sets": sets} | ({"embedder": adapter} if adapter else {}))


def test_curves_have_a_panel_a_set_and_a_line_a_method(tmp_path: Path) -> None:
    made = {
        "a": summary("bm25", "", "locomo-dev", b512=0.5, b1024=1.0),
        "b": summary("tinymem", "static", "locomo-dev", b512=1.0, b1024=1.0),
        "c": summary("tinymem", "sentence-transformers:x/all-MiniLM-L6", "locomo-dev", b1024=0.25),
        "d": summary("tinymem", "hashing", "locomo-dev", b512=0.1, b1024=0.1),
        "e": summary("bm25", "", "another", b512=0.0, b1024=0.0),
    }
    for name, text in made.items():
        (tmp_path / f"{name}.summary.json").write_text(text, encoding="utf-8")
    rows = entries(read_summary(path) for path in sorted(tmp_path.glob("*.summary.json")))
    chart = curves.plot(rows, ["another", "locomo-dev"])
    assert [title for title, _ in chart.panels] == ["another", "locomo-dev"]
    assert dict(chart.panels[1][1]) == {
        "tinymem (static)": [1.0, 1.0], "tinymem (MiniLM)": [None, 0.25], "bm25": [0.5, 1.0],
    }  # fmt: skip
    given = ["--results", str(tmp_path), "--out", str(tmp_path)]
    with pytest.raises(SystemExit, match=r"curves\.svg"):
        curves.main([*given, "--check"])
    pytest.importorskip("matplotlib")
    curves.main([*given, "--write"])
    curves.main([*given, "--check"])
    texts = texts_in(tmp_path / "curves.svg")
    assert texts.count("another") == texts.count("locomo-dev") == 1
    assert texts.count("tinymem (static)") == 2 and "tinymem (hashing)" not in texts  # on the line, and in the legend
    assert "another" not in texts_in(tmp_path / "curve.svg")
    (tmp_path / "b.summary.json").write_text(made["b"].replace("1.0", "0.9"), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"curves\.svg"):
        curves.main([*given, "--check"])


def texts_in(drawn: Path) -> list[str]:
    found = ElementTree.fromstring(drawn.read_text("utf-8")).iter(f"{SVG}text")
    return [text.text for text in found if text.text]


# -- explanations -----------------------------------------------------------------------------------------------------


def explained(capsys: pytest.CaptureFixture[str], data: Path, asked: str, budget: int) -> str:
    recall.main(["--explain", asked, "--data", str(data), "--budgets", str(budget)])
    return capsys.readouterr().out


def test_evidence_that_came_back_is_shown_with_rank_and_reasons(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, data, "parrot", 512)
    assert text.startswith("talk0, query parrot (single): Which parrot did Clara adopt?\n90 units, 93 passages")
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
