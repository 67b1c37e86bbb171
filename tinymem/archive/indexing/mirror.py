"""A vector store that follows a journal, in whatever process.

The journal says what is new and what has changed (`Journal.changes`), and the mirror notes beside the store's files how
far it is. Nobody hands anything over, and nothing is lost with it: where the notes and the store do not fit the
journal, the store begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np

from tinymem.archive.indexing.notes import Notes, hold_folder, read_notes, write_notes
from tinymem.errors import StorageError, TinymemError, safe_summary
from tinymem.protocols import ALL_PASSAGES, EmbeddedPassage, Journal, Metadata, Vectors, VectorStore
from tinymem.registry import erase_store, store_from

__all__ = ["BATCH", "Mirror", "metadata_of", "vectors_of"]

BATCH = 1_000  # vectors that are written to the store at once


class Mirror:
    """The store of a journal, with its notes, and its files if it has any, in `folder`; `reading` opens the journal.

    A store that is given by its name is open while it follows.
    """

    def __init__(
        self, store: str | VectorStore, folder: Path, reading: Callable[[], AbstractContextManager[Journal]]
    ) -> None:
        self._store, self._folder, self._reading = store, folder, reading
        self.name = store if isinstance(store, str) else store.name

    def lacks(self) -> bool:
        """Return whether the store has not all that the journal has, in whatever process."""
        notes = read_notes(self._folder)
        if notes is None or notes.store != self.name:
            notes = Notes(self.name)
        with self._reading() as journal:
            return journal.last_passage() > notes.passage or (notes.passage > 0 and bool(journal.changes(notes.change)))

    def is_outdated(self) -> bool:
        """Return whether a store may hold vectors of what was forgotten or replaced."""
        notes = read_notes(self._folder)
        if notes is None or not notes.store:
            return False
        with self._reading() as journal:
            changed = {change.passage for change in journal.changes(notes.change) if change.passage <= notes.passage}
            return notes.has_gone or len(_rows_of(journal, changed)) < len(changed)  # no passage has ALL_PASSAGES

    # -- in -----------------------------------------------------------------------------------------------------------

    def follow(self, is_over: Callable[[], bool]) -> None:
        """Give the store what it lacks, batch by batch, until it has all, something is forgotten, or `is_over()`.

        Raises:
            TakenError: Another one has the folder.
            Exception: The store raised it, and it is noted.
        """
        with hold_folder(self._folder), self._noting_faults():
            notes = replace(self._begin(), is_opening=True)
            write_notes(self._folder, notes)
            with self._opened(notes) as store:
                notes = self._check(store, notes)
                while (followed := self._follow_batch(store, notes)) != notes:
                    notes = followed
                    write_notes(self._folder, notes)
                    if is_over():
                        return

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            with suppress(StorageError):  # the first error says more
                notes = read_notes(self._folder) or Notes("")
                write_notes(self._folder, replace(notes, fault=safe_summary(error), is_opening=False))
            raise

    def _begin(self) -> Notes:
        """Return the notes to go on from, after what is to go has been cleared."""
        notes = read_notes(self._folder)
        if notes is not None and notes.store == self.name and not notes.is_opening and self._fits(notes):
            return notes
        if notes is not None and notes.store:
            self._clear(notes.store)
        with self._reading() as journal:
            changes = journal.changes(0)
        return Notes(self.name, change=changes[-1].number if changes else 0)

    def _fits(self, notes: Notes) -> bool:
        """Return whether the store may go on from there: nothing is gone, and the journal is no older backup."""
        with self._reading() as journal:
            changes, rows = journal.changes(notes.change), journal.passages(notes.passage - 1, 1)
        is_there = bool(rows) and (rows[0].id, rows[0].time) == (notes.passage, notes.time)
        return (is_there or not notes.passage) and all(change.passage != ALL_PASSAGES for change in changes)

    @contextmanager
    def _opened(self, notes: Notes) -> Iterator[VectorStore]:
        try:
            store = store_from(self._store, self._folder)
        except Exception:
            if not notes.passage:  # it has nothing that anybody could want to be cleared
                write_notes(self._folder, None)
            raise
        try:
            yield store
        finally:
            if isinstance(self._store, str):
                store.close()

    def _check(self, store: VectorStore, notes: Notes) -> Notes:
        """Return the notes, after the store was cleared if its files are gone, or are not those of the notes."""
        with self._reading() as journal:
            due = journal.passages_until(notes.passage)
        count = store.count()
        if count >= due and (due or not count):
            return notes
        store.clear()
        return replace(notes, passage=0)

    def _follow_batch(self, store: VectorStore, notes: Notes) -> Notes:
        """Give the store a batch of what it lacks, and return what is to be noted; at an end the same notes."""
        with self._reading() as journal:
            changes = journal.changes(notes.change)[:BATCH]
            if changes and changes[0].passage == ALL_PASSAGES:
                return notes  # whoever follows next begins anew
            changed = {change.passage for change in changes if change.passage <= notes.passage}
            again = _rows_of(journal, changed)
            fresh = journal.passages(notes.passage, BATCH)
        if gone := changed.difference(row.id for row in again):
            store.delete(sorted(gone))
            notes = replace(notes, has_gone=True)
        for rows in filter(None, (again, fresh)):
            beside = {"metadata": [*map(metadata_of, rows)]} if "metadata" in signature(store.upsert).parameters else {}
            store.upsert([row.id for row in rows], vectors_of(rows), **beside)
        if fresh:
            notes = replace(notes, passage=fresh[-1].id, time=fresh[-1].time)
        if changes:
            notes = replace(notes, change=changes[-1].number)
        return replace(notes, fault="", is_opening=False)

    # -- away ---------------------------------------------------------------------------------------------------------

    def erase(self, within: float) -> None:
        """Remove all vectors from the store, and from the one that the memory had before.

        Raises:
            TakenError: Another process does not let go of the folder `within` so many seconds.
            StorageError: A store cannot be cleared.
        """
        with hold_folder(self._folder, within):
            notes = read_notes(self._folder)
            for name in {self.name, notes.store if notes else ""} - {""}:
                self._clear(name)
            write_notes(self._folder, None)

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


def _rows_of(journal: Journal, ids: Iterable[int]) -> list[EmbeddedPassage]:
    """Return the passages with these ids that are there."""
    behind = {id: journal.passages(id - 1, 1) for id in sorted(ids)}
    return [rows[0] for id, rows in behind.items() if rows and rows[0].id == id]


def vectors_of(rows: Sequence[EmbeddedPassage]) -> Vectors:
    """The vectors of passages as the journal gives them: `(len(rows), dimensions)` float32."""
    return np.frombuffer(b"".join(row.vector for row in rows), "<f2").reshape(len(rows), -1).astype(np.float32)


def metadata_of(row: EmbeddedPassage) -> Metadata:
    """The metadata of a passage; what its step has not got is left out."""
    found: dict[str, str | int | float | None] = {
        "step": row.step,
        "type": row.type,
        "time": row.time,
        "milestone": bool(row.milestone),
        "session": row.session,
        "speaker": row.speaker,
        "tool": ", ".join(row.tools.splitlines()) or None,
    }
    return {name: value for name, value in found.items() if value is not None}
