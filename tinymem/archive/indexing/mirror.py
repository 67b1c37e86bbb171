"""A vector store that follows a journal, in whatever process.

The journal says what is new and what has changed (`Journal.changes`), and the mirror notes beside the store's files how
far it is. Nobody hands anything over, and nothing is lost with it: where the notes and the store do not fit the
journal, the store begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

from tinymem.archive.indexing.notes import Notes, hold_folder, is_taken, read_notes, write_notes
from tinymem.archive.indexing.records import upsert_options, vectors_of
from tinymem.errors import StorageError, TinymemError, safe_summary, undo_on_failure
from tinymem.protocols import ALL_PASSAGES, EmbeddedPassage, Journal, VectorStore
from tinymem.registry import erase_store, store_from

__all__ = ["BATCH", "Mirror"]

BATCH = 1_000  # vectors that are written to the store at once


class Mirror:
    """The store of a journal, with its notes, and its files if it has any, in `folder`; `reading` opens the journal.

    A store that is given by its name is closed by `close`, an object by `end`. Any number of threads may use a mirror.
    """

    def __init__(
        self, store: str | VectorStore, folder: Path, reading: Callable[[], AbstractContextManager[Journal]]
    ) -> None:
        self._spec, self._folder, self._reading = store, folder, reading
        self.name = store if isinstance(store, str) else store.name
        self._guard = threading.RLock()  # of who uses the store
        self._store: VectorStore | None = None
        self._notes: Notes | None = None  # while this mirror has the folder
        self._lock = ExitStack()  # of the folder

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
        return notes is not None and bool(notes.store) and (notes.has_gone or self._is_to_begin_anew(notes))

    def _is_to_begin_anew(self, notes: Notes) -> bool:
        with self._reading() as journal:
            return any(change.passage == ALL_PASSAGES for change in journal.changes(notes.change))

    # -- in -----------------------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Give the store a batch of what it lacks; False if it lacked nothing. Raises what the store raises."""
        with self._guard:
            try:
                return self._follow(*self.open())
            except Exception as error:
                if not is_taken(error):
                    self._fail(safe_summary(error))
                raise

    def _follow(self, store: VectorStore, notes: Notes) -> bool:
        again: list[EmbeddedPassage] = []
        with self._reading() as journal:
            changes = journal.changes(notes.change)[:BATCH]
            if changes and changes[0].passage == ALL_PASSAGES:
                return True  # just now, so that it begins anew with the next batch
            changed = {change.passage for change in changes if change.passage <= notes.passage}
            for id in sorted(changed):
                again += [row for row in journal.passages(id - 1, 1) if row.id == id]
            fresh = journal.passages(notes.passage, BATCH)
        if gone := changed.difference(row.id for row in again):
            store.delete(sorted(gone))
            notes = replace(notes, has_gone=True)
        for rows in filter(None, (again, fresh)):
            store.upsert([row.id for row in rows], vectors_of(rows), **upsert_options(store, rows))
        if fresh:
            notes = replace(notes, passage=fresh[-1].id, time=fresh[-1].time)
        if changes:
            notes = replace(notes, change=changes[-1].number)
        self._note(replace(notes, fault="", is_opening=False))
        return bool(changes or fresh)

    def _note(self, notes: Notes) -> Notes:
        if notes != self._notes:
            write_notes(self._folder, notes)
            self._notes = notes
        return notes

    def _fail(self, fault: str) -> None:
        """Let go of the store, and note why it cannot be written."""
        with suppress(TinymemError):
            self.close()
            with hold_folder(self._folder):
                notes = read_notes(self._folder) or Notes("")
                write_notes(self._folder, replace(notes, fault=fault, is_opening=False))

    # -- opening ------------------------------------------------------------------------------------------------------

    def open(self) -> tuple[VectorStore, Notes]:
        """Return the store and its notes, which fit it and the journal; it begins anew where they did not."""
        if self._store is not None and self._notes is not None:
            is_noted = read_notes(self._folder) == self._notes  # or somebody has deleted the files
            if is_noted and not self._is_to_begin_anew(self._notes):
                return self._store, self._notes
        self.close()
        with undo_on_failure(self.close):
            self._lock.enter_context(hold_folder(self._folder))
            notes = self._note(replace(self._begin(), is_opening=True))
            store = self._opened_store(notes)
            with self._reading() as journal:
                due = journal.passages_until(notes.passage)
            count = store.count()
            if count < due or (count and not due):  # its files are gone, or they are not those of the notes
                store.clear()
                notes = self._note(replace(notes, passage=0))
        return store, notes

    def _opened_store(self, notes: Notes) -> VectorStore:
        try:
            self._store = self._store or store_from(self._spec, self._folder)
        except Exception:
            if not notes.passage:  # it has nothing that anybody could want to be cleared
                write_notes(self._folder, None)
            raise
        return self._store

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

    def _clear(self, name: str) -> None:
        """Remove all vectors from the store with this name: by deleting its files, or else by opening it."""
        try:
            if name == self.name and not isinstance(self._spec, str):
                self._store = self._spec
                self._store.clear()
                return
            self._close_store()
            if not erase_store(name, self._folder):
                with closing(store_from(name, self._folder)) as store:
                    store.clear()
        except TinymemError as error:
            message = f"the store {name} holds vectors of this memory and cannot be cleared: {error}"
            raise StorageError(message) from error

    # -- away ---------------------------------------------------------------------------------------------------------

    def erase(self, within: float) -> None:
        """Remove all vectors from the store, and from the one that the memory had before.

        Raises:
            StorageError: Another process does not let go of the folder `within` so many seconds (`is_taken`), or a
                store cannot be cleared.
        """
        with self._guard:
            self.close()
            try:
                self._lock.enter_context(hold_folder(self._folder, within))
                notes = read_notes(self._folder)
                if notes is not None and notes.store not in ("", self.name):
                    self._clear(notes.store)
                self._clear(self.name)
                write_notes(self._folder, None)
            finally:
                self.close()

    def close(self) -> None:
        """Let go of the folder, and close a store that was given by its name."""
        with self._guard:
            if isinstance(self._spec, str):
                self._close_store()
            self._lock.close()
            self._notes = None

    def end(self) -> None:
        """Close the store, whoever opened it."""
        with self._guard:
            self.close()
            self._close_store()

    def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
