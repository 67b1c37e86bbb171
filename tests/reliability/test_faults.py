"""A memory on a disk that is full or broken: errors that say what to do, and nothing is lost."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memories import START

import tinymem.archive.indexing.indexing
import tinymem.archive.indexing.mirror
from tinymem import ActionStep, FinalAnswerStep, HierarchicalMemory, MessageStep, TaskStep, ToolCall
from tinymem.errors import FormatError, InputError, PruneError, ReadOnlyError, StorageError, TinymemError
from tinymem.stores.sqlite.journal import SqliteJournal

PAGE = 4_096
UNWRITTEN = StorageError, PruneError  # the latter where a step is in, and the window could not be pruned
open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact", max_tokens=600)
Memory = HierarchicalMemory


def noted(memory: Memory) -> str:
    """The scratchpad's text, after a long note."""
    memory.scratchpad.observe("new " * 2_000)
    return memory.scratchpad.to_context()


USES: dict[str, Callable[[Memory], Any]] = {
    "context": lambda m: m.context("pump 7"),
    "context of the task": lambda m: m.context(),
    "recall": lambda m: m.recall("mark12 pump", 500),
    "recall with filters": lambda m: m.recall("mark12", 500, session="s1", tool="look", type="action"),
    "get": lambda m: [m.get(number) for number in (1, 50)],
    "stats": lambda m: m.stats(),
    "episodes": lambda m: [m.medium_term.open(episode) for episode in m.medium_term],
    "scratchpad": lambda m: noted(m),
    "mark": lambda m: m.mark(5),
    "add": lambda m: m.add(MessageStep("user", "a new one")),
    "add many": lambda m: m.add_steps([MessageStep("user", f"a new one {i} " * 20) for i in range(30)]),
    "forget a session": lambda m: m.forget(session="s3"),
    "forget a step": lambda m: m.forget([m.short_term.steps[-1].id]),
    "recall again": lambda m: m.recall("mark99 pump", 500),
    "close": lambda m: m.close(),
}


def used(memory: Memory) -> list[TinymemError]:
    """The errors of using a memory in all ways, of which each must be ours and about the file."""
    errors: list[TinymemError] = []
    for name, use in USES.items():
        try:
            use(memory)
        except UNWRITTEN as error:
            assert ".db" in str(error) or "Chroma could not" in str(error), (name, error)
            errors.append(error)
        except InputError as error:
            assert name in ("get", "mark") and "no step" in str(error), name
    memory.long_term.journal.close()
    return errors


# no space


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[], object]]:
    """A disk of 2 MB at `folder`, and what makes it larger."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.name != "posix" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may mount nothing")
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=99m", str(folder)], check=True)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def small_files(folder: Path) -> Iterator[Callable[[], object]]:
    """No file may have over 1 MB; and what lifts that. (A write beyond it is an error of the system, as on a full
    disk.)"""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
@pytest.mark.parametrize("store", ["exact", "chroma"])
@pytest.mark.parametrize("small", [small_disk, small_files])
def test_without_space_every_error_says_so_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Callable[[Path], Any], store: str
) -> None:
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "WAITING", 500)
    monkeypatch.setattr(tinymem.archive.indexing.mirror, "BATCH", 20)
    with small(tmp_path) as enlarge:
        memory = open_memory(tmp_path / "memory", store=store)
        added: list[int] = []
        with pytest.raises(UNWRITTEN, match=r"journal\.db: .*(free some disk space|check the disk)"):
            for at in range(5_000):
                step = MessageStep("user", f"mark{at} pump {at} {'and more ' * 50}", session=f"s{at // 9}")
                added.append(memory.add(step).step_number or 0)
        assert len(added) > 20 and memory.get(added[-1])
        errors = used(memory)
        assert errors or small is small_files, "what makes the file smaller works where only files may not grow"
        assert not any(isinstance(error, FormatError) for error in errors)
        enlarge()
        with open_memory(tmp_path / "memory", store=store) as memory:
            held = {row.number for row in memory.long_term.journal.rows(limit=10_000)}
            forgotten = {number for number in added if f"s{(number - 1) // 9}" == "s3"} | {max(added)}
            assert set(added) - forgotten <= held
            number = memory.add(MessageStep("user", "There is space again.")).step_number
            assert number is not None and number > max(held) and "space again" in memory.recall("space", 200).text


def test_a_full_disk_is_read_and_closed_without_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinymem.archive.snapshots.LEAST", 50)
    steps = [MessageStep("user", f"mark{at} pump {at}", id=f"id{at}") for at in range(200)]
    with small_disk(tmp_path):
        with open_memory(tmp_path / "closed", store="exact") as memory:
            memory.add_steps(steps)
        memory = open_memory(tmp_path / "memory", store="exact")
        memory.add_steps(steps)
        assert "mark7 pump" in memory.recall("mark7 pump", 500).text
        with suppress(OSError), open(tmp_path / "filler", "wb", buffering=0) as filler:
            while filler.write(bytes(4_096)):
                pass
        with pytest.raises(UNWRITTEN, match="free some disk space"):
            for at in range(5_000):
                memory.add(MessageStep("user", f"more{at} {'and more ' * 50}"))
        assert "mark9 pump" in memory.recall("mark9 pump", 500).text
        assert "mark8 pump" in str(memory.context("mark8 pump", max_tokens=500).messages)
        with pytest.raises(StorageError, match="free some disk space"):
            noted(memory)
        memory.close()  # who noted it was told
        with open_memory(tmp_path / "closed", store="exact") as memory:
            assert "mark9 pump" in memory.recall("mark9 pump", 500).text
            with pytest.raises(ReadOnlyError, match="free some disk space"):
                memory.add(MessageStep("user", "This is not kept."))


def delete_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def move_folder(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def replace_folder(folder: Path) -> None:
    move_folder(folder)
    with open_memory(folder, store="exact") as memory:
        memory.add(MessageStep("user", "I am another memory."))


@pytest.mark.parametrize("change", [delete_folder, move_folder, replace_folder])
def test_a_folder_that_is_gone_or_another_one_is_an_error_at_the_next_call(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    folder = tmp_path / "memory"
    memory = open_memory(folder, store="exact")
    memory.add_steps([MessageStep("user", f"mark{at} pump {at} " * 20, id=f"id{at}") for at in range(50)])
    change(folder)
    before = [*tmp_path.rglob("*")]
    uses: dict[str, Callable[[Memory], Any]] = {
        **USES,
        "export": lambda m: m.export(tmp_path / "export"),
        "flush": lambda m: m.flush(),
    }
    for name in ("add", "context", "recall", "stats", "get", "mark", "forget a session", "export", "flush", "close"):
        with pytest.raises(StorageError, match="was deleted, moved or replaced"):
            uses[name](memory)
    assert [*tmp_path.rglob("*")] == before
    if change is not delete_folder:
        with open_memory(tmp_path / "moved", store="exact") as memory:
            assert "mark7 pump" in memory.recall("mark7 pump", 500).text


@pytest.mark.parametrize("goes_on", ["forgets again", "is killed, and opened"])
def test_a_full_disk_leaves_no_doubt_what_is_forgotten(tmp_path: Path, goes_on: str) -> None:
    whole, folder, filler = tmp_path / "whole", tmp_path / "disk" / "memory", tmp_path / "disk" / "filler"
    with open_memory(whole, store="exact") as memory:
        for at in range(150):
            word, session = ("secretword", "secret") if at % 3 else ("plainword", None)
            memory.add(MessageStep("user", f"{word}{at} {'and more ' * 40}", session=session))
        memory.flush()
    folder.parent.mkdir()
    seen = set()
    with small_disk(folder.parent):
        for spare in range(180_000, 500_000, 12_000):  # from where nothing can be deleted to where all goes well
            shutil.copytree(whole, folder)
            memory = open_memory(folder, store="exact")
            memory.long_term.indexing.in_background = False
            filler.write_bytes(bytes(max(0, shutil.disk_usage(folder).free - spare)))
            try:
                outcome = str(memory.forget(session="secret"))
            except StorageError as error:
                assert "free some disk space" in str(error)
                outcome = str(error).partition(":")[0].partition(",")[0]
            seen.add(outcome)
            filler.unlink()
            kept = sum("secretword" in step.text for step in memory.history())
            assert kept == (100 if outcome == "nothing is forgotten" else 0), outcome
            if outcome == "the steps are deleted" and goes_on == "forgets again":
                assert memory.forget(session="secret") == 0
                assert not has_bytes(folder, b"secretword")
            elif outcome == "the steps are deleted":
                shutil.copytree(folder, folder.with_name("killed"))
                with open_memory(folder.with_name("killed"), store="exact"):
                    assert not has_bytes(folder.with_name("killed"), b"secretword")
                shutil.rmtree(folder.with_name("killed"))
            memory.close()
            shutil.rmtree(folder)
    assert seen == {"nothing is forgotten", "the steps are deleted", "100"}


def has_bytes(folder: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in folder.rglob("*") if path.is_file())


# damage


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of a memory that holds everything a memory can hold; the same bytes in every run."""
    path = tmp_path_factory.mktemp("whole")
    with open_memory(path) as memory:
        memory.long_term.journal.keep({"fence_key": "00" * 16})
        for i in range(60):
            more: dict[str, Any] = {"session": f"s{i // 10}", "timestamp": START + timedelta(minutes=i)}
            seen = f"mark{i} pump {i} {'and more ' * (i % 40)}{'long tail ' * (500 * (i % 50 == 0))}"
            call = ToolCall("look", {}, f"c{i}", seen)
            memory.add(TaskStep(f"task {i}", id=f"t{i}", **more))
            memory.add(ActionStep("Look.", [call], id=f"a{i}", speaker="Ann", **more))
            memory.add(FinalAnswerStep(f"done {i}", id=f"f{i}", **more))
        memory.scratchpad.store("size", (1, 2))
        memory.scratchpad.observe("seen")
        memory.context("pump 3")
        assert list(memory.medium_term)
    return (path / "default" / "journal.db").read_bytes()


def placed(folder: Path, journal: bytes) -> Path:
    """A memory with this journal."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "default").mkdir(parents=True)
    (folder / "tinymem.json").write_text('{"format": 1}', encoding="utf-8")
    (folder / "default" / "journal.db").write_bytes(journal)
    return folder


def damages(whole: bytes, count: int, seed: int) -> Iterator[bytes]:
    """The journal with flipped bits, cut off, or with a page of noise."""
    dice = random.Random(seed)
    for at in range(count):
        damaged = bytearray(whole)
        if at % 6 < 4:
            for _ in range(1 + at % 9):
                damaged[dice.randrange(PAGE if at % 6 == 3 else len(damaged))] ^= 1 << dice.randrange(8)
        elif at % 6 == 4:
            del damaged[dice.randrange(1, len(damaged)) :]
        else:
            page = PAGE * dice.randrange(len(damaged) // PAGE)
            damaged[page : page + PAGE] = dice.randbytes(PAGE)
        yield bytes(damaged)


MANY = [pytest.param(150, seed, marks=pytest.mark.slow) for seed in (10,)]


@pytest.mark.parametrize(("count", "seed"), [(12, 1), *MANY])
def test_a_damaged_memory_fails_with_errors_of_ours_only(tmp_path: Path, whole: bytes, count: int, seed: int) -> None:
    errors: list[TinymemError] = []
    for damaged in damages(whole, count, seed):
        path = placed(tmp_path, damaged)
        try:
            memory = open_memory(path)
        except StorageError as error:
            errors.append(error)
        else:
            errors += used(memory)
    assert len(errors) > count // 3


# What flipped bits may leave that SQLite takes for good: table, column (or key of `meta`), value.
ABSURD: list[tuple[str, str, Any]] = [
    ("passages", "part", -1), ("passages", "start", 1 << 40), ("passages", "end", "x"),
    ("vectors", "vector", b"\xff\x7f" * 64),
    ("steps", "time", "yesterday"), ("steps", "session", b"\xff"),
    ("steps", "record", "{"),
    ("steps", "record", '{"format":99,"type":"task","task":"x"}'),
    ("steps", "view", "{"), ("steps", "position", "x"),
    ("summaries", "text", b"x"),
    ("fulltext_docsize", "id", 1 << 60), ("fulltext_data", "block", b"\x01\x02"),
    *(("meta", key, value) for key in ("fence_key", "scratchpad") for value in ("x", b"\xff")),
]  # fmt: skip


@pytest.mark.parametrize(("table", "column", "value"), ABSURD)
def test_absurd_values_are_errors_of_ours(tmp_path: Path, whole: bytes, table: str, column: str, value: Any) -> None:
    path = placed(tmp_path / "memory", whole)
    newest = {"summaries": "first = (SELECT max(first) FROM summaries)",
              "vectors": "passage = (SELECT max(passage) FROM vectors)", "meta": f"key = '{column}'"}  # fmt: skip
    where = newest.get(table, f"rowid = (SELECT max(rowid) FROM {table})")
    column = "value" if table == "meta" else column
    with closing(SqliteJournal(path / "default" / "journal.db")) as journal:
        journal.read(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))
    try:
        memory = open_memory(path)
    except StorageError:
        return
    assert used(memory)
