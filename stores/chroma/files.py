"""Deletion of Chroma's files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

__all__ = ["DATABASE", "FORMAT", "MARK", "wipe"]

DATABASE = "chroma.sqlite3"
FORMAT = 1
MARK = "tinymem"  # key in the metadata of collections that tinymem has made; its value is FORMAT


def wipe(folder: Path) -> None:
    """Delete Chroma's files in `folder`, and only those; the database first, since the rest is useless without it."""
    for ending in ("-journal", "-wal", "-shm", ""):
        (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)
    for child in folder.iterdir():
        if child.is_dir() and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", child.name):
            shutil.rmtree(child)
