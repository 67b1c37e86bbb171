"""The namespace of a repository: its worktrees have one memory."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

__all__ = ["namespace_of"]

UNFIT = re.compile(r"[^\w.-]+")
LONGEST = 60  # characters of a folder's name in that of a namespace


def namespace_of(folder: str | Path, per_worktree: bool = False) -> str:
    """Return the name of the namespace of the repository that a folder is in, or of the folder itself.

    No git is run: a worktree's `.git` is a file that names the folder which all worktrees share.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp(suffix="-shop")
    >>> namespace_of(folder).rpartition("-")[0].endswith("-shop")
    True
    """
    place = Path(folder).expanduser().resolve()
    root = next((one for one in (place, *place.parents) if (one / ".git").exists()), place)
    shared = root if per_worktree else _common(root)
    digest = hashlib.sha256(str(shared).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{UNFIT.sub('-', shared.name)[:LONGEST].strip('-.') or 'root'}-{digest}"


def _common(root: Path) -> Path:
    """Return the folder of the main worktree."""
    git = root / ".git"
    if not git.is_file():
        return root
    try:
        own = (root / git.read_text("utf-8").partition("gitdir:")[2].strip()).resolve()
        common = (own / (own / "commondir").read_text("utf-8").strip()).resolve()
    except (OSError, ValueError):  # a submodule, which is a repository of its own, or damaged
        return root
    return common.parent if common.name == ".git" else common
