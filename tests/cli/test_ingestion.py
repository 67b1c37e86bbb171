"""Files that are ingested again: longer, damaged, after a kill, from a pipe; each run is in the memory once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from commands import child_environment, interruptible
from memories import python
from session_files import write_sessions

from tinymem import HierarchicalMemory
from tinymem.cli.demo import RECORDING
from tinymem.messages.conversion import messages_from_steps
from tinymem.runs.ingest import BATCH, ingest_files
from tinymem.runs.transcripts import APART, DAMAGED

unix = pytest.mark.skipif(os.name != "posix", reason="signals and pipes of Unix")
Chat = list[dict[str, Any]]

# Ingests a file, and is killed when so many batches are in.
KILLED = """
import os, signal, sys
from pathlib import Path
from tinymem import HierarchicalMemory
from tinymem.runs.ingest import ingest_files
path, file, batches = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
def advance(done, total):
    global batches
    batches -= 1
    if batches == 0:
        os.kill(os.getpid(), signal.SIGKILL)
with HierarchicalMemory(path, embedder="hashing:64", store="exact", max_tokens=500) as memory:
    ingest_files(memory, [file], advance)
"""


def open_memory(path: Path) -> HierarchicalMemory:
    return HierarchicalMemory(path, embedder="hashing:64", store="exact", max_tokens=500)


def ingest(memory: HierarchicalMemory, *files: Path) -> list[tuple[int, int]]:
    """How many steps of each file were added, and how many were there."""
    return [(one.steps, one.known) for one in ingest_files(memory, files)]


def write(path: Path, *values: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def chat(first: int, last: int) -> Chat:
    roles = ("assistant", "user")
    return [
        {"role": roles[n % 2], "content": f"line {n}: pump {n % 7} reached {n * 13} bar"} for n in range(first, last)
    ]


def held(memory: HierarchicalMemory) -> Chat:
    numbers = [row.number for row in memory.long_term.journal.rows(limit=100_000)]
    steps = memory.long_term.fetch(numbers)
    return messages_from_steps(steps[number] for number in numbers)


def test_a_file_that_grew_adds_what_is_new(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with open_memory(tmp_path / "m") as memory:
        assert ingest(memory, write(file, *chat(0, 150))) == [(150, 0)]
        assert ingest(memory, file) == [(0, 150)]
        assert ingest(memory, write(file, *chat(0, 170))) == [(20, 150)]
        assert ingest(memory, write(file, *chat(0, 40))) == [(0, 40)]
        assert held(memory) == chat(0, 170)


def test_a_run_that_broke_off_at_a_call_goes_on_with_its_result(tmp_path: Path) -> None:
    run = [json.loads(line) for line in RECORDING.read_text("utf-8").splitlines()]
    at = next(n for n, message in enumerate(run) if n > 100 and message["role"] == "tool")
    file = tmp_path / "run.jsonl"
    with open_memory(tmp_path / "m") as memory:
        for until in (at, at + 1, len(run)):
            assert ingest_files(memory, [write(file, *run[:until])])[0].error is None
        assert held(memory) == run


def test_what_was_forgotten_is_not_taken_in_again(tmp_path: Path) -> None:
    file = write(tmp_path / "run.jsonl", *chat(0, 100))
    with open_memory(tmp_path / "m") as memory:
        ingest(memory, file)
        memory.forget([memory.get(number).id for number in (1, 2, 70)])
        assert ingest(memory, file) == [(0, 100)]
        assert len(held(memory)) == 97


def test_a_folder_of_sessions_is_added_once_with_a_true_report(tmp_path: Path) -> None:
    write_sessions(tmp_path / "agents")
    with open_memory(tmp_path / "m") as memory:
        done = ingest_files(memory, [tmp_path / "agents"])
        left = sum((Counter(one.skipped) for one in done), Counter[str]())
        held_before = memory.stats().steps
        assert sum(one.steps for one in done) == held_before
        assert not any(one.steps for one in ingest_files(memory, [tmp_path / "agents"]))
    assert (len(done), [one.error for one in done if one.error]) == (40, [])
    assert left == {
        **{"thinking": 60, "progress": 60, "note": 23, "setting": 10, "summary": 3, APART: 3, DAMAGED: 6},
        **{"message of another branch": 3, "call of the memory's own tools": 3, "result of the memory's own tools": 3},
    }


@unix
def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    pipe = tmp_path / "run.jsonl"
    with open_memory(tmp_path / "m") as memory:
        for until, new in ((70, 70), (90, 20)):
            os.mkfifo(pipe)
            writing = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
            text = "".join(json.dumps(message) + "\n" for message in chat(0, until))
            with subprocess.Popen([sys.executable, "-c", writing, str(pipe), text]):
                assert ingest(memory, pipe) == [(new, until - new)]
            pipe.unlink()


@pytest.mark.slow
@unix
def test_a_killed_ingest_goes_on_where_it_was(tmp_path: Path) -> None:
    run = [json.loads(line) for line in RECORDING.read_text("utf-8").splitlines()] * 2
    file = write(tmp_path / "run.jsonl", *run)
    for _ in range(2):
        killed = python(KILLED, tmp_path / "m", file, 2)
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
    with open_memory(tmp_path / "m") as memory:
        before = len(memory.long_term.journal.rows(limit=100_000))
        (done,) = ingest_files(memory, [file])
        assert (before, done.known, done.error) == (2 * 2 * BATCH, before, None) and done.steps > 0
        assert held(memory) == run


@pytest.mark.slow
@unix
def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    file = write(tmp_path / "run.jsonl", *chat(0, 8_000))
    command = [*interruptible(), "ingest", str(file), "--path", str(tmp_path / "m"), "--embedder"]
    environment = child_environment()
    with subprocess.Popen(
        [*command, "hashing:64"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        while steps_in(tmp_path / "m" / "default" / "journal.db") == 0:
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=600)
    assert (running.returncode, out) == (130, "")
    assert err == "tinymem: stopped; what was added so far is kept: run it again to go on\n"
    before = steps_in(tmp_path / "m" / "default" / "journal.db")
    assert 0 < before < 8_000
    write(file, *chat(0, before + 500))
    done = subprocess.run([*command, "hashing:64", "--json"], env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout)["files"] == [
        {"file": str(file), "runs": 1, "steps": 500, "known": before, "error": None, "skipped": {}, "damaged": []}
    ]
    with HierarchicalMemory(tmp_path / "m", embedder="hashing:64") as memory:
        assert held(memory) == chat(0, before + 500)


def steps_in(journal: Path) -> int:
    """How many steps a journal holds that another process may be writing."""
    if not journal.exists():
        return 0
    try:
        with sqlite3.connect(journal.absolute().as_uri() + "?mode=ro", uri=True) as db:
            return int(db.execute("SELECT count(*) FROM steps").fetchone()[0])
    except sqlite3.OperationalError:  # it is just being made
        return 0
