"""Who may read a memory's files: their owner, whatever the umask."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from memories import python

from tinymem import HierarchicalMemory, MessageStep
from tinymem.stores.files import NewFiles
from tinymem.upkeep import export_memory

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


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
for turn in range(2):
    with HierarchicalMemory(path, embedder="hashing:64") as memory:
        memory.archive([MessageStep("user", f"Crate {n} holds {n * 7} figs.") for n in range(1_300)])
        memory.scratchpad.observe("a plum")
        look()
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
        look()
        memory.forget([memory.get(3 + turn).id])
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


def test_what_was_there_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory").chmod(0o755)
    open_memory(tmp_path / "memory").close()
    assert mode(tmp_path / "memory") == 0o755
    (tmp_path / "old").write_text("mine", "utf-8")
    (tmp_path / "old").chmod(0o644)
    files = NewFiles(tmp_path)
    (tmp_path / "new").write_text("ours", "utf-8")
    (tmp_path / "new").chmod(0o644)
    files.make_private()
    assert [mode(tmp_path / name) for name in ("old", "new")] == [0o644, 0o600]


def test_what_is_written_out_of_a_memory_is_for_its_owner_only(tmp_path: Path) -> None:
    new, old = tmp_path / "new.jsonl", tmp_path / "old.jsonl"
    with umask(0), open_memory(tmp_path / "memory") as memory:
        memory.add(MessageStep("user", "The ladder is behind the shed."))
        memory.export(new)
        old.touch()
        old.chmod(0o640)
        export_memory(tmp_path / "memory", old)
    assert [mode(new), mode(old)] == [0o600, 0o640]


def test_a_namespace_that_others_may_look_into_is_warned_of_once(
    tmp_path: Path, our_log: pytest.LogCaptureFixture
) -> None:
    for name in ("ann", "bob"):
        open_memory(tmp_path, namespace=name).close()
    assert our_log.messages == []
    (tmp_path / "ann").chmod(0o750)
    with our_log.at_level(logging.WARNING):
        for name in ("ann", "bob", "ann"):
            with open_memory(tmp_path, namespace=name) as memory:
                memory.add(MessageStep("user", "It works all the same."))
    assert our_log.messages == [
        f"other users can read {tmp_path / 'ann'} (mode 750): to prevent that, chmod -R go-rwx it"
    ]
    assert mode(tmp_path / "ann") == 0o750
