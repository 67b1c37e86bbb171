"""The report: what stages are worth, curves, explanations; on haystacks made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_benchmarks import agent_run, conversation

from benchmarks import ablation
from benchmarks.data import read_haystacks
from benchmarks.fusion_data import Candidates
from benchmarks.methods import Setup
from benchmarks.variants import FULL, Variant
from tinymem.recall.fusion import published


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
            for name, (budget, found) in ablation.recalled(query, method, variants, (128, 512)):
                assert name == FULL and found == method.recall(query.question, budget)
        method.close()
