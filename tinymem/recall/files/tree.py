"""A working tree: lines that a recall shows are compared with the files as they are now."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tinymem.recall.files.acts import full_path
from tinymem.recall.files.lines import code_lines

__all__ = ["WorkingTree"]

MOST_FILES = 100  # that are read
MOST_BYTES = 1_000_000  # of a file
LOOKED_AT = 8_192  # bytes in which a binary file shows that it is one
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class WorkingTree:
    """The files below a folder, each read once. No link is followed, and large and binary files are not read."""

    def __init__(self, root: str | Path) -> None:
        self._given, self._real = full_path(os.path.abspath(root)), os.path.realpath(root)
        self._codes: dict[str, frozenset[int] | None] = {}

    def has(self, path: str, code: int) -> bool | None:
        """Return whether the file at `path` has a line with this code now; None where that is not known."""
        if path not in self._codes:
            self._codes[path] = self._read(path) if len(self._codes) < MOST_FILES else None
        codes = self._codes[path]
        return None if codes is None else code in codes

    def _read(self, path: str) -> frozenset[int] | None:
        inside = self._inside(path)
        if not inside or not _is_plain(self._real, inside):
            return None
        try:
            with os.fdopen(os.open(os.path.join(self._real, inside), os.O_RDONLY | _NO_LINK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                content = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return frozenset() if path.startswith("/") else None
        except (OSError, ValueError):
            return None
        if len(content) > MOST_BYTES or b"\0" in content[:LOOKED_AT]:
            return None
        return frozenset(code_lines(content.decode("utf-8", "replace")))

    def _inside(self, path: str) -> str:
        """Return a path from the folder on; "" for one that is not below it."""
        if path.startswith("/"):
            for root in (self._given, full_path(self._real)):
                if path.startswith(f"{root}/"):
                    return path[len(root) + 1 :]
            return ""
        return "" if path.startswith(("~", "..")) else path


def _is_plain(root: str, inside: str) -> bool:
    """Return whether a path leads through no link."""
    path = os.path.normpath(os.path.join(root, inside))
    return os.path.realpath(path) == path
