"""`tinymem watch`: files that grow, move and are read by a new process, each message of which comes once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Run
from commands import tinymem as tinymem  # the fixture
from test_transcripts import CLAUDE, CODEX, claude, write

from tinymem import HierarchicalMemory
from tinymem.runs.growing import WatchedFolder


@pytest.fixture
def memory() -> Iterator[HierarchicalMemory]:
    with HierarchicalMemory(embedder="hashing:64", store="exact") as opened:
        yield opened


def look(watched: WatchedFolder, memory: HierarchicalMemory) -> list[tuple[str, int, str | None]]:
    return [(Path(done.file).name, done.steps, done.error) for done in watched.changes(memory)]


def test_files_in_folders_below_are_found_as_they_come(tmp_path: Path, memory: HierarchicalMemory) -> None:
    watched = WatchedFolder(tmp_path)
    assert look(watched, memory) == []
    (tmp_path / "project").mkdir()
    write(tmp_path / "project" / "s1.jsonl", CLAUDE)
    write(tmp_path / "notes.txt", CLAUDE)
    assert look(watched, memory) == [("s1.jsonl", 4, None)]
    write(tmp_path / "c1.jsonl", CODEX)
    assert look(watched, memory) == [("c1.jsonl", 4, None)]


def test_a_process_that_starts_again_adds_what_is_new(tinymem: Run, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    command = ("watch", str(folder), "--once", "--path", "m", "--embedder", "hashing:64")
    write(folder / "s1.jsonl", CLAUDE)
    assert tinymem(*command).out.endswith("s1.jsonl: 4 steps\n")
    write(folder / "s1.jsonl", [*CLAUDE, claude("user", "Thanks.")])
    assert tinymem(*command).out.endswith("s1.jsonl: 1 step\n")
    assert tinymem(*command).out == ""
