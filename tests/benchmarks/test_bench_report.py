"""The report: what stages are worth, curves, explanations; on haystacks made here."""

from __future__ import annotations

import doctest
import json
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from test_benchmarks import agent_run, conversation

import benchmarks.harness.chart
from benchmarks.fitting.evidence import UNFITTED, Candidates
from benchmarks.harness.chart import GAP, merged, spread
from benchmarks.harness.data import read_haystacks
from benchmarks.harness.methods import Setup
from benchmarks.harness.summary import read_summary
from benchmarks.recall import ablation, ablation_table, curves
from benchmarks.recall import run as recall
from benchmarks.recall import table as recall_table
from benchmarks.recall.table import entries
from benchmarks.recall.variants import FULL, VARIANTS, Variant, by_making, constants
from tinymem.recall import Recall, passages
from tinymem.recall import relevance as scoring
from tinymem.recall.features import NAMES
from tinymem.recall.fusion import Scored, published

TWICE = "passages of twice the length"
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


def test_every_variant_names_what_there_is_and_leaves_the_library_as_it_was() -> None:
    before = scoring.PRICE, passages.cut
    for name, variant in VARIANTS.items():
        assert set(variant.without) <= set(NAMES)
        assert (name == FULL) == (variant == Variant())
        with constants({**variant.ranking, **variant.asking, **variant.making}):  # AttributeError if it is not there
            assert (before != (scoring.PRICE, passages.cut)) == bool(variant.ranking or variant.making)
        assert before == (scoring.PRICE, passages.cut)
    assert [len(group) for _, group in by_making(VARIANTS)] == [len(VARIANTS) - 2, 1, 1]


def test_weights_are_fitted_without_the_features_and_shared_where_they_are_the_same(data: Path) -> None:
    kept = "near-duplicates stay (diversity 0)"
    chosen = {name: VARIANTS[name] for name in (FULL, "no BM25", kept, "whole texts, no passages")}
    chosen["unfitted"] = Variant(fusion=UNFITTED)
    fitted = ablation.with_weights(chosen, [data], map)
    assert list(fitted) == list(chosen)
    weights = {name: variant.fusion.weights for name, variant in fitted.items() if variant.fusion}
    lexical = ["bm25" in name for name in NAMES]
    assert weights[FULL][:, lexical].any() and not weights["no BM25"][:, lexical].any() and weights["no BM25"].any()
    assert weights[kept] is weights[FULL] and weights["unfitted"] is UNFITTED.weights
    assert (weights["whole texts, no passages"] != weights[FULL]).any()


def test_what_is_switched_off_is_off(data: Path) -> None:
    talk = next(read_haystacks(data))
    chosen = {name: VARIANTS[name] for name in (FULL, "whole texts, no passages", "diversity 0.4", TWICE)}
    chosen = {name: replace(variant, fusion=published()) for name, variant in chosen.items()}
    seen: Counter[str] = Counter()
    real = Candidates.packed

    def packed(self: Candidates, scored: Scored, budget: int, diversity: float) -> Recall:
        seen[f"{len(scored.catalog)} passages, diversity {diversity}"] += 1
        return real(self, scored, budget, diversity)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Candidates, "packed", packed)
        ablation.measured(talk, chosen, (128,))
    assert seen == {  # the long story in four, whole, or in two
        "93 passages, diversity 0.1": 3,
        "93 passages, diversity 0.4": 3,
        "90 passages, diversity 0.1": 3,
        "91 passages, diversity 0.1": 3,
    }


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


def test_its_tables_are_written_and_checked(ablated: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n{}\nstale\n{}\nafter\n".format(*ablation_table.MARKS), encoding="utf-8")
    given = ["--results", str(ablated), "--page", str(readme)]
    with pytest.raises(SystemExit, match="run with --write"):
        ablation_table.main([*given, "--check"])
    ablation_table.main([*given, "--write"])
    ablation_table.main([*given, "--check"])
    text = readme.read_text(encoding="utf-8")
    assert "| @64, @512 | made (4) | mean |" in text and "| @64, @512 | made (10) | mean |" in text
    assert len(re.findall(r"^\| no dates \| \S+, \+0\.000 \|", text, re.MULTILINE)) == 2
    ablated.with_name("other.json").write_text("{}", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"other\.json"):
        ablation_table.main(["--results", str(ablated.with_name("other.json"))])


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


def test_results_of_ones_own_are_drawn_beside_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    for method in ("tinymem", "bm25"):
        text = summary(method, "static" * (method == "tinymem"), "mine", b512=0.5, b1024=0.7)
        (tmp_path / f"mine.{method}.summary.json").write_text(text, encoding="utf-8")
    recall.main(["--plot", *(str(tmp_path / f"mine.{method}.jsonl") for method in ("tinymem", "bm25"))])
    assert capsys.readouterr().out == f"{tmp_path / 'mine.tinymem.svg'}\n"
    assert "tinymem (static), bm25" in texts_in(tmp_path / "mine.tinymem.svg")  # both lines are one


def texts_in(drawn: Path) -> list[str]:
    found = ElementTree.fromstring(drawn.read_text("utf-8")).iter(f"{SVG}text")
    return [text.text for text in found if text.text]


def test_lines_that_lie_on_each_other_are_one() -> None:
    one, near, far = [0.1, 0.5], [0.105, 0.495], [0.1, 0.6]
    assert merged([("a", {"one": one, "near": near, "far": far})]) == [["one", "near"], ["far"]]
    assert merged([("a", {"one": one, "near": near}), ("b", {"one": one, "near": far})]) == [["one"], ["near"]]
    assert merged([("a", {"one": one}), ("b", {"near": near})]) == [["one"], ["near"]]
    assert merged([("a", {"one": [None, 0.5], "near": [0.1, 0.5]})]) == [["one"], ["near"]]


def test_labels_keep_their_distance() -> None:
    placed = spread({"a": 0.98, "b": 0.99, "c": 1.0, "d": 0.1})
    heights = sorted(placed.values())
    assert [*placed] == ["d", "a", "b", "c"] and placed["d"] == 0.1
    assert all(high - low >= GAP - 1e-9 for low, high in pairwise(heights)) and heights[-1] <= 1.0
    assert doctest.testmod(benchmarks.harness.chart).failed == 0


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


def test_a_repetition_of_what_was_chosen_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = conversation()
    talk["units"][4]["text"] += " It is grey, it whistles, and it was brought up on a ship."
    talk["units"][50] |= {key: talk["units"][4][key] for key in ("text", "speaker")}
    talk["queries"] = [
        {"id": "twice", "text": "Which parrot did Clara adopt?", "type": "single", "gold": ["u4", "u50"]}
    ]
    path = tmp_path / "twice.jsonl"
    path.write_text(json.dumps(talk), encoding="utf-8")
    text = explained(capsys, path, "twice", 512)
    assert "recall 0.500" in text and text.count("tokens: left out as a near-duplicate;") == 1


def test_a_needle_is_looked_for_in_the_passages_that_hold_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, data, "late", 512)
    assert "the needle: tok-9f27ac31" in text and "u3  tool: listing of the vault" in text and "recall 1.000" in text
    with pytest.raises(SystemExit, match="no query has the id 'nobody'"):
        explained(capsys, data, "nobody", 512)


# -- what is committed ------------------------------------------------------------------------------------------------


def test_the_committed_tables_and_plots_are_those_of_the_results() -> None:
    recall_table.main(["--check"])
    ablation_table.main(["--check"])
    curves.main(["--check"])
