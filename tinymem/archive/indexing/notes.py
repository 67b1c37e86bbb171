"""The notes that stand beside a vector store's files: how far it has followed the journal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from tinymem.errors import StorageError, TakenError
from tinymem.stores.files import FILE, make_private_file, make_private_folder

__all__ = ["Notes", "hold_folder", "read_notes", "write_notes"]

NOTES, LOCK = "mirror.json", "mirror.lock"


@dataclass(frozen=True)
class Notes:
    """Notes of a store: where it stands in the journal.

    Attributes:
        store: Its name; "" where nothing was ever written.
        passage: The id of the last passage that it holds.
        time: When the step of that passage happened, in seconds since 1970.
        change: The number of the last change in the journal that it knows.
        fault: Why it could not be written when that was last tried; "" where it could.
        is_opening: Whether it is being opened; still True where damaged files have ended the process.
        has_gone: Whether its files may still hold vectors of passages that were taken out of it.
    """

    store: str
    passage: int = 0
    time: float = 0.0
    change: int = 0
    fault: str = ""
    is_opening: bool = False
    has_gone: bool = False


def read_notes(folder: Path) -> Notes | None:
    """Return the notes in the folder of an index; None if there are none, or they are damaged."""
    try:
        notes = Notes(**json.loads((folder / NOTES).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    is_whole = [type(value) for value in astuple(notes)] == [str, int, float, int, str, bool, bool]
    return notes if is_whole else None


def write_notes(folder: Path, notes: Notes | None) -> None:
    """Put notes in the place of those that were there, or remove them. Raises StorageError."""
    with _writing(folder):
        if notes is None:
            (folder / NOTES).unlink(missing_ok=True)
            return
        fresh = folder / f"{NOTES}.new"
        make_private_file(fresh)
        fresh.write_text(json.dumps(asdict(notes)) + "\n", "utf-8")
        os.replace(fresh, folder / NOTES)


@contextmanager
def hold_folder(folder: Path, within: float = 0.0) -> Iterator[None]:
    """Keep other processes, and other memories of this one, from the index in a folder; wait for it so many seconds.

    Raises:
        TakenError: Another one has it.
        StorageError: The folder cannot be made.
    """
    lock = FileLock(folder / LOCK, timeout=within, mode=FILE, thread_local=False)
    with _writing(folder):
        if folder.parent.is_dir():  # or the memory is gone
            make_private_folder(folder)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except Timeout as error:
        raise TakenError(f"another process, or another memory of this one, has the index in {folder}") from error
    except OSError as error:
        raise StorageError(f"the index in {folder} cannot be written: {error.strerror or error}") from error
