"""benchmarks.speed end to end, small; what it writes, and the table that is made of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from test_benchmarks import agent_run, conversation

from benchmarks.harness.summary import read_summary
from benchmarks.recall import table
from benchmarks.speed import endurance, stages
from benchmarks.speed import run as speed
from benchmarks.speed import table as speed_table
from benchmarks.speed.steps import Corpus, questions, steps_from, vocabulary
from benchmarks.speed.worker import percentiles
from tinymem import ActionStep, HierarchicalMemory
from tinymem.errors import InputError

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, check=False
    )


class Measured(NamedTuple):
    """Quick runs at 25 steps, and then at 40, whose build was stopped after 20."""

    path: Path
    printed: str
    first: dict[str, Any]  # the summary of the first run
    last: dict[str, Any]  # and of both


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("speed")
    out = folder / "speed.summary.json"
    done = run("benchmarks.speed", "--sizes", "25", "--quick", "--out", out)
    assert not done.returncode, done.stderr
    first = read_summary(out)
    with HierarchicalMemory(folder / "40" / "memory") as memory:
        memory.add_steps(list(steps_from(None, 20)))
        memory.flush()
    (folder / "40" / "chunks.jsonl").write_text("[1.5, 1.0, 20, 20]\n", encoding="utf-8")
    done = run("benchmarks.speed", "--sizes", "40", "--quick", "--out", out, "--folder", folder)
    assert not done.returncode, done.stderr
    return Measured(out, done.stdout, first, read_summary(out))


def test_a_quick_run_measures_everything(measured: Measured) -> None:
    record = measured.last
    assert record["benchmark"] == "speed"
    assert record["effort"] == "quick"
    assert record["data"] == "made"
    assert [one["size"] for one in record["sizes"]] == [25, 40]
    for one in record["sizes"]:
        assert one["steps"] == one["size"] + 5 + 2  # and those that were added singly, and before contexts
        assert one["passages"] > one["steps"]
        assert len(one["archive"]["ratios"]) == 2  # chunks of 20 steps
        for name in ("add", "chroma_add", "context", "recall", "chroma_query"):
            assert 0 < one[name]["p50"] <= one[name]["p95"] <= one[name]["max"]
        assert all(one["opened"][name] > 0 for name in ("open", "first_recall", "first_context"))
        assert one["opened"]["reading"] > 50
        assert 0 < one["disk_mib"]["journal"] < one["disk_mib"]["memory"]
    assert set(record["starts_ms"]) == set(speed.STARTS)
    assert all(len(one["load"]) == 2 for one in record["sizes"])


def test_sizes_are_measured_in_order() -> None:
    assert speed.arguments(["--sizes", "40,25"]).sizes == (25, 40)


def test_a_build_goes_on_where_it_was_stopped_and_other_sizes_keep_their_figures(measured: Measured) -> None:
    other, continued = measured.last["sizes"]
    assert [other] == measured.first["sizes"]
    assert continued["archive"]["ratios"][0] == round(1.0 / 1.5, 4)  # of the chunk before the stop


def test_the_summary_names_no_path_of_the_machine(measured: Measured) -> None:
    text = measured.path.read_text(encoding="utf-8")
    assert str(Path.home()) not in text
    assert str(ROOT) not in text
    assert "/tmp" not in text


def test_the_table_has_a_column_for_each_size(measured: Measured) -> None:
    text = speed_table.table(measured.last)
    assert measured.printed.strip() == text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[0] == "| | 25 steps | 40 steps |"
    assert {row.count("|") for row in rows} == {4}
    assert len(rows) == 2 + len(speed_table.ROWS)


def test_the_table_is_put_between_its_marks(measured: Measured, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{speed_table.START}\nfigures of before\n{speed_table.END}\nafter\n", encoding="utf-8")
    given = [str(measured.path), "--page", str(readme)]
    with pytest.raises(SystemExit, match=r"README\.md holds other figures"):
        speed_table.main([*given, "--check"])
    speed_table.main([*given, "--write"])
    speed_table.main([*given, "--check"])
    text = readme.read_text(encoding="utf-8")
    assert re.match(r"before\n.*25 steps.*\nafter\n$", text, re.DOTALL)
    assert "figures of before" not in text
    readme.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="lacks the marks"):
        speed_table.main([*given, "--write"])


@pytest.mark.skipif(
    not (speed_table.HERE / "results" / "speed.summary.json").exists(), reason="no measurement is committed"
)
def test_the_readme_holds_the_table_of_the_committed_summary() -> None:
    speed_table.main(["--check"])


def test_every_stage_is_timed_and_left_as_it_was() -> None:
    before = HierarchicalMemory.recall
    found = stages.profile(300, 2)
    assert {*found} == {"context", "recall"}
    assert all(found["context"][stage] for stage in stages.STAGES)
    assert HierarchicalMemory.recall is before
    assert len(stages.table({300: found}).splitlines()) == len(stages.STAGES) + 3


def test_tables_of_recall_leave_the_summary_alone(measured: Measured) -> None:
    assert table.entries([read_summary(measured.path)]) == []


def test_the_steps_of_a_file_are_taken_and_repeated(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(one) + "\n" for one in (conversation(), agent_run())), encoding="utf-8")
    steps = list(steps_from(data, 400))
    assert len(steps) == len({step.id for step in steps}) == 400
    assert any(isinstance(step, ActionStep) for step in steps)
    assert "parrot called Figaro" in steps[4].text
    done = run("benchmarks.speed.worker", "build", tmp_path / "folder", "150", "quick", data)
    assert json.loads(done.stdout)["steps"] == 157, done.stderr


def test_made_steps_are_the_same_for_the_same_seed() -> None:
    def texts(seed: int) -> list[str]:
        return [step.text for step in Corpus(seed).steps(300)]

    assert texts(1) == texts(1) != texts(2)
    assert len(vocabulary()) > 20_000


def test_made_words_are_as_unequal_as_real_ones() -> None:
    words = " ".join(step.text for step in Corpus().steps(1000)).split()
    distinct = set(words)
    assert len(distinct) > 10_000
    common = sorted((words.count(word) for word in list(islice(vocabulary(), 20))), reverse=True)
    assert common[0] > len(words) / 200
    assert sum(any(mark in word for mark in "_/") for word in words) > len(words) / 100  # identifiers, paths


def test_questions_stand_in_the_texts() -> None:
    texts = [step.text for step in Corpus().steps(50)]
    for question in questions(texts, 20):
        words = question.removesuffix("?").split()
        assert any(" ".join(words) in " ".join(text.split()) for text in texts)


@pytest.mark.parametrize("given", ["0", "-5,10", "ten", ""])
def test_sizes_must_be_numbers(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        speed.arguments(["--sizes", given])
    assert "--sizes" in capsys.readouterr().err


def test_medians_keep_the_shape() -> None:
    records: list[Any] = [{"a": {"b": number}, "c": [number]} for number in (3, 1, 2)]
    assert speed.medians(records) == {"a": {"b": 2}, "c": [3, 1, 2]}
    assert percentiles([0.001, 0.002, 0.003]) == {"p50": 2.0, "p95": 2.9, "mean": 2.0, "max": 3.0}


def test_a_summary_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a summary"):
        read_summary(tmp_path / "missing.summary.json")


@pytest.mark.parametrize(
    ("what", "points"), [(["month", "--adds", "20", "--contexts", "10"], 10), (["namespaces", "--count", "2"], 3)]
)
def test_endurance_measures_private_memory_on_the_way(tmp_path: Path, what: list[str], points: int) -> None:
    out = tmp_path / "endurance.summary.json"
    endurance.main([*what, "--steps", "3", "--out", str(out)])
    record = read_summary(out)
    assert record["benchmark"] == what[0]
    assert len(record["points"]) == points
    assert all(point["private_mib"] > 1 for point in record["points"])
