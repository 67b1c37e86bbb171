"""Files that are ingested again: longer, damaged, after a kill, from a pipe; each run is in the memory once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from memories import python

from tinymem import HierarchicalMemory
from tinymem.cli.demo import RECORDING
from tinymem.messages.conversion import messages_from_steps
from tinymem.runs.ingest import BATCH, ingest_files

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
