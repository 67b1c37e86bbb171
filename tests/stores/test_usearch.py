"""What is special to usearch's store: its graph and its tail are two files, and either may be there after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from commands import child_environment
from memories import printed

from tinymem import HierarchicalMemory
from tinymem.errors import FormatError, StorageError
from tinymem.stores import UsearchStore
from tinymem.stores.usearch import store as usearch
from tinymem.testing import check_persistence, unit_vectors

pytestmark = pytest.mark.skipif(find_spec("usearch") is None, reason="the extra usearch is not installed")

WRITER = """
import sys
from tinymem.stores.usearch import store as usearch
from tinymem.testing import unit_vectors
usearch.TAIL = 20
store, vectors = usearch.UsearchStore(sys.argv[1]), unit_vectors(3_000)
for start in range(store.count(), 3_000, 7):
    store.upsert(range(start, min(start + 7, 3_000)), vectors[start : start + 7])
    print(min(start + 7, 3_000), flush=True)
"""


@pytest.fixture(params=[usearch.TAIL, 6], ids=["tail", "graph"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store whose vectors are in the tail, or nearly all in the graph."""
    monkeypatch.setattr(usearch, "TAIL", request.param)
    return tmp_path / "new" / "index"


def test_vectors_stay_on_disk(folder: Path) -> None:
    check_persistence(lambda: UsearchStore(folder))


def test_what_is_removed_or_replaced_is_found_no_more_and_all_files_go_with_the_rest(folder: Path) -> None:
    vectors = unit_vectors(20)
    store = UsearchStore(folder)
    store.upsert(range(20), vectors)
    store.upsert([7], vectors[8:9])
    store.delete([3, 4])
    for _ in range(2):
        assert sorted(store.ids()) == [n for n in range(20) if n not in (3, 4)]
        assert store.query(vectors[8], 2)[0].tolist() == [7, 8]
        assert not {3, 4} & {*store.query(vectors[3], 20)[0].tolist()}
        store.close()
        store = UsearchStore(folder)
    store.close()
    assert UsearchStore.erase("", folder)
    assert [file.name for file in folder.iterdir()] == ["tinymem.lock"]


@pytest.mark.slow
def test_a_writer_may_be_killed_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usearch, "TAIL", 20)
    folder, vectors, acknowledged = tmp_path / "index", unit_vectors(3_000), 0
    rng = np.random.default_rng(0)
    for _ in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, folder],
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        )
        assert writer.stdout is not None
        for _ in range(rng.integers(1, 40)):
            if line := writer.stdout.readline():
                acknowledged = int(line)
        writer.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, writer.communicate()[0].split())])
        store = UsearchStore(folder)
        held = np.sort(store.ids())
        assert held.tolist() == list(range(len(held)))
        assert acknowledged <= len(held) <= acknowledged + 7
        assert [store.query(vectors[n], 1)[0][0] for n in held[::29]] == held[::29].tolist()
        store.close()


FLIPPER = """
import sys
from pathlib import Path
from tinymem.errors import FormatError
from tinymem.registry import store_from
from tinymem.stores.usearch import store as usearch
from tinymem.testing import unit_vectors
usearch.TAIL, folder = 6, Path(sys.argv[1])
store = usearch.UsearchStore(folder)
store.upsert(range(50), unit_vectors(50))
store.delete([20])
store.close()
found = []
for file in (folder / usearch.GRAPH, folder / usearch.GRAPH_IDS):
    whole = file.read_bytes()
    for place in range(0, 8 * len(whole), 8 * len(whole) // 100 + 1):
        usearch._checked.clear()
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        try:
            usearch.UsearchStore(folder)
        except FormatError:
            found.append(True)
        else:
            found.append(False)
    file.write_bytes(whole if file.name == usearch.GRAPH else damaged)
usearch._checked.clear()
made = store_from("usearch", folder)
print(len(found) > 190, all(found), made.count())
"""


def test_each_flipped_bit_is_found_before_the_graph_is_used_and_the_store_begins_again(tmp_path: Path) -> None:
    assert printed(FLIPPER, tmp_path / "index").split()[-3:] == ["True", "True", "0"]


@pytest.mark.parametrize("name", [usearch.GRAPH, usearch.GRAPH_IDS])
def test_a_file_that_was_cut_short_is_a_format_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usearch, "TAIL", 6)
    store = UsearchStore(tmp_path)
    store.upsert(range(50), unit_vectors(50))
    store.close()
    os.truncate(tmp_path / name, (tmp_path / name).stat().st_size // 2)
    with pytest.raises(FormatError, match="the index is made again"):
        UsearchStore(tmp_path)


def test_one_store_at_a_time_has_a_folder(tmp_path: Path) -> None:
    store = UsearchStore(tmp_path)
    for use in (UsearchStore, lambda path: UsearchStore.erase("", path)):
        with pytest.raises(StorageError, match="another store"):
            use(tmp_path)
    store.close()


@pytest.mark.parametrize("at", ["_append", "_merge", "_void_rows"])
def test_an_interrupt_leaves_a_whole_store(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usearch, "TAIL", 6)
    store, vectors = UsearchStore(tmp_path), unit_vectors(30)
    store.upsert(range(20), vectors[:20])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(UsearchStore, at, interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.upsert(range(15, 30), vectors[15:])
    store.upsert(range(15, 30), vectors[15:])
    assert sorted(store.ids()) == list(range(30))
    assert [store.query(vector, 1)[0][0] for vector in vectors] == list(range(30))
    store.close()


def test_a_memory_recalls_from_it_and_forgets_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usearch, "TAIL", 16)
    with HierarchicalMemory(tmp_path, store="usearch", max_tokens=300) as memory:
        for n in range(60):
            memory.add_message(
                "user", f"Locker {n} belongs to {['Ann', 'Bob', 'Cem'][n % 3]} and opens with {n * 7919}."
            )
        memory.flush()
        memory.long_term.index.exact_up_to = 0  # as if there were many: the store is asked
        assert "opens with 95028." in memory.recall("What opens locker 12?", max_tokens=60).text
        memory.forget([memory.recall("What opens locker 12?", max_tokens=60).items[0].step.id])
        memory.flush()
        assert memory.stats().store == "usearch"
        assert "95028" not in memory.recall("What opens locker 12?", max_tokens=60).text


def test_onnxruntime_can_be_loaded_behind_it(tmp_path: Path) -> None:
    program = "import sys; from tinymem.stores import UsearchStore; UsearchStore(sys.argv[1]); import onnxruntime"
    assert printed(program, tmp_path / "index") == ""
