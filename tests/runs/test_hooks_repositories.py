"""Whose memory a project gets: that of its repository, and nobody else's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tinymem.runs.hooks.repositories import namespace_of

Git = Callable[..., None]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    def run(*arguments: str, folder: str = ".") -> None:
        options = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
        subprocess.run(["git", *options, *arguments], cwd=tmp_path / folder, check=True, capture_output=True)

    return run


@pytest.fixture
def shop(git: Git, tmp_path: Path) -> Path:
    git("init", "-q", "my shop")
    git("commit", "-q", "--allow-empty", "-m", "Begin", folder="my shop")
    return tmp_path / "my shop"


def test_worktrees_share_a_memory_unless_they_are_to_have_their_own(git: Git, shop: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "../tree", folder="my shop")
    (tmp_path / "tree" / "src").mkdir()
    assert namespace_of(tmp_path / "tree" / "src") == namespace_of(shop)
    assert namespace_of(shop).startswith("my-shop-")
    apart = namespace_of(tmp_path / "tree", per_worktree=True)
    assert apart.startswith("tree-") and namespace_of(shop) == namespace_of(shop, per_worktree=True)
    (tmp_path / "link").symlink_to(shop)
    assert namespace_of(tmp_path / "link") == namespace_of(shop)


def forged(shop: Path, folder: Path) -> None:
    """A `.git` file that names a folder which says that it is a worktree of the shop's."""
    (folder / "x").mkdir()
    (folder / "x" / "commondir").write_text(str(shop / ".git"), "utf-8")
    (folder / "x" / "gitdir").write_text("../.git", "utf-8")
    (folder / ".git").write_text("gitdir: x", "utf-8")


def named(shop: Path, folder: Path) -> None:
    (folder / ".git").write_text(f"gitdir: {shop}/.git\n", "utf-8")


def named_worktree(shop: Path, folder: Path) -> None:
    (folder / ".git").write_text(f"gitdir: {shop}/.git/worktrees/tree\n", "utf-8")


def linked(shop: Path, folder: Path) -> None:
    (folder / ".git").symlink_to(shop / ".git")


@pytest.mark.parametrize("forge", [forged, named, named_worktree, linked])
def test_a_forged_repository_finds_nobody_elses_memory(
    forge: Callable[[Path, Path], None], git: Git, shop: Path, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", "../tree", folder="my shop")
    (folder := tmp_path / "bait").mkdir()
    forge(shop, folder)
    assert namespace_of(folder).startswith("bait-") and namespace_of(shop).startswith("my-shop-")


UNREADABLE = pytest.param("unreadable", marks=pytest.mark.permissions)


@pytest.mark.parametrize("what", ["pipe", "huge", "folder", "link", "empty", UNREADABLE, "nul"])
def test_no_file_of_a_repository_is_waited_for_or_read_whole(what: str, git: Git, shop: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "../tree", folder="my shop")
    folder, own = tmp_path / "tree", shop / ".git" / "worktrees" / "tree"
    for file in (folder / ".git", own / "commondir", own / "gitdir"):
        kept = file.rename(tmp_path / "kept")
        if what == "pipe":
            os.mkfifo(file)
        elif what == "folder":
            file.mkdir()
        elif what == "link":
            file.symlink_to("/dev/zero")
        else:
            content = {"huge": b"gitdir: " + b"x" * 1_000_000, "empty": b"", "nul": b"gitdir: a\0b"}
            file.write_bytes(content.get(what, b"gitdir: x"))
            file.chmod(0 if what == "unreadable" else 0o600)
        assert namespace_of(folder).rpartition("-")[0] in ("tree", "my-shop")
        file.rmdir() if what == "folder" else file.unlink()
        kept.rename(file)
