"""Who may read a memory's files: their owner, whatever the umask."""

from __future__ import annotations

import json
import logging
import os
import stat
from functools import partial
from pathlib import Path

import pytest
from memories import python

from tinymem import HierarchicalMemory, MessageStep
from tinymem.stores.files import NewFiles, make_private_file, make_private_folder
from tinymem.upkeep import export_memory

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")

FILLING = """
import json, os, sys
from pathlib import Path
os.umask(int(sys.argv[2], 8))
from tinymem import HierarchicalMemory, MessageStep
from tinymem.stores.chroma.server import collection_of
path = Path(sys.argv[1])
modes = {}
def look():
    for file in [*path.rglob("*"), path, path.parent]:
        modes.setdefault(str(file.relative_to(path.parent)), set()).add(oct(file.stat().st_mode & 0o777))
for _ in range(2):
    with HierarchicalMemory(path, embedder="hashing:64") as memory:
        memory.add_steps([MessageStep("user", f"Lot {n} holds {n * 7} plums.") for n in range(100)])
        look()
        memory.recall("lot 3")
        memory.long_term.index.follow()
        look()
        memory.archive([MessageStep("user", f"Crate {n} holds {n * 7} figs.") for n in range(1_200)])
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
        memory.scratchpad.observe("a plum")
        look()
        memory.forget([memory.get(3).id]) if not _ else None
        memory.long_term.index.follow()
        look()
    look()
collection_of(path / "served")
look()
print(json.dumps({name: sorted(found) for name, found in modes.items()}))
"""


@pytest.mark.slow
def test_what_is_made_is_for_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    out, _ = python(FILLING, tmp_path / "made" / "memory", "000").communicate(timeout=600)
    modes = json.loads(out)
    names = {Path(name).name for name in modes}
    assert {"tinymem.json", "journal.db", "journal.db-wal", "journal.db-shm", "chroma.sqlite3", "tinymem.lock",
            "collection.txt", "data_level0.bin"} <= names  # fmt: skip
    for name, found in modes.items():
        is_file = "." in Path(name).name or name.endswith(("-wal", "-shm"))
        assert found == ["0o600" if is_file else "0o700"], (name, found)


def test_even_a_umask_that_takes_the_owners_rights_is_no_obstacle(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        make_private_folder(tmp_path / "a" / "b")
        assert make_private_file(tmp_path / "a" / "b" / "file") and not make_private_file(tmp_path / "a" / "b" / "file")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a", tmp_path / "a" / "b" / "file")]
    assert modes == [0o700, 0o600]


def test_what_was_there_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir(0o755)
    (tmp_path / "memory").chmod(0o755)
    with open_memory(tmp_path / "memory"):
        pass
    assert stat.S_IMODE((tmp_path / "memory").stat().st_mode) == 0o755
    (tmp_path / "old").write_text("mine")
    (tmp_path / "old").chmod(0o644)
    files = NewFiles(tmp_path)
    (tmp_path / "new").write_text("ours")
    (tmp_path / "new").chmod(0o644)
    files.make_private()
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("old", "new")] == [0o644, 0o600]


def test_what_is_written_out_of_a_memory_is_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_memory(tmp_path / "memory") as memory:
            memory.add(MessageStep("user", "The ladder is behind the shed."))
            memory.export(tmp_path / "export.jsonl")
        (tmp_path / "old.jsonl").touch()
        (tmp_path / "old.jsonl").chmod(0o640)
        export_memory(tmp_path / "memory", tmp_path / "old.jsonl")
    finally:
        os.umask(before)
    names = ("export", "old")
    modes = [stat.S_IMODE((tmp_path / f"{name}.jsonl").stat().st_mode) for name in names]
    assert modes == [0o600, 0o640]


def test_a_namespace_that_others_may_look_into_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("ann", "bob"):
        with open_memory(tmp_path, namespace=name):
            pass
    assert caplog.messages == []
    (tmp_path / "ann").chmod(0o750)
    with caplog.at_level(logging.WARNING):
        for name in ("ann", "bob", "ann"):
            with open_memory(tmp_path, namespace=name) as memory:
                memory.add(MessageStep("user", "It works all the same."))
    assert caplog.messages == [
        f"other users can read {tmp_path / 'ann'} (mode 750): to prevent that, chmod -R go-rwx it"
    ]
    assert stat.S_IMODE((tmp_path / "ann").stat().st_mode) == 0o750
