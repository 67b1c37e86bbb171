"""A memory that may only be read: it is asked, examined and exported, and what would write says that it cannot."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import Run
from commands import tinymem as tinymem  # the fixture

from tinymem import HierarchicalMemory, MessageStep
from tinymem.errors import ReadOnlyError, StorageError
from tinymem.upkeep.diagnosis import doctor, rebuild

pytestmark = pytest.mark.permissions

SMALL = {"embedder": "hashing:64", "window_tokens": 60, "system_prompt": "You garden."}
LADDER = "The ladder is behind the shed."


def fill(folder: Path) -> HierarchicalMemory:
    memory = HierarchicalMemory(folder, **SMALL)  # type: ignore[arg-type]
    memory.add_steps([MessageStep("user", text, session="garden") for text in (LADDER, "Noted. " * 40, "Thanks.")])
    return memory


def in_use(folder: Path) -> HierarchicalMemory:
    memory = fill(folder)
    memory.flush()
    return memory


def closed(folder: Path) -> HierarchicalMemory:
    with in_use(folder) as memory:
        return memory


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody may write in the folder inside, this user neither."""
    modes = {path: path.stat().st_mode & 0o7777 for path in (folder, *folder.rglob("*"))}
    for path in modes:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def files_of(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize("make", [closed, in_use])
def test_it_is_asked_and_examined_and_refuses_to_change(
    tmp_path: Path, make: Callable[[Path], HierarchicalMemory], tinymem: Run
) -> None:
    folder = tmp_path / "memory"
    with make(folder):
        before = files_of(folder)
        with read_only(folder):
            memory = HierarchicalMemory(folder, **SMALL)  # type: ignore[arg-type]
            assert "shed" in memory.recall("Where is the ladder?", max_tokens=100).text
            assert "shed" in str(memory.context("ladder", max_tokens=400).messages)
            assert memory.explain("ladder", max_tokens=100).recalled.items
            assert [step.step_number for step in memory.history()] == [1, 2, 3, 4] and memory.stats().steps == 4
            exported = io.StringIO()
            assert memory.export(exported).steps == 4 and LADDER in exported.getvalue()
            assert doctor(folder).sound
            step = MessageStep("user", "It is in the shed now.")
            changes: list[Callable[[], object]] = [
                lambda: memory.add(step),
                lambda: memory.archive([step]),
                lambda: memory.add_messages([{"role": "user", "content": "It is in the shed now."}]),
                lambda: memory.fit([{"role": "user", "content": "Where is it?"}], session="new"),
                lambda: memory.correct(2, "It is in the shed now."),
                lambda: memory.mark(2),
                lambda: memory.forget(session="garden"),
                lambda: memory.prune(lambda steps: list(steps[-1:])),
                lambda: memory.clear(),
                lambda: memory.flush(),
                lambda: rebuild(folder),
            ]
            for change in changes:
                with pytest.raises(ReadOnlyError, match="may only be read, so nothing was written: make its folder"):
                    change()
            assert len(memory.steps) == len(HierarchicalMemory(folder, **SMALL).steps)  # type: ignore[arg-type]
            memory.close()
            for command in ("recall ladder", "get 2", "show", "context ladder", "export -"):
                done = tinymem(*command.split(), "--path", str(folder))
                assert done.status == 0, done.err
            assert tinymem("forget", "--session", "garden", "--yes", "--path", str(folder)).status == 1
        assert files_of(folder) == before


@pytest.mark.slow  # each a process without rights
def test_what_is_written_meanwhile_is_not_read_by_halves(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    closed(folder)
    with read_only(folder):
        reader = HierarchicalMemory(folder, **SMALL)  # type: ignore[arg-type]
    with HierarchicalMemory(folder, **SMALL) as writer:  # type: ignore[arg-type]
        writer.add(MessageStep("user", "It is in the garage now."))
    with pytest.raises(StorageError, match="has written it: open the memory again"):
        reader.recall("ladder", max_tokens=100)


@pytest.mark.slow
def test_a_log_that_a_killed_process_left_is_read_where_it_can_be_written(tmp_path: Path) -> None:
    with fill(tmp_path / "running"):
        shutil.copytree(tmp_path / "running", tmp_path / "killed")
    (tmp_path / "killed" / "default" / "journal.db-shm").unlink()
    with (
        read_only(tmp_path / "killed"),
        pytest.raises(StorageError, match="check that the folder exists and is writable"),
    ):
        HierarchicalMemory(tmp_path / "killed", **SMALL)  # type: ignore[arg-type]
    with HierarchicalMemory(tmp_path / "killed", **SMALL) as memory:  # type: ignore[arg-type]
        assert "shed" in memory.recall("Where is the ladder?", max_tokens=100).text


def test_nothing_is_made_where_nothing_may_be_written(tmp_path: Path) -> None:
    HierarchicalMemory(tmp_path / "memory", embedder="hashing:64", store="exact").close()
    with read_only(tmp_path):
        for path, namespace in ((tmp_path / "new", "default"), (tmp_path / "memory", "new")):
            with pytest.raises(StorageError, match="choose a folder that can be written"):
                HierarchicalMemory(path, namespace=namespace)
