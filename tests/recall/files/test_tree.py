"""A working tree: lines that its files have no more get a mark, and nothing outside of it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinymem import ActionStep, HierarchicalMemory, ToolCall
from tinymem.recall.files import tree
from tinymem.recall.files.lines import code_lines
from tinymem.recall.files.tree import WorkingTree

LINES = ["import quarantine_policy", "QUARANTINE_DAYS = 90  # of a parcel", "QUARANTINE_OWNER = 'nora'"]
CODE = code_lines(LINES[1])[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "src" / "settings.py").write_text("\n".join(LINES))
    return tmp_path / "work"


@pytest.fixture
def memory(root: Path) -> Iterator[HierarchicalMemory]:
    """A memory in which the file was read."""
    with HierarchicalMemory(store="exact", embedder="hashing:64") as opened:
        read = ToolCall("Read", {"file_path": str(root / "src" / "settings.py")}, observation="\n".join(LINES))
        opened.archive([ActionStep("", [read])])
        yield opened


def test_lines_that_a_file_has_no_more_get_a_mark(memory: HierarchicalMemory, root: Path) -> None:
    def asked() -> str:
        return memory.recall("quarantine days owner policy", 300, min_relevance=0).text

    memory.long_term.tree = root
    assert LINES[1] in asked() and "today" not in asked()
    (root / "src" / "settings.py").write_text(LINES[2])
    assert f"[not in settings.py today]\n{LINES[2]}" in asked() and LINES[0] not in asked()
    (root / "src" / "settings.py").unlink()
    assert LINES[2] not in asked()
    memory.long_term.tree = None
    assert LINES[0] in asked()


def test_what_is_not_below_the_folder_or_no_text_is_not_read(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("a line of another place")
    (root / "link.py").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path)
    (root / "data.bin").write_bytes(b"a\0" * 99)
    os.mkfifo(root / "pipe.py")
    found = WorkingTree(root)
    hidden = [str(secret), "../secret.py", "link.py", "folder/secret.py", "data.bin", "pipe.py", "~/a.py", "none.py",
              "src"]  # fmt: skip
    assert {path: found.has(path, CODE) for path in hidden} == dict.fromkeys(hidden)
    assert found.has("src/settings.py", CODE) and found.has(f"{root}/src/settings.py", CODE)
    assert found.has(f"{root}/none.py", CODE) is False
    monkeypatch.setattr(tree, "MOST_BYTES", 10)
    assert WorkingTree(root).has("src/settings.py", CODE) is None
    monkeypatch.setattr(tree, "MOST_FILES", 0)
    assert WorkingTree(root).has("src/settings.py", CODE) is None
