"""The pages of tables: each holds what the committed results say, and a stale one is noticed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.harness.documents import placed
from benchmarks.recall import ablation_table
from tinymem.errors import InputError

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PROGRAMS = (
    "recall.table", "recall.ablation_table", "recall.curves", "pruning.table", "pruning.bills",
    "pruning.retention_table", "pruning.needed",
    "answers.table", "moments.table", "moments.loops", "stale.run",
    "speed.table", "speed.loop", "speed.fit", "speed.load", "speed.embedders_table",
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


def test_a_table_is_written_between_its_marks_and_a_stale_one_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n{}\nstale\n{}\nafter\n".format(*ablation_table.MARKS), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"page\.md holds other figures .* run with --write"):
        ablation_table.main(["--page", str(page), "--check"])
    ablation_table.main(["--page", str(page), "--write"])
    ablation_table.main(["--page", str(page), "--check"])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "stale" not in text
    with pytest.raises(InputError, match="lacks the marks"):
        placed("no marks", "x", *ablation_table.MARKS)


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    for path in (tmp_path / "other.json", tmp_path / "none.json"):
        with pytest.raises(SystemExit, match=r"benchmarks\.recall\.ablation_table"):
            ablation_table.main(["--results", str(path)])
