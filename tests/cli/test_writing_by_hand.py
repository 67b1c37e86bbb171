"""`tinymem add`, `mark` and `correct`, and steps that are named by hand: by number, by id, by their metadata."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Run
from commands import tinymem as tinymem  # the fixture

from tinymem import HierarchicalMemory


@pytest.fixture(autouse=True)
def memory(tinymem: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYMEM_EMBEDDER", "hashing")
    tinymem("add", "The", "barn", "key", "hangs", "left.", "--speaker", "Ann", "--metadata", "farm=3")
    monkeypatch.setattr(sys, "stdin", io.StringIO("The barn key hangs right.\n"))
    tinymem("add", "-", "--role", "assistant", "--session", "may", "--time", "2025-05-02")


def test_a_text_is_added_as_it_was_said(tinymem: Run) -> None:
    with HierarchicalMemory("memory", create=False) as opened:
        first, second = opened.get(1), opened.get(2)
    assert (first.text, first.speaker, dict(first.metadata)) == ("The barn key hangs left.", "Ann", {"farm": 3})
    assert (second.text, second.session, second.timestamp.date().isoformat()) == (
        "The barn key hangs right.\n", "may", "2025-05-02",
    )  # fmt: skip


def test_a_step_is_marked_and_corrected_by_its_number(tinymem: Run) -> None:
    assert tinymem("mark", "#1").out == "#1 is a milestone now.\n"
    assert json.loads(tinymem("mark", "1", "--undo", "--json").out)["milestone"] is False
    corrected = json.loads(tinymem("correct", "2", "The barn key is lost.", "--json").out)
    assert corrected["step"] == 3 and len(corrected["corrects"]) == 1
    assert "lost" in tinymem("recall", "Where is the barn key?").out


def test_metadata_and_numbers_say_what_to_recall_and_forget(tinymem: Run) -> None:
    found = tinymem("recall", "Where is the barn key?", "--where", "farm=3").out
    assert "left" in found and "right" not in found
    explained = json.loads(tinymem("explain", "Where is the barn key?", "--where", "farm=3", "--json").out)
    assert [item["step"] for item in [*explained["items"], *explained["next_best"]]] == [1]
    unknown = tinymem("forget", "--id", "1", "--id", "#9", "--yes")
    assert unknown.status == 2 and "no step 9" in unknown.err
    assert tinymem("forget", "--id", "#2", "--yes").out == tinymem("forget", "--where", "farm=3", "--yes").out
    assert json.loads(tinymem("show", "--json").out)["steps"] == 0
    assert "KEY=VALUE" in tinymem("recall", "key", "--where", "farm").err


def test_the_package_runs_as_a_module_and_tells_of_a_full_disk_in_words() -> None:
    command = [sys.executable, "-m", "tinymem", "export", "-"]
    assert b"barn" in subprocess.run(command, capture_output=True, check=True).stdout
    if Path("/dev/full").exists():
        with open("/dev/full", "wb") as full:
            buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
        assert (done.returncode, done.stderr) == (1, "tinymem: No space left on device\n")
