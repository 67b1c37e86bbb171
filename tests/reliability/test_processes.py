"""Real processes on one memory: many at once, and children that were forked off."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from memories import python

from benchmarks.reliability import processes
from tinymem import HierarchicalMemory
from tinymem.upkeep import doctor

open_memory = partial(HierarchicalMemory, embedder="hashing:64", max_tokens=400)


def ended(process: subprocess.Popen[str], said: str = "") -> str:
    """What the process printed, when it has been told `said` and has ended well."""
    out, _ = process.communicate(said, timeout=600)
    assert process.returncode == 0
    return out


@pytest.mark.slow
def test_processes_that_write_and_read_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    """In four seconds there is enough for the index, which one process after the other has."""
    record = processes.soak(tmp_path, writers=3, readers=2, seconds=4)
    assert record["faults"] == []
    assert record["acknowledged"] == record["steps"] >= 2 * 20
    assert record["operations"].keys() >= {"add", "context", "recall"}


FORKED = """
import os, sys, time
from tinymem import HierarchicalMemory, MessageStep
from tinymem.errors import StorageError
from tinymem.recall.search import Search
from tinymem.stores import ChromaStore
store = ChromaStore(sys.argv[1] + "-index") if sys.argv[2] == "chroma in this process" else sys.argv[2]
memory = HierarchicalMemory(sys.argv[1], embedder="hashing:64", store=store, max_tokens=400)
memory.add_steps([MessageStep("user", f"lot {i}") for i in range(40)])
memory.long_term.queue.embed_pending()
memory.long_term.index.follow()
step = memory.short_term.steps[-1]
if not (child := os.fork()):
    uses = [
        lambda: memory.add(MessageStep("user", "child")), lambda: memory.add_messages([]), memory.context,
        lambda: memory.recall("lot"), memory.stats, lambda: memory.get(step.id), lambda: memory.forget(step.id),
        lambda: memory.short_term.add_steps([MessageStep("user", "child")]), lambda: memory.short_term.steps,
        lambda: memory.archive([MessageStep("user", "child")]), lambda: memory.mark(step.id),
        lambda: Search(memory.long_term).recall("lot", 100, step.timestamp), lambda: memory.long_term.journal.rows(),
    ]
    for use in uses:
        try:
            use()
            print("went through", flush=True)
        except StorageError as error:
            print("fork" in str(error) and "open it in the child" in str(error), flush=True)
    memory.close()
    with HierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact", max_tokens=400) as own:
        print(own.add(MessageStep("user", "from the child")).step_number, flush=True)
    sys.exit(0)
print(os.waitpid(child, 0)[1], flush=True)
added = memory.add(MessageStep("user", "from the parent"))
print(added.step_number, "lot 3" in memory.recall("lot 3", 99).text, flush=True)
memory.close()
"""

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.mark.slow
@forks
@pytest.mark.parametrize("store", ["exact", "chroma", "chroma in this process"])
def test_a_forked_child_is_told_to_open_the_memory_itself_and_the_parent_goes_on(tmp_path: Path, store: str) -> None:
    said = ended(python(FORKED, tmp_path, store)).splitlines()
    assert said == ["True"] * 13 + ["41", "0", "42 True"]
    with open_memory(tmp_path) as memory:
        assert memory.stats().steps == 42
    assert doctor(tmp_path, store="chroma" if store == "chroma" else "exact").sound


OUTLIVING = """
import os, sys
from tinymem import HierarchicalMemory, MessageStep
memory = HierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact", max_tokens=400)
memory.add(MessageStep("user", "from the parent"))
if not (child := os.fork()):
    sys.stdin.read(1)
    sys.exit(0)
memory.close()
print("closed", flush=True)
os.waitpid(child, 0)
"""

KILLED = """
import os, signal, sys
from tinymem import HierarchicalMemory, MessageStep
memory = HierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact", max_tokens=400)
memory.add(MessageStep("user", "from another process"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@forks
def test_a_child_that_outlives_its_parents_memory_takes_no_step_of_others_with_it(tmp_path: Path) -> None:
    parent = python(OUTLIVING, tmp_path)
    assert parent.stdout and parent.stdout.readline() == "closed\n"
    other = python(KILLED, tmp_path)
    other.communicate(timeout=600)
    assert other.returncode == -signal.SIGKILL, "its step is in SQLite's log, which nobody has emptied"
    ended(parent, "go")
    with open_memory(tmp_path, store="exact") as memory:
        assert [step.text for step in memory.history(None)] == ["from the parent", "from another process"]


FORKING = """
import os, sys, threading, time
from tinymem import HierarchicalMemory, MessageStep
memory = HierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact", max_tokens=400)
stop = threading.Event()
added = []
def work():
    while not stop.is_set():
        added.append(memory.add(MessageStep("user", f"lot {len(added)}")).step_number)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for turn in range(8):
    time.sleep(0.01)
    if not (child := os.fork()):
        try:
            memory.add(MessageStep("user", "child"))
        except Exception:
            sys.exit(7)  # ends as programs do: what was inherited is taken apart
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, turn
stop.set()
for thread in threads:
    thread.join()
memory.close()
print(len(added), sorted(added) == list(range(1, len(added) + 1)))
"""


@pytest.mark.slow
@forks
def test_forking_while_threads_write_neither_hangs_nor_harms(tmp_path: Path) -> None:
    count, complete = ended(python(FORKING, tmp_path)).split()
    assert complete == "True"
    with open_memory(tmp_path, store="exact") as memory:  # an approximate index may miss some of so many equal vectors
        assert memory.stats().steps == int(count)
    assert doctor(tmp_path, store="exact").sound
