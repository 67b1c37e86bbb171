"""The crash benchmark: processes are really killed, nothing is lost; and what is lost or left over, it sees."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

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


@pytest.mark.slow  # test_crash.py kills too
def test_kills_at_random_moments_of_every_operation_are_survived(tmp_path: Path) -> None:
    out = tmp_path / "crash.summary.json"
    command = [sys.executable, "-m", "benchmarks.reliability.crash", "--kills", "64", "--seed", "2", "--jobs", "4"]
    environment = child_environment(TMPDIR=str(tmp_path))
    done = subprocess.run([*command, "--out", str(out)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "64 of 64 kills survived" in done.stdout, done.stderr
    record = read_summary(out)
    assert {name: one["kills"] for name, one in record["operations"].items()} == dict.fromkeys(OPERATIONS, 4)
    assert record["survived"] == 64 and record["wrong"] == []
    assert sum(one["inside"] for one in record["operations"].values()) > 40


# what the check sees


@pytest.fixture
def worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Expected]:
    """A memory as a process left it that added, archived, forgot, noted and marked, and what that process told."""
    indexing = tinymem.archive.indexing.indexing
    for module, name in ((indexing, "WAITING"), (indexing, "IDLE"), (tinymem.archive.embedding, "BATCH")):
        monkeypatch.setattr(module, name, getattr(module, name))  # the worker changes them
    worker = Worker(tmp_path / "memory", tmp_path / "ledger", "000", "7")
    worker.open("exact")
    for name in ("add", "archive", "update the scratchpad", "forget", "summarise episodes", "mark milestones"):
        OPERATIONS[name].work(worker)
    worker.memory.long_term.queue.embed_pending()
    worker.memory.close()
    monkeypatch.setattr(indexing, "IDLE", 1e6)  # the background mends nothing unseen
    expected = Expected()
    expected.read(read_ledger(tmp_path / "ledger"))
    assert check(tmp_path / "memory", "exact", expected, "1")[0] == []
    assert expected.steps and expected.gone and expected.notes and expected.marked
    return tmp_path / "memory", expected


NEWEST = "(SELECT max(number) FROM steps)"
COLUMNS = "step, part, start, end, kind, asks, identifiers, tools"
DAMAGES = {  # a statement, and what the check says of it
    f"DELETE FROM steps WHERE number = {NEWEST}": "and now None",
    f"UPDATE steps SET number = 999 WHERE number = {NEWEST}": "and now 999",
    "DELETE FROM passages WHERE id = (SELECT max(id) FROM passages)": "passages are not those",
    f"INSERT INTO passages SELECT NULL, {COLUMNS} FROM passages LIMIT 1": "passages are not those",
    "UPDATE vectors SET vector = zeroblob(128) WHERE passage = (SELECT max(id) FROM passages)": "vectors are not those",
    "DELETE FROM fulltext_docsize WHERE id = (SELECT max(id) FROM passages)": "full text and passages differ",
    "UPDATE steps SET milestone = 0": "was made a milestone",
    "DELETE FROM meta WHERE key = 'scratchpad'": "the scratchpad has",
    "DELETE FROM summaries": "a summary is lost",
    "DELETE FROM vectors WHERE passage > 1": "what was embedded is not any more",
}


def test_what_is_wrong_is_seen(worked: tuple[Path, Expected], tmp_path: Path) -> None:
    folder, expected = worked
    for number, (sql, seen) in enumerate(DAMAGES.items()):
        copy = shutil.copytree(folder, tmp_path / str(number))
        with closing(sqlite3.connect(copy / "default" / "journal.db")) as db, db:
            assert db.execute(sql).rowcount
        found, _, _ = check(copy, "exact", expected, "1")
        assert any(seen in one for one in found), (sql, found)
    (folder / "default" / "index.tmp").write_text(f"... {word(expected.gone[-1])} ...", encoding="utf-8")
    found, _, _ = check(folder, "exact", expected, "1")
    assert found == [f"index.tmp still has the text of {expected.gone[-1]}"]
