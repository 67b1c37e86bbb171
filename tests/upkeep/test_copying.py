"""A memory that may only be read: the commands that ask read a copy of it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from commands import Run
from commands import tinymem as tinymem  # the fixture
from memories import without_privileges

from tinymem import HierarchicalMemory, MessageStep


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions as on Unix")
@pytest.mark.parametrize("is_open", [False, True])
def test_the_command_reads_a_memory_that_may_only_be_read(shared_folder: Path, is_open: bool, tinymem: Run) -> None:
    folder = shared_folder / "memory"
    with HierarchicalMemory(folder, embedder="hashing:64", store="exact") as memory, ExitStack() as closed:
        memory.add_steps([MessageStep("user", "The ladder is behind the shed."), MessageStep("assistant", "Noted.")])
        memory.flush()
        if not is_open:
            memory.close()
        before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
        for path in [folder, *folder.rglob("*")]:
            closed.callback(path.chmod, path.stat().st_mode & 0o7777)
            path.chmod(0o555 if path.is_dir() else 0o444)
        with without_privileges():
            asked = {
                "recall": ("ladder",),
                "get": ("1",),
                "show": (),
                "stats": (),
                "context": ("ladder",),
                "export": ("-",),
            }
            for command, arguments in asked.items():
                done = tinymem(command, *arguments, "--path", str(folder))
                assert done.status == 0, done.err
                assert "shed" in done.out or command in ("show", "stats")
        assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before
