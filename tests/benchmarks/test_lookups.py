"""The set of look-ups: the same for a seed, and what a memory finds in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.harness.data import read_haystacks
from benchmarks.recall import lookups, run


def test_a_seed_makes_the_same_file_and_gold_is_the_result_of_the_look_up(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    for file, seed in zip(files, (3, 3, 4), strict=True):
        lookups.main(["--out", str(file), "--seed", str(seed), "--lookups", "48"])
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
    (made,) = read_haystacks(files[0])
    assert {query.type for query in made.queries} == lookups.SHAPES.keys() and made.is_agent_run
    for query in made.queries:
        place = made.places[query.gold[0]]
        (call,) = made.units[place - 1].tool_calls
        assert made.units[place].tool_call_id == call.id
        name = call.arguments.split('"')[3]
        assert name in query.question.text and sum(name in unit.text for unit in made.units) <= 1


def test_a_memory_finds_what_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lookups.main(["--out", str(tmp_path / "lookups.jsonl"), "--seed", "11", "--lookups", "48"])
    run.main(["--data", str(tmp_path / "lookups.jsonl"), "--budgets", "256", "--store", "exact"])
    found = re.search(r"recall@256 ([\d.]+)", capsys.readouterr().out)
    assert found is not None and float(found[1]) > 0.95
