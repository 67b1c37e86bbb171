"""The benchmark of pruning: end to end on a run made here, and its rules against cases worked out by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from test_benchmarks import agent_run, conversation

from benchmarks.harness.data import read_haystacks
from benchmarks.pruning import run as pruning
from benchmarks.pruning.windows import STRATEGIES, common, kept, needle_survives, windows
from tinymem import count_tokens
from tinymem.messages import messages_from_steps

ROOT = Path(__file__).parents[2]


def long_run() -> dict[str, Any]:
    """The run of the recall benchmark with its queries early enough that four units follow each."""
    run = agent_run()
    run["units"][1]["text"] = "Move the billing database with the billing token that the vault lists."
    for query in run["queries"]:
        query["cutoff"] = min(query["cutoff"], 44)
    return run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "made.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(haystack) + "\n" for haystack in (conversation(), long_run()))
    return path


@pytest.fixture(scope="module")
def results(data: Path) -> Path:
    out = data.with_name("pruning.json")
    pruning.main(["--data", str(data), "--budgets", "1200,900", "--out", str(out)])
    return out


def test_a_window_is_the_run_up_to_what_the_query_shows(data: Path) -> None:
    (haystack,) = [h for h in read_haystacks(data) if h.is_agent_run]
    early, late = windows(haystack, held_back=True)
    assert [early.query.cutoff, late.query.cutoff] == [30, 44]
    held = [text for texts in early.texts.values() for text in texts]
    assert held == [unit.text for unit in haystack.units[:34]]
    new = [step for step in early.steps if step.id not in early.old]
    assert len(new) == 2 + 2  # system prompt, task, and two actions with their results
    assert early.fixed == count_tokens(messages_from_steps(new))


def test_a_needle_survives_only_in_an_old_step(data: Path) -> None:
    (haystack,) = [h for h in read_haystacks(data) if h.is_agent_run]
    (window, _) = windows(haystack, held_back=False)
    assert needle_survives(window, window.steps)
    (found,) = [step for step in window.steps if "tok-9f27ac31" in step.text]
    assert needle_survives(window, [found])
    assert not needle_survives(window, [found.truncate(60)])
    assert not needle_survives(window, [step for step in window.steps if step is not found])
    assert not needle_survives(window, [found.evolve(id="another")])


@pytest.mark.parametrize(
    ("before", "after", "survives"),
    [(0, 0, False), (96, 97, False), (97, 97, True), (0, 194, True), (194, 0, True), (250, 250, True)],
)
def test_two_hundred_characters_around_the_needle_are_needed(before: int, after: int, survives: bool) -> None:
    text = "".join(f"{number:05d}" for number in range(100)) + "needle" + "".join(f"{n:05d}" for n in range(100, 200))
    shown = "…" + text[500 - before : 506 + after] + "…"
    assert kept("needle", text, shown) is survives
    assert common(text, shown, 500, 1 + before, 6) == before + 6 + after


def test_every_strategy_is_measured_at_every_budget_and_semantic_pruning_finds_the_token(results: Path) -> None:
    record = json.loads(results.read_text(encoding="utf-8"))
    assert record["format"] == pruning.FORMAT and record["budgets"] == [900, 1200]
    assert str(results.parent) not in results.read_text(encoding="utf-8")
    (one,) = record["sets"]
    assert (one["runs"], one["queries"], one["held_back"]) == (1, 2, 2)
    assert list(one["figures"]) == list(STRATEGIES)
    for name, figures in one["figures"].items():
        for budget in ("900", "1200"):
            assert figures[budget]["tokens"] <= int(budget)
            assert figures[budget]["survive"] == {"even": 0, "odd": float("sem" in name), "all": float("sem" in name)}


def test_semantic_pruning_beats_the_others_in_the_committed_results() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "pruning.json").read_text(encoding="utf-8"))
    for one in record["sets"]:
        ours = one["figures"]["semantic_pruning"]
        for name in list(STRATEGIES)[:4]:
            for budget in ("1000", "2000", "4000"):
                assert ours[budget]["survive"]["all"] > one["figures"][name][budget]["survive"]["all"]
