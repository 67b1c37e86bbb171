"""Whose memory a project gets: of its repository, wherever that is moved to, and of nobody else's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tinymem.runs.hooks.repositories import MARK, keep_namespace, namespace_of

Git = Callable[..., None]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


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


def marked(folder: Path) -> str:
    keep_namespace(folder, name := namespace_of(folder))
    return name


def test_worktrees_share_a_memory_unless_they_are_to_have_their_own(git: Git, shop: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "../tree", folder="my shop")
    (tmp_path / "tree" / "src").mkdir()
    assert namespace_of(tmp_path / "tree" / "src") == namespace_of(shop)
    assert namespace_of(shop).startswith("my-shop-")
    apart = namespace_of(tmp_path / "tree", per_worktree=True)
    assert apart.startswith("tree-") and apart != namespace_of(tmp_path)
    keep_namespace(tmp_path / "tree", namespace_of(shop))
    keep_namespace(tmp_path / "tree", apart, per_worktree=True)
    assert namespace_of(shop) == namespace_of(shop, per_worktree=True) == namespace_of(tmp_path / "tree")
    assert namespace_of(tmp_path / "tree", per_worktree=True) == apart


def test_a_repository_that_was_moved_finds_its_memory(git: Git, shop: Path, tmp_path: Path) -> None:
    name, moved = marked(shop), tmp_path / "elsewhere" / "store"
    moved.parent.mkdir()
    shop.rename(moved)
    assert namespace_of(moved) == marked(moved) == name
    again = moved.rename(tmp_path / "again")
    git("worktree", "add", "-q", "../tree", folder="again")
    assert namespace_of(again) == namespace_of(tmp_path / "tree") == name


def test_a_copy_has_a_memory_of_its_own_while_the_original_is_there(shop: Path, tmp_path: Path) -> None:
    name, copy = marked(shop), tmp_path / "copy"
    shutil.copytree(shop, copy)
    assert marked(copy).startswith("copy-") and namespace_of(shop) == name
    shutil.rmtree(shop)
    assert namespace_of(copy).startswith("copy-")
    (tmp_path / "link").symlink_to(copy)
    assert namespace_of(tmp_path / "link") == namespace_of(copy)


def test_a_submodule_is_a_repository_of_its_own(git: Git, shop: Path, tmp_path: Path) -> None:
    git("init", "-q", "all")
    git("submodule", "add", "-q", str(shop), "part", folder="all")
    part = tmp_path / "all" / "part"
    git("worktree", "add", "-q", "../../tree", folder="all/part")
    assert len({namespace_of(part), namespace_of(tmp_path / "all"), namespace_of(shop)}) == 3
    name = marked(part)
    assert namespace_of(tmp_path / "tree") == name
    moved = (tmp_path / "all").rename(tmp_path / "whole")
    assert namespace_of(moved / "part") == name


def forged(shop: Path, folder: Path) -> None:
    """A `.git` file that names a folder which says that it is a worktree of the shop's."""
    (folder / "x").mkdir()
    (folder / "x" / "commondir").write_text(str(shop / ".git"))
    (folder / "x" / "gitdir").write_text("../.git")
    (folder / ".git").write_text("gitdir: x")


def named(shop: Path, folder: Path) -> None:
    (folder / ".git").write_text(f"gitdir: {shop}/.git\n")


def named_worktree(shop: Path, folder: Path) -> None:
    (folder / ".git").write_text(f"gitdir: {shop}/.git/worktrees/tree\n")


def linked(shop: Path, folder: Path) -> None:
    (folder / ".git").symlink_to(shop / ".git")


def made_up(shop: Path, folder: Path) -> None:
    """A repository with a mark that somebody else signed."""
    shutil.copytree(shop / ".git", folder / ".git")
    mark = json.loads((shop / ".git" / MARK).read_text())
    (folder / ".git" / MARK).write_text(json.dumps(mark | {"folder": "/nowhere"}))


def configured(shop: Path, folder: Path) -> None:
    """A git folder with a commondir, inside of one that looks like a repository and is not the shop's."""
    shutil.copytree(shop / ".git", folder / "fake")
    (folder / "fake" / MARK).write_text((shop / ".git" / MARK).read_text().replace("my shop", "my shop2"))
    (folder / "fake" / "config").write_text(f"[core]\n\tworktree = {folder}\n")
    (folder / ".git").write_text("gitdir: fake\n")


@pytest.mark.parametrize("forge", [forged, named, named_worktree, linked, made_up, configured])
def test_a_forged_repository_finds_nobody_elses_memory(
    forge: Callable[[Path, Path], None], git: Git, shop: Path, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", "../tree", folder="my shop")
    name, mark = marked(shop), (shop / ".git" / MARK).read_text()
    (folder := tmp_path / "bait").mkdir()
    forge(shop, folder)
    assert namespace_of(folder).startswith("bait-") and marked(folder) == namespace_of(folder)
    assert namespace_of(shop) == name and (shop / ".git" / MARK).read_text() == mark


def test_a_worktree_that_git_no_longer_knows_gets_no_memory_of_others(git: Git, shop: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "../tree", folder="my shop")
    shutil.copytree(tmp_path / "tree", tmp_path / "bait")
    assert namespace_of(tmp_path / "bait").startswith("bait-") and namespace_of(tmp_path / "tree") == namespace_of(shop)


@pytest.mark.parametrize("what", ["pipe", "huge", "folder", "link", "empty", "unreadable", "nul"])
@pytest.mark.parametrize("place", [".git", "own/commondir", "own/gitdir", "git/config", f"git/{MARK}"])
def test_no_file_of_a_repository_is_waited_for_or_read_whole(
    place: str, what: str, git: Git, shop: Path, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", "../tree", folder="my shop")
    marked(shop)
    folder = shop if place.startswith("git") else tmp_path / "tree"
    parts = {"own": shop / ".git" / "worktrees" / "tree", "git": shop / ".git"}
    file = parts[place.partition("/")[0]] / place.partition("/")[2] if "/" in place else folder / place
    file.unlink()
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
    assert namespace_of(folder).rpartition("-")[0] in (folder.name.replace(" ", "-"), "my-shop")
    keep_namespace(folder, "n")
    file.chmod(0o700)


def test_what_the_user_may_not_write_stays_as_it_is(shop: Path, state: Path) -> None:
    state.write_text("no folder")
    name = marked(shop)
    assert not (shop / ".git" / MARK).exists() and name == namespace_of(shop)
