"""The fit of relevance: what was planted is found, what is true has no error, and the same data gives the same file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nearly import is_same_but_for_decimals
from numpy.random import default_rng
from test_fit_fusion import haystack, written

import benchmarks
from benchmarks.fitting import fusion as fit_fusion
from benchmarks.fitting import relevance as fit_relevance
from benchmarks.fitting.evidence import Asked
from benchmarks.fitting.fusion import PUBLISHED, QUESTION
from benchmarks.fitting.prompts import prompted
from benchmarks.fitting.relevance import Sample, fit
from tinymem.recall.features import NAMES
from tinymem.recall.relevance import LIKELY, WORTH, Calibration

TRUE = Calibration(1.0, -0.8, 0.9, 0.6, -0.4, -0.5)
CANDIDATES = 40


def sample(seed: int, condition: str = "own") -> Sample:
    """A question whose candidates are evidence by the chances that TRUE gives them."""
    random = default_rng(seed)
    scores = random.normal(-2, 3, CANDIDATES).astype(np.float32)
    words, said = random.random(CANDIDATES).astype(np.float32) * 3, random.random(CANDIDATES) < 0.5
    stated = random.random(CANDIDATES).astype(np.float32) * 3
    evidence = random.random(CANDIDATES) < TRUE.relevance(scores, words, said, stated)
    features, places = np.zeros((CANDIDATES, len(NAMES)), np.float32), np.arange(CANDIDATES)
    gold = {int(place): 400 for place in places[evidence]}
    kinds, lengths = np.full(CANDIDATES, QUESTION, np.int8), np.full(CANDIDATES, 400)
    days = np.zeros(CANDIDATES, np.int64)
    asked = Asked(f"query {seed}", features, kinds, evidence, lengths, days, places, gold, words, said, stated)
    return Sample("a file", seed % 2, condition, CANDIDATES, asked, scores)


@pytest.fixture(scope="module")
def planted() -> list[Sample]:
    return [sample(seed) for seed in range(3_000)]


def test_the_chances_by_which_evidence_was_drawn_are_found(planted: list[Sample]) -> None:
    found = fit(planted)
    assert vars(found) == pytest.approx(vars(TRUE), abs=0.15)


def test_prompts_are_asked_of_a_memory_of_many_sessions_that_holds_what_they_need() -> None:
    found = [*prompted(Path(benchmarks.__file__).parent / "moments" / "sample.json", ())]
    assert len(found) == 3 and {one.filler for one in found} == {"generated"}  # what needs nothing there is not asked
    assert all(one.is_needed and one.asked.evidence.any() and len(one.scores) > 50 for one in found)


@pytest.mark.slow
def test_the_same_data_gives_the_same_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [written(tmp_path / f"{name}.jsonl", haystack(at), haystack(at + 1)) for name, at in (("a", 0), ("b", 2))]
    weights = tmp_path / "fusion.json", tmp_path / "folds.json"
    data = ["--data", *map(str, files)]
    fit_fusion.main([*data, "--out", str(weights[0]), "--folds", str(weights[1])])
    written_files = []
    for name in ("one", "two"):
        paths = tmp_path / f"{name}.json", tmp_path / f"{name}.curve.json"
        fit_relevance.main([*data, "--folds", str(weights[1]), "--out", str(paths[0]), "--curve", str(paths[1])])
        written_files.append([path.read_text("utf-8") for path in paths])
    assert all(is_same_but_for_decimals(one, other) for one, other in zip(*written_files, strict=True))
    numbers: dict[str, Any] = json.loads(written_files[0][0])
    assert numbers["question"]["score"] > 0 and set(numbers["provenance"]["data"]) == {"a.jsonl", "b.jsonl"}
    assert "Reliability curve" in capsys.readouterr().out


def test_what_is_published_is_fitted_on_the_data_of_the_weights_and_stands_in_the_readme() -> None:
    fit_relevance.main(["--check"])
    weights, numbers = (json.loads(path.read_text("utf-8")) for path in (PUBLISHED, fit_relevance.PUBLISHED))
    fitted = {name: one["sha256"] for name, one in weights["provenance"]["data"].items()}
    assert {name: one for name, one in numbers["provenance"]["data"].items() if not name.endswith(".json")} == fitted
    assert WORTH < numbers["prompts"]["floor"] < LIKELY
    assert all(numbers[kind]["score"] > 0 > numbers[kind]["rivals"] for kind in ("question", "stretch"))
