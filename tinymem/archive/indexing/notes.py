"""The notes that stand beside a vector store's files: how far it has followed the journal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tinymem.errors import StorageError
from tinymem.protocols import Journal
from tinymem.protocols.settings import DELETIONS, EMBEDDER
from tinymem.stores.files import lock_folder, make_private_file, make_private_folder

__all__ = ["Notes", "hold_folder", "read_notes", "state_of", "write_notes"]

NOTES, LOCK = "mirror.json", "mirror.lock"


class Notes(NamedTuple):
    """Notes of a store: where it stands in the journal.

    Attributes:
        store: Its name; "" where nothing was ever written.
        state: That of the journal when it began, see `state_of`.
        passage: The id of the last passage that it holds.
        time: When the step of that passage happened, in seconds since 1970.
    """

    store: str = ""
    state: str = ""
    passage: int = 0
    time: float = 0.0


def state_of(journal: Journal) -> str:
    """Return a text that changes when steps of a journal are forgotten or replaced, or the embedder does."""
    return f"{journal.setting(DELETIONS)} {journal.setting(EMBEDDER)}"


def read_notes(folder: Path) -> Notes:
    """Return the notes in the folder of an index; those of no store if there are none, or they are damaged."""
    try:
        return Notes(*json.loads((folder / NOTES).read_bytes()))
    except (OSError, ValueError, TypeError):
        return Notes()


def write_notes(folder: Path, notes: Notes) -> None:
    """Put notes in the place of those that were there. Raises StorageError."""
    with _writing(folder):
        fresh = folder / f"{NOTES}.new"
        make_private_file(fresh)
        fresh.write_text(json.dumps(notes) + "\n", "utf-8")
        os.replace(fresh, folder / NOTES)


@contextmanager
def hold_folder(folder: Path, within: float = 0.0) -> Iterator[None]:
    """Keep other processes, and other memories of this one, from the index in a folder; wait for it so many seconds.

    Raises:
        TakenError: Another one has it.
        StorageError: The folder cannot be made.
    """
    with _writing(folder):
        if folder.parent.is_dir():  # or the memory is gone
            make_private_folder(folder)
        lock = lock_folder(folder, within, LOCK)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"the index in {folder} cannot be written: {error.strerror or error}") from error
