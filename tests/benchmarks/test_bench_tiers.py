"""Benchmarks of the medium tier: what they claim stands in the text, and their tables are true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.harness.data import Question, read_haystacks
from benchmarks.harness.methods import Setup
from benchmarks.harness.scoring import score
from benchmarks.recall import coarse, tiers
from tinymem.messages.tokens import default_counter

DAYS = 30
WORDS = "yes no perhaps anyway then indeed still again so now truly really maybe".split()  # noqa: SIM905
STEPS = 2 + len(WORDS)


def written(path: Path) -> Path:
    """A conversation of many sessions; each tells one fact in its own words."""
    units: list[dict[str, Any]] = []
    for day in range(DAYS):
        fact = f"The boiler in house {day} was set to {40 + day} degrees by Ann, because room {day * 3} was cold."
        chatter = [f"Well, {word}, I can only say that we shall see what comes of it." for word in WORDS]
        said = ["Good morning!", fact, *chatter]
        units += [
            {"id": f"u{STEPS * day + at}", "speaker": "Ben", "text": text, "session": f"s{day}",
             "timestamp": f"2025-03-{1 + day:02}T10:{at:02}:00Z"}
            for at, text in enumerate(said)
        ]  # fmt: skip
    queries = [{"id": f"q{d}", "text": f"How warm is house {d}?", "type": "odd" if d % 2 else "even",
                "gold": [f"u{STEPS * d + 1}"]} for d in range(0, DAYS, 5)]  # fmt: skip
    path.write_text(json.dumps({"id": "talk", "units": units, "queries": queries}) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("data") / "talk.jsonl")


# -- the medium tier --------------------------------------------------------------------------------------------------


def test_lines_of_summaries_claim_what_stands_in_the_units(data: Path, tmp_path: Path) -> None:
    [haystack] = read_haystacks(data)
    method = tiers.Tiers(Setup(tmp_path / "memory", embedder="hashing:64", store="exact"))
    method.add(haystack.units)
    question = Question("Who is Zoe?", None)
    both, without = method.with_episodes(question, 1_500, 0.6), method.with_episodes(question, 1_500, 0)
    assert default_counter().count(both.text) <= 1_500 and both.text.startswith("<episodes-")
    assert without == method.recall(question, 1_500)
    told = both.text[: both.text.index("<recalled-")]
    claims = [claim for claim in both.claims if haystack.units[claim.place].text[claim.start : claim.end] in told]
    facts = {claim.place for claim in claims if "boiler" in haystack.units[claim.place].text}
    assert len(facts) > 5
    day = next(day for day in range(0, DAYS, 5) if STEPS * day + 1 in facts)
    units = [{"id": f"u{c.place}", "start": c.start, "end": c.end} for c in claims]
    rows = score([haystack], {("talk", f"q{day}", 1_500): {"budget": 1_500, "text": told, "units": units}})[1_500]
    assert [row.value for row in rows if not row.missing] == [1], "a summary's line counts as evidence"
    method.close()


def test_what_is_measured_is_what_the_table_shows(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tiers.json"
    tiers.main(["--data", str(data), "--out", str(out), "--shares", "0,0.3", "--budgets", "200,700"])
    shares = json.loads(out.read_text("utf-8"))["files"]["talk.jsonl"]["shares"]
    assert list(shares) == ["0.0", "0.3"] and list(shares["0.0"]) == ["200", "700"]
    assert shares["0.3"]["200"] == shares["0.0"]["200"], "60 tokens have no room for a block"
    assert list(shares["0.0"]["700"]) == ["all", "even", "odd"] and shares["0.0"]["700"]["all"] == 1
    shown = capsys.readouterr().out
    assert "| all | 1.000 | 1.000 |" in shown and "30% @700" in shown
    with pytest.raises(SystemExit, match=r"benchmarks\.recall\.tiers: "):
        tiers.main(["--out", str(tmp_path / "nothing.json")])


# -- the committed tables ---------------------------------------------------------------------------------------------


def test_the_readme_holds_what_the_committed_results_say() -> None:
    results = Path(tiers.__file__).parents[1] / "results" / "tiers.json"
    tiers.main(["--out", str(results), "--check"])


# -- coarse to fine ---------------------------------------------------------------------------------------------------


def test_every_way_takes_every_passage_once() -> None:
    random = np.random.default_rng(0)
    units, scores = random.integers(0, 90, 60), random.normal(size=60).astype(np.float32)
    for way in coarse.WAYS.values():
        assert sorted(way(units, scores, scores - 1).tolist()) == list(range(60))


def test_the_passages_of_the_best_episode_come_first() -> None:
    units = np.array([0, 1, 8, 9, 16, 17])
    scores = np.array([3, -5, 2, 2, 0, 0], np.float32)
    assert coarse.alone(units, scores, scores).tolist() == [0, 2, 3, 4, 5, 1]
    assert coarse.chosen(8, 1)(units, scores, scores).tolist() == [2, 3, 0, 4, 5, 1]
    assert coarse.spread(8)(units, scores, scores).tolist() == [0, 2, 3, 4, 5, 1]


def test_the_table_of_episodes_says_what_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"passages alone": [0.5, 0.75], **{name: [0.25, 0.75] for name in list(coarse.WAYS)[1:]}, "queries": 6}
    results = tmp_path / "coarse.json"
    results.write_text(json.dumps({"files": {"talk.jsonl": {"all": row}}}), encoding="utf-8")
    coarse.main(["--out", str(results)])
    assert "| talk | all (6) | 0.500, 0.750 | -0.250, +0.000 |" in capsys.readouterr().out
    coarse.main(["--out", str(coarse.README.parent / "results" / "coarse.json"), "--check"])
