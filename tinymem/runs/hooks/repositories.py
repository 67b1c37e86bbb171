"""The project that an agent works in, and the namespace of its memory: a repository's worktrees have one.

No git is run. A `.git` file names another folder, and may come out of somebody's archive: it is followed only where
that folder names it in return, as git's own do. So that a repository which was moved finds its memory, its git folder
gets a mark with the namespace, signed with a key of this user; a copy beside the original has a memory of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["Project", "keep_namespace", "namespace_of", "project_of"]

UNFIT = re.compile(r"[^\w.-]+")
LONGEST = 60  # characters of a folder's name in that of a namespace
LARGEST = 65_536  # bytes of a file that is read here
MARK = "tinymem"  # the file in a git folder
KEY_BYTES = 32
_SECTION = re.compile(r"^\s*\[([^]\n]*)\]", re.MULTILINE)
_WORKTREE = re.compile(r'^\s*worktree\s*=\s*"?([^"\n]*)"?\s*$', re.MULTILINE | re.IGNORECASE)


class Project(NamedTuple):
    """A project: the folder whose path names its memory at first, and the git folder that is known to be its own."""

    folder: Path
    git: Path | None


class _Mark(NamedTuple):
    namespace: str
    folder: str  # where the project was
    proof: str


def namespace_of(folder: str | Path, per_worktree: bool = False) -> str:
    """Return the name of the namespace of the repository that a folder is in, or of the folder itself.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp(suffix="-shop")
    >>> namespace_of(folder).rpartition("-")[0].endswith("-shop")
    True
    """
    project = project_of(folder, per_worktree)
    mark = _mark_of(project)
    if mark is not None and not _is_copied(project, mark, per_worktree):
        return mark.namespace
    digest = hashlib.sha256(os.fsencode(project.folder)).hexdigest()[:8]
    return f"{UNFIT.sub('-', project.folder.name)[:LONGEST].strip('-.') or 'root'}-{digest}"


def keep_namespace(folder: str | Path, namespace: str, per_worktree: bool = False) -> None:
    """Mark the repository that a folder is in as that of a namespace, so that it is found where it is moved to.

    Where the mark cannot be written, nothing happens.
    """
    project = project_of(folder, per_worktree)
    if project.git is None:
        return
    where = str(project.folder)
    with suppress(OSError, ValueError):
        proof = _proof(_key(create=True), namespace, where)
        mark = _Mark(namespace, where, proof)
        if mark != _mark_of(project):
            _write(project.git / MARK, json.dumps(mark._asdict()).encode())


# -- repositories -----------------------------------------------------------------------------------------------------


def project_of(folder: str | Path, per_worktree: bool = False) -> Project:
    """Return the project that a folder is in; with `per_worktree` a worktree is one by itself."""
    place = Path(folder).expanduser().resolve()
    root = next((parent for parent in (place, *place.parents) if os.path.lexists(parent / ".git")), place)
    link = root / ".git"
    try:
        if not stat.S_ISREG(link.lstat().st_mode):
            return Project(root, link if not link.is_symlink() and _is_git(link) else None)
        git = _path_in(link, "gitdir:")
        if not os.path.lexists(git / "commondir"):  # a submodule's
            return Project(root, git if _worktree(git) == root else None)
        common = _path_in(git / "commondir")
        if git.parent != common / "worktrees" or not _is_git(common) or _path_in(git / "gitdir") != link:
            return Project(root, None)
    except (OSError, ValueError):
        return Project(root, None)
    if per_worktree:
        return Project(root, git)
    return Project(_worktree(common) or (common.parent if common.name == ".git" else common), common)


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


def _worktree(git: Path) -> Path | None:
    """Return the folder that a git folder's configuration names as its worktree, as that of a submodule does."""
    try:
        config = _read(git / "config")
    except (OSError, ValueError):
        return None
    _, *parts = _SECTION.split(config)
    cores = [body for name, body in zip(parts[::2], parts[1::2], strict=True) if name.strip().lower() == "core"]
    found = next(filter(None, map(_WORKTREE.search, cores)), None)
    return None if found is None else (git / found[1]).resolve()


# -- marks ------------------------------------------------------------------------------------------------------------


def _mark_of(project: Project) -> _Mark | None:
    """Return the mark of a project; None where it has none that this user made."""
    if project.git is None:
        return None
    try:
        mark = _Mark(**json.loads(_read(project.git / MARK)))
        proof = _proof(_key(), mark.namespace, mark.folder)
        return mark if hmac.compare_digest(proof.encode(), mark.proof.encode()) else None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _is_copied(project: Project, mark: _Mark, per_worktree: bool) -> bool:
    """Return True where the repository that got this mark still stands elsewhere."""
    if mark.folder == str(project.folder):
        return False
    original = project_of(mark.folder, per_worktree)
    return original.folder != project.folder and _mark_of(original) == mark


def _proof(key: bytes, namespace: str, folder: str) -> str:
    said = json.dumps([namespace, folder]).encode()
    return hmac.new(key, said, hashlib.sha256).hexdigest()


def _key(create: bool = False) -> bytes:
    """Return the key that this user's marks are signed with. Raises OSError or ValueError where there is none."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    file = Path(state) / "tinymem" / "repositories.key"
    if create and not file.exists():
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        _write(file, secrets.token_hex(KEY_BYTES).encode(), replace=False)
    key = bytes.fromhex(_read(file))
    if len(key) != KEY_BYTES:
        raise ValueError(f"{file} holds no key")
    return key


# -- files ------------------------------------------------------------------------------------------------------------


def _read(file: Path) -> str:
    """Read a small regular file; a pipe is not waited for, and a link is not followed."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with open(os.open(file, os.O_RDONLY | flags), "rb") as stream:
        content = stream.read(LARGEST + 1) if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else b""
    if not 0 < len(content) <= LARGEST:
        raise ValueError(f"{file} is no small file")
    return os.fsdecode(content)


def _write(file: Path, content: bytes, replace: bool = True) -> None:
    """Write a file that only its owner may read, whole; unless it may be replaced, an older one stays."""
    new = file.with_name(f"{file.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(content)
        if replace:
            os.replace(new, file)
        else:
            with suppress(FileExistsError):
                os.link(new, file)
    finally:
        new.unlink(missing_ok=True)
