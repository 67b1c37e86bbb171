"""README.md is true: its Python blocks run and print what is shown, its commands work; figures are the results'."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pages import REPOSITORY, commands, run_page

from tinymem.cli.main import main

README = REPOSITORY / "README.md"
RESULTS = REPOSITORY / "benchmarks" / "results"


def test_every_python_block_runs_and_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(README, monkeypatch, capsys, with_commands=False) >= 2


@pytest.mark.fills_index  # as users have it
def test_commands_work_as_they_stand_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All but the ones that need another embedder's weights, or install."""
    monkeypatch.chdir(tmp_path)
    calls = [call for call in commands(README) if call[1] not in ("demo", "reindex")]
    assert len(calls) >= 10
    for call in calls:
        monkeypatch.setattr("sys.argv", call)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert not ended.value.code, (call, err)
        assert out or err


def recall_of(summary: Path, budget: str) -> float:
    """The recall of a committed summary."""
    found = json.loads(summary.read_text("utf-8"))["sets"][0]["figures"].get(budget, {})
    return float(found.get("recall", 0.0))


@pytest.mark.parametrize(
    ("budget", "behind"),
    [("512", {"claude-code-dev"}), ("1024", set()), ("2048", set()), ("4096", set())],
)
def test_where_another_method_finds_more_the_page_says_so(budget: str, behind: set[str]) -> None:
    found = set()
    for ours in RESULTS.glob("*.tinymem-static.summary.json"):
        name = ours.name.partition(".")[0]
        others = [path for path in RESULTS.glob(f"{name}.*.summary.json") if ".tinymem-" not in path.name]
        if any(recall_of(other, budget) > recall_of(ours, budget) for other in others):
            found.add(name)
    assert found == behind
    text = " ".join(README.read_text("utf-8").split())
    assert "on `claude-code` plain vectors find more in 512 tokens" in text


def test_figures_of_embedders_are_those_of_the_benchmark() -> None:
    text = " ".join((REPOSITORY / "docs" / "embedders.md").read_text("utf-8").split())
    found = {
        name: recall_of(RESULTS / f"locomo-dev.dense-{name}.summary.json", "1024") for name in ("minilm", "static")
    }
    minilm, static = (f"{found[name]:.2f}" for name in ("minilm", "static"))
    assert f"MiniLM finds {minilm} of LoCoMo's evidence in 1,024 tokens, `static` {static}" in text
    cheap, _, dear = json.loads((RESULTS / "embedders.json").read_text("utf-8"))["embedders"]
    recalled = [recall_of(RESULTS / f"locomo-dev.tinymem-{name}.summary.json", "1024") for name in ("static", "minilm")]
    assert f"| {cheap['passages_per_second']:,.0f} | {dear['passages_per_second']:,.0f} |" in text
    assert f"| {cheap['resident_mib']['used']:.0f} | {dear['resident_mib']['used']:.0f} |" in text
    assert f"| {recalled[0]:.3f} | {recalled[1]:.3f} |" in text


def test_figures_of_strategies_are_those_of_the_benchmark() -> None:
    sets = json.loads((RESULTS / "pruning.json").read_text("utf-8"))["sets"]
    text = (REPOSITORY / "docs" / "strategies.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)[^|]*\|((?: \.\d\d / \.\d\d / \d?\.\d\d \|){5})$", text, re.MULTILINE)
    assert len(rows) >= 4
    for name, cells in rows:
        key = "prune_old_observations + token_budget" if name == "prune_old_observations" else name
        found = [f"{one['figures'][key][b]['survive']['all']:.2f}" for one in sets for b in ("1000", "2000", "4000")]
        assert [f"{float(cell):.2f}" for cell in re.findall(r"\d?\.\d\d", cells)] == found, name
