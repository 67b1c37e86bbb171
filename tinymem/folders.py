"""Where a memory lives: a folder with a marker, and in it a folder for each namespace."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from tinymem.errors import InputError, NotAMemoryError, StorageError

__all__ = ["namespace_folder"]

FORMAT = 1
MARKER = "tinymem.json"  # says that a folder is a memory, and of which format
LONGEST = 200  # characters of a folder's name, escapes included


def namespace_folder(path: Path, namespace: str, create: bool) -> Path:
    """The namespace's folder, made if `create`; the path must be a memory, or nothing yet."""
    if not namespace or not isinstance(namespace, str):
        raise InputError(f"namespace must be a string that is not empty, not {namespace!r}")
    try:
        name = quote(namespace, safe=" ").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise InputError(f"namespace must be text that can be encoded, not {namespace!r}") from error
    if len(name) > LONGEST:
        raise InputError(f"namespace is too long for a folder's name: {namespace[:40]!r}…")
    folder, marker = path / name, path / MARKER
    try:
        _check_memory(path, marker)
        if create:
            path.mkdir(parents=True, exist_ok=True)
            if not marker.exists():
                marker.write_text(json.dumps({"format": FORMAT}) + "\n", "utf-8")
            folder.mkdir(exist_ok=True, mode=0o700)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{path} cannot be used: {reason}; choose a folder that can be written") from error
    if not (folder / "journal.db").exists() and not create:
        raise NotAMemoryError(f"there is no memory at {path} with namespace {namespace!r}")
    return folder


def _check_memory(path: Path, marker: Path) -> None:
    # The marker is looked for last: another process may be making this memory right now.
    if path.exists() and (not path.is_dir() or any(path.iterdir())) and not marker.exists():
        raise NotAMemoryError(f"{path} exists and is not a memory of tinymem: choose an empty or a new folder")
