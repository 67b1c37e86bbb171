"""A vector store that follows a journal, in whatever process.

Notes beside the store's files say how far it is. Nobody hands anything over, and nothing is lost with it: where the
notes do not fit the journal, since something was forgotten or replaced, the embedder is another one, or the
journal is an older backup, the store begins anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tinymem.errors import StorageError, TinymemError
from tinymem.protocols import EmbeddedPassage, Journal, Metadata, Vectors, VectorStore
from tinymem.protocols.settings import DELETIONS, EMBEDDER
from tinymem.registry import erase_store, store_from
from tinymem.stores.files import lock_folder, make_private_file, make_private_folder

__all__ = ["BATCH", "NOTES", "Mirror", "Notes", "hold_folder", "metadata_of", "read_notes", "vectors_of"]

NOTES, LOCK = "mirror.json", "mirror.lock"
BATCH = 1_000  # vectors that are written to the store at once


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


class Mirror:
    """The store of a journal, with its notes, and its files if it has any, in `folder`; `reading` opens the journal.

    A store that is given by its name is open while it follows.
    """

    def __init__(
        self, store: str | VectorStore, folder: Path, reading: Callable[[], AbstractContextManager[Journal]]
    ) -> None:
        self._store, self._folder, self._reading = store, folder, reading
        self.name = store if isinstance(store, str) else store.name

    @property
    def notes(self) -> Notes:
        """The notes of the store, which say how far it has followed, in whatever process."""
        return read_notes(self._folder)

    def lacks(self) -> bool:
        """Return whether the store has not all that the journal has, or has something else."""
        notes = self.notes
        with self._reading() as journal:
            has_more = journal.last_passage() > notes.passage
            return has_more or (notes.passage > 0 and not self._fits(notes, journal))

    def is_outdated(self) -> bool:
        """Return whether a store may hold vectors of what was forgotten or replaced."""
        notes = self.notes
        if not notes.store:
            return False
        with self._reading() as journal:
            return notes.state != state_of(journal)

    def _fits(self, notes: Notes, journal: Journal) -> bool:
        """Return whether the store may go on from there: nothing is gone, and the journal is no older backup."""
        if (notes.store, notes.state) != (self.name, state_of(journal)):
            return False
        rows = journal.passages(notes.passage - 1, 1) if notes.passage else []
        return not notes.passage or [(row.id, row.time) for row in rows] == [(notes.passage, notes.time)]

    # -- in -----------------------------------------------------------------------------------------------------------

    def follow(self, is_over: Callable[[], bool]) -> None:
        """Give the store what it lacks, batch by batch, until it has all, something is forgotten, or `is_over()`.

        Raises:
            TakenError: Another one has the folder.
            Exception: The store raised it.
        """
        with hold_folder(self._folder):
            notes = self._begin()
            opened = store_from(self._store, self._folder)
            with closing(opened) if isinstance(self._store, str) else nullcontext(opened) as store:
                notes = self._check(store, notes)
                while rows := self._next(notes):
                    write_notes(self._folder, notes)  # before the store has anything that is to be cleared
                    has_metadata = "metadata" in signature(store.upsert).parameters
                    beside = {"metadata": [*map(metadata_of, rows)]} if has_metadata else {}
                    store.upsert([row.id for row in rows], vectors_of(rows), **beside)
                    notes = notes._replace(passage=rows[-1].id, time=rows[-1].time)
                    write_notes(self._folder, notes)
                    if is_over():
                        return

    def _begin(self) -> Notes:
        """Return the notes to go on from, after what is to go has been cleared."""
        notes = self.notes
        with self._reading() as journal:
            if self._fits(notes, journal):
                return notes
            fresh = Notes(self.name, state_of(journal))
        self._erase(notes.store)
        return fresh

    def _check(self, store: VectorStore, notes: Notes) -> Notes:
        """Return the notes, after the store was cleared if its files are gone, or are not those of the notes."""
        with self._reading() as journal:
            due = journal.passages_until(notes.passage)
        count = store.count()
        if count >= due and (due or not count):
            return notes
        store.clear()
        return Notes(notes.store, notes.state)

    def _next(self, notes: Notes) -> list[EmbeddedPassage]:
        """Return what the store lacks, a batch of it; nothing where whoever follows next begins anew."""
        with self._reading() as journal:
            is_same = state_of(journal) == notes.state
            return journal.passages(notes.passage, BATCH) if is_same else []

    # -- away ---------------------------------------------------------------------------------------------------------

    def erase(self, within: float) -> None:
        """Remove all vectors from the store, and from the one that the memory had before.

        Raises:
            TakenError: Another process does not let go of the folder `within` so many seconds.
            StorageError: A store cannot be cleared.
        """
        with hold_folder(self._folder, within):
            self._erase(self.name, self.notes.store)

    def _erase(self, *names: str) -> None:
        """Remove all vectors from the stores with these names, and what is noted of them."""
        for name in {*names} - {""}:
            self._clear(name)
        if self.notes.store:
            write_notes(self._folder, Notes())

    def _clear(self, name: str) -> None:
        """Remove all vectors from the store with this name: by deleting its files, or else by opening it."""
        try:
            if name == self.name and not isinstance(self._store, str):
                self._store.clear()
            elif not erase_store(name, self._folder):
                with closing(store_from(name, self._folder)) as store:
                    store.clear()
        except TinymemError as error:
            message = f"the store {name} holds vectors of this memory and cannot be cleared: {error}"
            raise StorageError(message) from error


def vectors_of(rows: Sequence[EmbeddedPassage]) -> Vectors:
    """The vectors of passages as the journal gives them: `(len(rows), dimensions)` float32."""
    return np.frombuffer(b"".join(row.vector for row in rows), "<f2").reshape(len(rows), -1).astype(np.float32)


def metadata_of(row: EmbeddedPassage) -> Metadata:
    """The metadata of a passage; what its step has not got is left out."""
    found: dict[str, str | int | float | None] = {
        "step": row.step,
        "type": row.type,
        "time": row.time,
        "session": row.session,
        "speaker": row.speaker,
        "tool": ", ".join(row.tools.splitlines()) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


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
