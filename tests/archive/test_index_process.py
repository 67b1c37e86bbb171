"""The process of the index: what a program notices of it, and what happens when either of the two ends."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import enumerate as enumerate_threads

import pytest
from memories import count_in, python

from tinymem import HierarchicalMemory, MessageStep
from tinymem.archive.indexing import child as module
from tinymem.archive.indexing import index
from tinymem.archive.indexing.child import Child
from tinymem.archive.indexing.mirror import Mirror, read_notes, vectors_of
from tinymem.errors import StorageError
from tinymem.stores.chroma.store import ChromaStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.fills_index,
    pytest.mark.skipif(os.name != "posix", reason="processes of Unix"),
]


def lots(count: int, first: int = 0) -> list[MessageStep]:
    return [MessageStep("user", f"lot plum{n} apple{n} pear{n}") for n in range(first, first + count)]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with HierarchicalMemory(tmp_path / "memory", embedder="hashing:128", max_tokens=200) as opened:
        opened.add_steps(lots(60))
        opened.flush()
        yield opened


def stopped(memory: HierarchicalMemory) -> int:
    """Have a memory's index filled by a process that hangs; its number."""
    memory.add_steps(lots(60, 60))
    memory.long_term.queue.embed_pending()
    with memory.long_term.index._guard:  # the background looks at it too
        memory.long_term.index.let_go()
        memory.long_term.index.advance()
        child = memory.long_term.index._child
        assert child is not None
        os.kill(child._process.pid, signal.SIGSTOP)
        return child._process.pid


def is_gone(pid: int) -> bool:
    """Tell if a process ends, be it that nobody has waited for it yet."""
    for _ in range(15_000):
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_the_program_that_archives_does_not_import_chromadb(tmp_path: Path) -> None:
    program = (
        "import sys; from tinymem import HierarchicalMemory, MessageStep\n"
        "with HierarchicalMemory(sys.argv[1], embedder='hashing:64', max_tokens=200) as memory:\n"
        "    memory.add_steps([MessageStep('user', f'lot {n} holds plums') for n in range(60)])\n"
        "    memory.flush()\n"
        "    assert memory.stats().indexed_passages == 60\n"
        "print('chromadb' in sys.modules)"
    )
    assert python(program, tmp_path / "memory").communicate(timeout=600)[0].split() == ["False"]


def flush(memory: HierarchicalMemory) -> None:
    with pytest.raises(StorageError, match="gets nothing"):
        memory.flush()
    index.FOLLOWED = 600.0
    memory.flush()
    assert count_in(memory.long_term) == memory.long_term.journal.last_passage() == 120


def forget_first(memory: HierarchicalMemory) -> None:
    (passage,) = memory.long_term.journal.passages(0, 1)
    (vector,) = vectors_of([passage])
    place = memory.long_term.folder / "index"
    assert vector.tobytes() in b"".join(file.read_bytes() for file in place.rglob("*.*"))
    assert memory.forget(memory.get(passage.step).id) == 1
    assert vector.tobytes() not in b"".join(file.read_bytes() for file in place.rglob("*.*"))


@pytest.mark.parametrize("call", [flush, forget_first, HierarchicalMemory.close])
def test_a_process_that_hangs_is_killed_and_the_memory_goes_on(
    call: Callable[[HierarchicalMemory], None], memory: HierarchicalMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = stopped(memory)
    monkeypatch.setattr(index, "FOLLOWED", 0.5)
    monkeypatch.setattr(index, "CLOSES_WITHIN", 0.3)
    monkeypatch.setattr(Child.end, "__defaults__", (0.3,))
    call(memory)
    assert is_gone(hanging)


def test_one_that_gets_nothing_done_ends_by_itself(memory: HierarchicalMemory, tmp_path: Path) -> None:
    waiting = Child(wait_for_ever, tmp_path, "chroma")
    assert not waiting.runs(600)
    with pytest.raises(StorageError, match="has ended"):
        waiting.answer()


def wait_for_ever(folder: str, name: str) -> None:
    module.STUCK = 0.2

    def never_ends(*_: object) -> None:
        time.sleep(600)

    Mirror.follow = never_ends  # type: ignore[assignment, method-assign]
    module.follow(folder, name)


def read_for_long(folder: str, journal: str) -> None:
    with closing(sqlite3.connect(journal)) as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM steps").fetchone()
        (Path(folder) / "begun").touch()
        time.sleep(600)


def test_forgetting_waits_for_no_process_of_its_own_that_reads_the_journal(
    memory: HierarchicalMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Child.end, "__defaults__", (0.3,))
    journal = memory.long_term.folder / "journal.db"
    reader = memory.long_term.index._child = Child(read_for_long, tmp_path, str(journal))
    for _ in range(15_000):
        if (tmp_path / "begun").exists():
            break
        time.sleep(0.02)
    assert memory.forget(memory.get(1).id) == 1
    assert not reader.runs() and b"plum0" not in journal.read_bytes()


def test_what_is_replaced_leaves_no_vector_in_a_closed_memory(memory: HierarchicalMemory) -> None:
    (passage,) = memory.long_term.journal.passages(6, 1)
    (vector,) = vectors_of([passage])
    place, id = memory.long_term.folder / "index", memory.get(passage.step).id
    assert vector.tobytes() in b"".join(file.read_bytes() for file in place.rglob("*.*"))
    memory.archive([MessageStep("user", "Something else.", id=id)], on_conflict="replace")
    memory.close()
    assert vector.tobytes() not in b"".join(file.read_bytes() for file in place.rglob("*.*"))


def state_of(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def children() -> list[str]:
    """The processes that this one has started, and that still run."""
    tasks = Path("/proc/self/task").iterdir()
    return [pid for task in tasks for pid in (task / "children").read_text(encoding="utf-8").split()]


def test_a_closed_memory_has_all_its_passages_in_chroma_and_nothing_goes_on(tmp_path: Path) -> None:
    others = children()
    with HierarchicalMemory(tmp_path / "memory", embedder="hashing:64", max_tokens=200) as memory:
        memory.add_steps(lots(200))
    before = state_of(tmp_path)
    assert children() == others and "tinymem" not in [thread.name for thread in enumerate_threads()]
    with closing(ChromaStore(tmp_path / "memory" / "default" / "index")) as store:
        assert store.count() == 200
    assert [path for path, time in before.items() if state_of(tmp_path)[path] != time and path.suffix == ".db"] == []


def test_what_a_killed_program_left_is_done_when_the_memory_is_opened_again(tmp_path: Path) -> None:
    program = (
        "import os, sys; from tinymem import HierarchicalMemory, MessageStep\n"
        "memory = HierarchicalMemory(sys.argv[1], embedder='hashing:64', max_tokens=200)\n"
        "memory.add_steps([MessageStep('user', f'lot {n} holds plums') for n in range(200)])\n"
        "memory.long_term.queue.embed_pending()\n"
        "memory.long_term.index.advance(), os.kill(os.getpid(), 9)"
    )
    python(program, tmp_path / "memory").communicate(timeout=600)
    with HierarchicalMemory(tmp_path / "memory") as memory:
        memory.flush()
    notes = read_notes(tmp_path / "memory" / "default" / "index")
    assert notes.passage == 200


def test_a_python_that_cannot_start_processes_fills_the_index_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(Child, "__init__", lambda *_: pytest.fail("no process can be started"))
    with HierarchicalMemory(tmp_path / "memory", embedder="hashing:64", max_tokens=200) as memory:
        memory.add_steps(lots(60))
        memory.flush()
        assert memory.stats().indexed_passages == 60
        memory.add_steps(lots(60, 60))
    notes = read_notes(tmp_path / "memory" / "default" / "index")
    assert notes.passage == 120


def test_neither_closing_nor_forgetting_cares_for_the_index_of_another_memory(
    memory: HierarchicalMemory, tmp_path: Path
) -> None:
    hanging = stopped(memory)
    with ThreadPoolExecutor(1) as pool:
        flushing = pool.submit(memory.flush)
        with HierarchicalMemory(tmp_path / "other", embedder="hashing:128", max_tokens=200) as other:
            other.add_steps(lots(60))
            other.forget(other.get(1).id)
        with closing(ChromaStore(tmp_path / "other" / "default" / "index")) as store:
            assert store.count() == 59
        os.kill(hanging, signal.SIGCONT)
        flushing.result(600)
    assert count_in(memory.long_term) == 120
