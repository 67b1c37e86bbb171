"""The crash benchmark: processes are really killed, nothing is lost; and what is lost or left over, it sees."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import child_environment

import tinymem.archive.embedding
import tinymem.archive.indexing.indexing
from benchmarks.harness.summary import read_summary
from benchmarks.reliability.crash_check import Expected, check
from benchmarks.reliability.crash_work import OPERATIONS
from benchmarks.reliability.crash_worker import Worker, read_ledger, word

pytestmark = pytest.mark.skipif(
    not (hasattr(os, "fork") and hasattr(signal, "SIGKILL")), reason="no fork or no SIGKILL on this system"
)
ROOT = Path(__file__).parents[2]


def killed(tmp_path: Path, kills: int, seed: int) -> dict[str, Any]:
    """The summary of a run, which must have been survived."""
    out = tmp_path / "crash.summary.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks.reliability.crash",
        "--kills",
        str(kills),
        "--seed",
        str(seed),
        "--jobs",
        "4",
    ]
    environment = child_environment(TMPDIR=str(tmp_path))
    done = subprocess.run([*command, "--out", str(out)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{kills} of {kills} kills survived" in done.stdout
    return read_summary(out)


@pytest.mark.slow  # test_crash.py kills too, on every run
def test_kills_at_random_moments_of_every_operation_are_survived(tmp_path: Path) -> None:
    record = killed(tmp_path, kills=64, seed=2)
    assert {name: one["kills"] for name, one in record["operations"].items()} == dict.fromkeys(OPERATIONS, 4)
    assert record["survived"] == 64 and record["wrong"] == []
    assert sum(one["inside"] for one in record["operations"].values()) > 40


# what the check sees


@pytest.fixture
def worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Expected]:
    """A memory as a process left it that added, archived, forgot, noted and marked, and what that process told."""
    for module, name in (
        (tinymem.archive.indexing.indexing, "WAITING"),
        (tinymem.archive.indexing.indexing, "IDLE"),
        (tinymem.archive.embedding, "BATCH"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))  # the worker changes them
    worker = Worker(tmp_path / "memory", tmp_path / "ledger", "000", "7")
    worker.open("exact")
    for name in ("add", "archive", "update the scratchpad", "forget", "summarise episodes", "mark milestones"):
        OPERATIONS[name].work(worker)
    worker.memory.long_term.queue.embed_pending()
    worker.memory.close()
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "IDLE", 1e6)  # the background mends nothing unseen
    expected = Expected()
    expected.read(read_ledger(tmp_path / "ledger"))
    assert check(tmp_path / "memory", "exact", expected, "1")[0] == []
    assert expected.steps and expected.gone and expected.notes and expected.marked
    return tmp_path / "memory", expected


def changed(folder: Path, sql: str, *values: Any) -> None:
    with sqlite3.connect(folder / "default" / "journal.db") as db:
        assert db.execute(sql, values).rowcount
    db.close()


NEWEST = "(SELECT max(number) FROM steps)"
DAMAGES: dict[str, tuple[str, str]] = {
    "a step is lost": (f"DELETE FROM steps WHERE number = {NEWEST}", "and now None"),
    "a step has another number": (f"UPDATE steps SET number = 999 WHERE number = {NEWEST}", "and now 999"),
    "a passage is lost": ("DELETE FROM passages WHERE id = (SELECT max(id) FROM passages)", "passages are not those"),
    "a passage is there twice": (
        "INSERT INTO passages SELECT NULL, step, part, start, end, kind, asks, identifiers, tools "
        "FROM passages LIMIT 1",
        "passages are not those",
    ),
    "a vector is another": (
        "UPDATE vectors SET vector = zeroblob(128) WHERE passage = (SELECT max(id) FROM passages)",
        "vectors are not those",
    ),
    "terms are lost": (
        "DELETE FROM fulltext_docsize WHERE id = (SELECT max(id) FROM passages)",
        "full text and passages differ",
    ),
    "a milestone is none": ("UPDATE steps SET milestone = 0", "was made a milestone"),
    "a note is lost": ("DELETE FROM meta WHERE key = 'scratchpad'", "the scratchpad has"),
    "a summary is lost": ("DELETE FROM summaries", "a summary is lost"),
    "vectors are lost": ("DELETE FROM vectors WHERE passage > 1", "what was embedded is not any more"),
}


@pytest.mark.parametrize(("sql", "seen"), DAMAGES.values(), ids=DAMAGES)
def test_what_is_wrong_is_seen(worked: tuple[Path, Expected], sql: str, seen: str) -> None:
    folder, expected = worked
    changed(folder, sql)
    found, _, _ = check(folder, "exact", expected, "1")
    assert any(seen in one for one in found), found


def test_text_that_was_forgotten_and_is_left_in_a_file_is_seen(worked: tuple[Path, Expected]) -> None:
    folder, expected = worked
    id = expected.gone[-1]
    (folder / "default" / "index.tmp").write_text(f"... {word(id)} ...", encoding="utf-8")
    found, _, _ = check(folder, "exact", expected, "1")
    assert found == [f"index.tmp still has the text of {id}"]
