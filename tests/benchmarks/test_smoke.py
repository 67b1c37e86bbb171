"""Every program of the benchmarks explains itself, and the small ones run from end to end."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
from test_benchmarks import agent_run, conversation

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "benchmarks").rglob("*.py"))
PROGRAMS = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in SOURCES
    if "ArgumentParser(" in path.read_text("utf-8") and "def main(" in path.read_text("utf-8")
]

DATA = "DATA"  # what stands for the file of haystacks
SMALL = {
    "recall.run": ["--data", DATA, "--budgets", "128"],
    "pruning.run": ["--data", DATA, "--budgets", "1200"],
    "pruning.needed": ["--data", DATA, "--budgets", "2000"],
    "pruning.retention": ["--data", DATA, "--shares", "100,20"],
    "speed.run": ["--sizes", "25", "--quick"],
    "speed.fit": ["--sizes", "40", "--asks", "3"],
    "speed.loop": ["--seconds", "0.5", "--tasks", "3", "--size", "30"],
    "speed.endurance": ["namespaces", "--count", "2", "--steps", "3"],
    "moments.run": ["--sessions", "6"],
    "moments.loops": ["--steps", "61", "--budgets", "3000", "--seeds", "1"],
    "moments.reminders": ["--recorded", DATA],
    "moments.compaction": ["--recorded", DATA],
    "moments.jumps": ["--recorded", DATA, "--budgets", "1200"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_what_it_takes(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    if program.startswith("benchmarks.stores."):
        pytest.importorskip("psycopg", reason="psycopg is not installed (extra: test-all)")
    with pytest.raises(SystemExit) as ended:
        import_module(program).main(["--help"])
    assert ended.value.code == 0 and "usage: " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("program", SMALL)
def test_a_small_run_leaves_results_and_prints_them(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "made.jsonl", tmp_path / "made.summary.json"
    run = agent_run()
    for query in run["queries"]:
        query["cutoff"] = min(query["cutoff"], 44)  # so that four units follow each
    data.write_text("".join(json.dumps(haystack) + "\n" for haystack in (conversation(), run)), encoding="utf-8")
    given = [str(data) if argument == DATA else argument for argument in SMALL[program]]
    import_module(f"benchmarks.{program}").main([*given, "--out", str(out)])
    assert capsys.readouterr().out and out.stat().st_size > 0
