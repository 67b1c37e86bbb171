"""Fitting the fusion weights: on a haystack made here, in which only one feature tells the evidence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nearly import is_same_but_for_decimals

from benchmarks.fitting import fusion as fit_fusion
from benchmarks.fitting.evidence import BUDGETS, UNFITTED, Asked, collect, simulate
from benchmarks.fitting.fusion import ACT, QUESTION, SAID, TOOL, Settings, fit
from tinymem.recall.features import NAMES
from tinymem.recall.fusion import KIND_NAMES, Fusion

PETS = ["parrot", "hamster", "spaniel", "gecko", "tortoise", "ferret", "canary", "rabbit"]
PLANTED = NAMES.index("after_bm25")
PRESET = tuple(map(NAMES.index, ("milestone", "named", "stated", "rule")))  # of a question


def haystack(number: int, rare: str = "") -> dict[str, Any]:
    """Who has which pet, each said once among small talk; with `rare`, an agent's run that showed it once, early."""
    lines = [f"Small talk number {i}: the weather was fine and nothing else happened today." for i in range(60)]
    for i, pet in enumerate(PETS):
        lines[5 * i + number] = f"Person{i} adopted a {pet} last week."
    units: list[dict[str, Any]] = [
        {"id": f"u{i}", "speaker": "Ana", "text": text, "session": f"s{i // 20}"} for i, text in enumerate(lines)
    ]
    queries: list[dict[str, Any]] = [
        {
            "id": f"q{i}",
            "text": f"Which pet did Person{i} adopt? ({number})",
            "type": "single",
            "gold": [f"u{5 * i + number}"],
        }
        for i in range(len(PETS))
    ]
    if rare:
        called = {"tool_calls": [{"id": "c1", "name": "list_orders", "arguments": "{}"}]}
        units[2] |= {"speaker": "assistant", "text": "I list the orders.", **called}
        units[3] |= {"speaker": "tool", "text": f"One order is open, of a parrot cage: {rare}.", "tool_call_id": "c1"}
        stretch = "The shop closes at five.\nAna is in a hurry.\nShe found another one.\nCancel the parrot cage."
        asked = {"id": "n", "text": stretch, "type": "run", "gold": ["u3"], "cutoff": 40}
        queries = [asked | {"needle": rare}]
    return {"id": f"h{number}", "units": units, "queries": queries}


def written(path: Path, *haystacks: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in haystacks), encoding="utf-8")
    return path


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    return written(tmp_path / "chats.jsonl", haystack(0), haystack(1), haystack(2))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return written(tmp_path / "runs.jsonl", haystack(3, "ord-77a1"), haystack(4, "ord-91c4"))


def planted(seed: int, kinds: Sequence[int] = (QUESTION,)) -> Asked:
    """A query of 30 candidates with noise for features, but for one that is high where the evidence is; `kinds` take
    turns."""
    random = np.random.default_rng(seed)
    features = random.random((30, len(NAMES))).astype(np.float32)
    evidence = np.arange(30) == 7
    features[:, [*PRESET]] = 0  # or their noise would drown it
    features[:, PLANTED] = evidence
    lengths = np.full(30, 400)
    return Asked(
        f"query {seed}",
        features,
        np.resize(np.array(kinds, np.int8), 30),
        evidence,
        lengths,
        np.zeros(30, np.int64),
        np.arange(30),
        {7: 400},
        np.zeros(30, np.float32),
        np.zeros(30, np.bool_),
        np.zeros(30, np.float32),
    )


def test_a_planted_feature_is_learnt() -> None:
    fusion = fit([[planted(seed) for seed in range(20)]], Settings())
    asked = fusion.weights[KIND_NAMES.index("question")]
    assert asked[PLANTED] > 10 * np.abs(np.delete(asked, [PLANTED, *PRESET])).max()
    new = [planted(seed) for seed in range(100, 120)]
    assert np.mean([simulate(asked, fusion, budgets=(200,)) for asked in new]) == 1
    assert np.mean([simulate(asked, UNFITTED, budgets=(200,)) for asked in new]) < 0.5


STRETCH = (ACT, TOOL, SAID)  # so that what is planted is of a tool


def test_what_is_held_out_is_not_trained_on_in_another_file(
    chats: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = written(tmp_path / "pool.jsonl", haystack(0))
    files = [collect(path, "static") for path in (chats, pool)]
    asked = {one.text for one in files[1].held_out(0)}
    assert asked <= {one.text for one in files[0].training()}
    fitted: list[set[str]] = []

    def noted(training: Sequence[Sequence[Asked]], settings: Settings, present: Fusion, kept: object = ()) -> Fusion:
        fitted.append({asked.text for file in training for asked in file})
        return UNFITTED

    monkeypatch.setattr(fit_fusion, "fit", noted)
    fit_fusion.without(files[1], files, Settings(), UNFITTED)
    fit_fusion.folded(files, Settings(), UNFITTED)
    assert fitted[0] and not fitted[0] & asked


def test_the_file_is_read_by_the_library_and_comes_out_the_same(
    chats: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outs = [tmp_path / "a.json", tmp_path / "b.json"]
    for out, data in zip(outs, ([chats, runs], [runs, chats]), strict=True):
        fit_fusion.main(["--data", *map(str, data), "--out", str(out), "--folds", str(out.with_suffix(".folds"))])
    text = outs[0].read_text(encoding="utf-8")
    assert is_same_but_for_decimals(outs[1].read_text(encoding="utf-8"), text)
    assert str(tmp_path) not in text
    fusion, record = Fusion.from_json(text), json.loads(text)["provenance"]
    assert np.isfinite(fusion.weights).all() and fusion.weights.any(axis=1).all()
    assert list(record["data"]) == ["chats.jsonl", "runs.jsonl"]
    fitted = record["held_out"]["static"]["chats.jsonl"]
    assert len(fitted["cross-validated"]) == len(fitted["fitted without it"]) == len(BUDGETS)
    assert fitted["cross-validated"][0] == 1
    assert "chats.jsonl (24 queries)" in capsys.readouterr().out


def test_each_embedder_gets_weights_for_questions_and_all_of_them_together(
    chats: Path, runs: Path, tmp_path: Path
) -> None:
    out, folds = tmp_path / "fusion.json", tmp_path / "folds.json"
    given = ["--data", str(chats), str(runs), "--out", str(out), "--folds", str(folds)]
    fit_fusion.main(given)
    alone = json.loads(out.read_text("utf-8"))["weights"]
    assert alone["question"]["other"] == alone["question"]["static"], "nothing else is known"
    fit_fusion.main([*given, "--embedder", "static", "hashing"])
    rows = json.loads(out.read_text("utf-8"))["weights"]
    assert rows.keys() == alone.keys() and rows["tool"] == alone["tool"], "stretches are fitted with static vectors"
    questions = rows["question"]
    assert questions["static"] == alone["question"]["static"] != questions["hashing"]
    assert questions["other"] not in (questions["static"], questions["hashing"])
    (by_fold,) = {len(some) for some in json.loads(folds.read_text("utf-8"))["folds"].values()}
    assert by_fold == 2
