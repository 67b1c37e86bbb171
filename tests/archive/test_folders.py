"""Where a memory lives on disk: its folder, its marker, and a folder for each namespace."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import string
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import MODERATE

from tinymem import HierarchicalMemory
from tinymem.archive.folders import namespace_folder
from tinymem.errors import FormatError, InputError, NotAMemoryError, StorageError

AWKWARD = [
    "a/b", "../x", "..", ".", "/etc", "a\\b", "C:\\x", "~", "tinymem.json", "a\x00b", "index", "%2F", "a%2Fb", "日本語",
    "Ann Lee", " ", "a\nb", "👩‍👩‍👧", "-rf", "CON", "x" * 200,
]  # fmt: skip


def test_a_memory_is_a_folder_with_a_marker_and_a_folder_for_each_namespace(tmp_path: Path) -> None:
    folder = namespace_folder(tmp_path / "deep" / "memory", "ann", create=True)
    assert folder == tmp_path / "deep" / "memory" / "ann"
    assert json.loads((tmp_path / "deep" / "memory" / "tinymem.json").read_text("utf-8")) == {"format": 1}
    assert sorted(p.name for p in folder.parent.iterdir()) == ["ann", "tinymem.json"]
    assert namespace_folder(folder.parent, "ann", create=True) == folder
    assert os.name != "posix" or stat.S_IMODE(folder.stat().st_mode) == 0o700, "other users cannot look into it"


@MODERATE
@example(AWKWARD)
@given(st.lists(st.one_of(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
                          st.text("./%~\\ " + string.hexdigits, min_size=1, max_size=4)), unique=True))  # fmt: skip
def test_every_namespace_has_a_folder_of_its_own_inside_the_memory(namespaces: list[str]) -> None:
    with tempfile.TemporaryDirectory() as path:
        folders = [namespace_folder(Path(path, "memory"), namespace, create=True) for namespace in namespaces]
        assert len(set(folders)) == len(folders)
        assert all(folder.is_dir() and folder.resolve().parent == Path(path, "memory").resolve() for folder in folders)
        assert not namespaces or [child.name for child in Path(path).iterdir()] == ["memory"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [("", "not empty"), (None, "must be a string"), ("x" * 201, "too long"), ("日本" * 40, "too long"),
     ("a\ud800", "can be encoded")],
)  # fmt: skip
def test_a_namespace_that_cannot_be_a_folders_name_is_refused(tmp_path: Path, bad: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        namespace_folder(tmp_path / "memory", bad, create=True)
    assert not (tmp_path / "memory").exists()


def test_what_holds_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", "utf-8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".hidden").write_text("mine", "utf-8")
    for path in (tmp_path / "file", tmp_path / "full"):
        for create in (True, False):
            with pytest.raises(NotAMemoryError):
                namespace_folder(path, "ann", create)
    assert sorted(p.name for p in tmp_path.rglob("*")) == [".hidden", "file", "full"]


@pytest.mark.parametrize("path", ["file/below", "nul\x00", "x" * 300])
def test_a_path_that_cannot_be_is_a_storage_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("mine", "utf-8")
    with pytest.raises(StorageError, match="choose a folder that can be written"):
        namespace_folder(tmp_path / path, "ann", create=True)


def test_without_create_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotAMemoryError, match=r"there is no memory at .* with namespace 'ann'"):
        namespace_folder(tmp_path / "memory", "ann", create=False)
    assert list(tmp_path.iterdir()) == []
    namespace_folder(tmp_path / "memory", "bob", create=True)
    with pytest.raises(NotAMemoryError, match=r"there is no memory at .* with namespace 'ann'"):
        namespace_folder(tmp_path / "memory", "ann", create=False)
    assert not (tmp_path / "memory" / "ann").exists()


OTHER = r"has format \d+, this version reads \d+: .*(upgrade tinymem|`tinymem export` there .* or delete the folder)"


def test_what_another_version_wrote_is_refused_and_not_touched(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path / "mem", embedder="hashing:64", store="exact") as memory:
        memory.add_message("user", "Which port?")
    journal = tmp_path / "mem" / "default" / "journal.db"

    def refused() -> None:
        before = {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()}
        for use in (HierarchicalMemory, partial(HierarchicalMemory.forget_namespace, namespace="default")):
            with pytest.raises(FormatError, match=OTHER):
                use(tmp_path / "mem")
        assert {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()} == before

    with HierarchicalMemory(tmp_path / "mem", store="exact") as memory, closing(sqlite3.connect(journal)) as db:
        db.execute("PRAGMA user_version=1")  # by another version, while this one has it open
        for use in (lambda: memory.recall("port"), lambda: memory.add_message("user", "Port 80.")):
            with pytest.raises(FormatError, match=OTHER):
                use()
    refused()
    with closing(sqlite3.connect(journal)) as db:
        db.execute("PRAGMA user_version=99")
    refused()
