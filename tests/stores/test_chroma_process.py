"""Chroma in a process of its own: what a program notices of it, and what happens when either of the two ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from filelock import Timeout
from memories import python

from tinymem import HierarchicalMemory, MessageStep
from tinymem.archive.indexing.records import vectors_of
from tinymem.errors import StorageError
from tinymem.protocols import VectorStore
from tinymem.registry import store_from
from tinymem.stores import ChromaStore
from tinymem.stores.chroma import process, worker
from tinymem.testing import unit_vectors

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes of Unix")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VectorStore]:
    opened = store_from("chroma", tmp_path / "index")
    opened.upsert([1, 2], unit_vectors(2))
    yield opened
    opened.close()


def pid() -> int:
    running = process._chroma._process
    assert running is not None
    return running.pid


def is_gone(pid: int) -> bool:
    """Tell if a process ends, be it that nobody has waited for it yet."""
    for _ in range(3_000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
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
        "    assert memory.long_term.index.store.count() > 20\n"
        "print('chromadb' in sys.modules)"
    )
    assert python(program, tmp_path / "memory").communicate(timeout=600)[0].split() == ["False"]


def test_a_process_that_is_killed_during_a_call_is_an_error_once_and_loses_nothing(
    store: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = pid()
    os.kill(killed, signal.SIGKILL)
    assert is_gone(killed)
    with monkeypatch.context() as patch:
        patch.setattr(process._chroma, "begin", lambda: None)  # as if it had run when the call began
        with pytest.raises(StorageError, match="process ended"):
            store.count()
    assert store.count() == 2
    assert store.query(unit_vectors(2)[1], 1)[0].tolist() == [2]


def flush(memory: HierarchicalMemory) -> None:
    memory.add_steps([MessageStep("user", f"crate {n} holds pears") for n in range(60)])
    memory.flush()
    assert memory.long_term.index.store.count() == memory.long_term.journal.last_passage()


def forget_first(memory: HierarchicalMemory) -> None:
    (passage,) = memory.long_term.journal.passages(0, 1)
    (vector,) = vectors_of([passage])
    place = memory.long_term.folder / "index"
    assert vector.tobytes() in b"".join(file.read_bytes() for file in place.rglob("*.*"))
    assert memory.forget(memory.get(passage.step).id) == 1
    assert vector.tobytes() not in b"".join(file.read_bytes() for file in place.rglob("*.*"))
    assert passage.id not in memory.long_term.index.store.ids()  # type: ignore[attr-defined]


@pytest.mark.parametrize("call", [flush, forget_first, HierarchicalMemory.close])
def test_a_process_that_hangs_is_killed_and_the_memory_goes_on(
    call: Callable[[HierarchicalMemory], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with HierarchicalMemory(tmp_path / "memory", embedder="hashing:128", max_tokens=200) as memory:
        memory.add_steps([MessageStep("user", f"lot plum{n} apple{n} pear{n}") for n in range(60)])
        memory.flush()
        memory.long_term.index.open()
        stopped = pid()
        os.kill(stopped, signal.SIGSTOP)
        monkeypatch.setattr(process._chroma, "_kills", 0)
        monkeypatch.setattr(process, "ANSWERS_WITHIN", (0.3, 240.0))
        call(memory)
    assert is_gone(stopped)
    assert [record.levelname for record in caplog.records if "did not answer" in record.message] == ["WARNING"]


@pytest.mark.slow
def test_an_interrupt_during_a_call_leaves_no_answer_for_the_next_one(store: VectorStore) -> None:
    def interrupt(frame: FrameType, event: str, called: object) -> None:
        if event == "c_call" and called is pickle.load:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.count()
    assert store.query(unit_vectors(2)[1], 1)[0].tolist() == [2]


@pytest.mark.slow
def test_a_process_that_ended_between_two_calls_is_not_noticed(store: VectorStore) -> None:
    ended = pid()
    os.kill(ended, signal.SIGKILL)
    os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)  # all of its threads, not the first one only
    store.upsert([3], unit_vectors(3)[2:])
    assert sorted(store.ids()) == [1, 2, 3]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, sys; from tinymem.registry import store_from; from tinymem.stores.chroma import process\n"
        "store = store_from('chroma', sys.argv[1]); print(process._chroma._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", program, str(tmp_path / "index")]
    env = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == -signal.SIGKILL
    assert is_gone(int(done.stdout))


def test_a_request_of_a_program_that_is_gone_is_not_done(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, pickle.dumps((0, "open", ("", str(tmp_path / "index")))))
    os.close(writing)
    command = [sys.executable, *process.COMMAND, json.dumps(sys.path)]
    done = subprocess.run(command, stdin=reading, capture_output=True, check=False, timeout=600)
    os.close(reading)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (tmp_path / "index").exists()


@pytest.mark.slow
def test_a_forked_child_uses_chroma_too(store: VectorStore, tmp_path: Path) -> None:
    forking = multiprocessing.get_context("fork")
    answers = forking.Queue()

    def child() -> None:
        try:
            store.count()
        except StorageError as error:
            answers.put(str(error))
        mine = store_from("chroma", tmp_path / "childs")
        mine.upsert([5], unit_vectors(1))
        answers.put(mine.count())
        mine.close()

    started = forking.Process(target=child)
    started.start()
    assert "before a fork" in answers.get(timeout=600)
    assert answers.get(timeout=600) == 1
    started.join(600)
    assert started.exitcode == 0
    assert store.count() == 2


def test_who_has_the_files_open_keeps_others_out(store: VectorStore, tmp_path: Path) -> None:
    others: list[Callable[[], object]] = [
        lambda: ChromaStore(tmp_path / "index"),
        lambda: store_from("chroma", tmp_path / "index"),
    ]
    for other in others:
        with pytest.raises(StorageError, match="open") as failed:
            other()
        assert isinstance(failed.value.__cause__, Timeout)
    store.close()
    ChromaStore(tmp_path / "index").close()


def test_a_python_that_cannot_start_processes_has_chroma_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    store = store_from("chroma", tmp_path / "index")
    assert isinstance(store, ChromaStore)
    store.close()


def test_a_process_that_has_opened_many_stores_is_spent_once_all_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MOST", 2)
    served = worker.Worker()
    for number in (1, 2):
        assert served.answer(0, "open", ("", str(tmp_path / str(number)))) == ("done", number)
    assert not served.is_spent and not served.is_idle
    assert served.answer(1, "count", ()) == ("done", 0)
    served.answer(1, "close", ())
    assert not served.is_spent
    served.close()
    served.answer(2, "close", ())
    assert served.is_spent
