"""The project that an agent works in, and the namespace of its memory: a repository's worktrees have one.

No git is run. A `.git` file names another folder, and may come out of somebody's archive: it is followed only where
that folder names it in return, as git's own do.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

__all__ = ["namespace_of", "project_of"]

UNFIT = re.compile(r"[^\w.-]+")
LONGEST = 60  # characters of a folder's name in that of a namespace
LARGEST = 65_536  # bytes of a file that is read here


def namespace_of(folder: str | Path, per_worktree: bool = False) -> str:
    """Return the name of the namespace of the repository that a folder is in, or of the folder itself.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp(suffix="-shop")
    >>> namespace_of(folder).rpartition("-")[0].endswith("-shop")
    True
    """
    project = project_of(folder, per_worktree)
    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:8]
    return f"{UNFIT.sub('-', project.name)[:LONGEST].strip('-.') or 'root'}-{digest}"


def project_of(folder: str | Path, per_worktree: bool = False) -> Path:
    """Return the folder of the project that a folder is in; with `per_worktree` a worktree is one by itself."""
    place = Path(folder).expanduser().resolve()
    root = next((parent for parent in (place, *place.parents) if os.path.lexists(parent / ".git")), place)
    link = root / ".git"
    try:
        if per_worktree or not stat.S_ISREG(link.lstat().st_mode):
            return root
        git = _path_in(link, "gitdir:")
        common = _path_in(git / "commondir")  # which a submodule's has not
        if git.parent != common / "worktrees" or not _is_git(common) or _path_in(git / "gitdir") != link:
            return root
    except (OSError, ValueError):
        return root
    return common.parent if common.name == ".git" else common


def _is_git(folder: Path) -> bool:
    """Return True for what git takes as a repository's folder."""
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _path_in(file: Path, head: str = "") -> Path:
    """Return the path that stands in a file, which may be relative to the file's folder."""
    text = _read(file)
    path = text.removeprefix(head).strip()
    if not text.startswith(head) or not path:
        raise ValueError(f"{file} names no folder")
    return (file.parent / path).resolve()


def _read(file: Path) -> str:
    """Read a small regular file; a pipe is not waited for, and a link is not followed."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with open(os.open(file, os.O_RDONLY | flags), "rb") as stream:
        content = stream.read(LARGEST + 1) if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else b""
    if not 0 < len(content) <= LARGEST:
        raise ValueError(f"{file} is no small file")
    return os.fsdecode(content)
