"""The pages of tables: each holds what the committed results say, and a stale one is noticed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PROGRAMS = (
    "recall.table", "recall.ablation_table", "recall.curves", "pruning.table", "pruning.bills",
    "pruning.retention_table", "pruning.needed",
    "answers.table", "moments.table", "moments.loops", "moments.reminders", "moments.compaction", "moments.jumps",
    "stale.run", "speed.table", "speed.loop", "speed.fit", "speed.load", "speed.embedders_table",
    "reliability.table", "stores.table",
)  # fmt: skip
WITH_OUT = ("tiers", "coarse", "languages")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_page_holds_what_the_committed_results_say(program: str) -> None:
    if program == "stores.table":
        pytest.importorskip("psycopg", reason="psycopg is not installed (extra: test-all)")
    import_module(f"benchmarks.{program}").main(["--check"])


@pytest.mark.parametrize("name", WITH_OUT)
def test_a_page_holds_what_a_measured_file_says(name: str) -> None:
    import_module(f"benchmarks.recall.{name}").main(["--out", str(RESULTS / f"{name}.json"), "--check"])
