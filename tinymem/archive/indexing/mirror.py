"""A vector store that follows a journal, whoever runs it: a process of its own, or the one that has the memory open.

The journal says what is new and what has changed (`Journal.changes`), and the mirror notes beside the store's files how
far it is. Nobody hands anything over, and nothing is lost with it: where the notes and the store do not fit the
journal, the store begins anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

from tinymem.archive.indexing.notes import Notes, hold_folder, read_notes, write_notes
from tinymem.archive.indexing.records import upsert_options, vectors_of
from tinymem.errors import StorageError, TinymemError, undo_on_failure
from tinymem.protocols import ALL_PASSAGES, EmbeddedPassage, Ids, Journal, Vectors, VectorStore
from tinymem.registry import erase_store, store_from

__all__ = ["BATCH", "Mirror"]

logger = logging.getLogger(__name__)

BATCH = 1_000  # vectors that are written to the store at once
REST, LONGEST_REST = 20, 60.0  # times as long as a failure took, a store is not asked, but not for more seconds


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
        self._notes = Notes(self.name)  # of the store that is open
        self._lock = ExitStack()  # of the folder
        self._is_locked = False
        self._rest_until = 0.0

    @property
    def is_open(self) -> bool:
        """True while this process has the store."""
        return self._store is not None

    def lacks(self) -> bool:
        """Return whether the store has not all that the journal has, in whatever process."""
        notes = read_notes(self._folder)
        if notes is None or notes.store != self.name:
            notes = Notes(self.name)
        with self._reading() as journal:
            return journal.last_passage() > notes.passage or (notes.passage > 0 and bool(journal.changes(notes.change)))

    def is_outdated(self) -> bool:
        """Return whether a store may hold vectors of what was forgotten."""
        notes = read_notes(self._folder)
        if notes is None or not notes.store:
            return False
        with self._reading() as journal:
            return any(change.passage == ALL_PASSAGES for change in journal.changes(notes.change))

    # -- in -----------------------------------------------------------------------------------------------------------

    def follow(self) -> bool:
        """Give the store a batch of what it lacks; False if it lacked nothing. Raises what the store raises."""
        with self._guard:
            store = self._opened()
            notes = self._notes
            with self._reading() as journal:
                changes = journal.changes(notes.change)[:BATCH]
                if changes and changes[0].passage == ALL_PASSAGES:
                    return True  # just now, so that it begins anew with the next batch
                changed = sorted({change.passage for change in changes if change.passage <= notes.passage})
                again: list[EmbeddedPassage] = []
                for id in changed:
                    again += [row for row in journal.passages(id - 1, 1) if row.id == id]
                fresh = journal.passages(notes.passage, BATCH)
            if not changes and not fresh and self._has_lost(store):
                self.close()
                self._opened()  # which begins anew
                return True
            store.delete(sorted({*changed} - {row.id for row in again}))
            for rows in (again, fresh):
                if rows:
                    store.upsert([row.id for row in rows], vectors_of(rows), **upsert_options(store, rows))
            if fresh:
                notes = replace(notes, passage=fresh[-1].id, time=fresh[-1].time)
            if changes:
                notes = replace(notes, change=changes[-1].number)
            self._note(replace(notes, fault="", is_opening=False))
            return bool(changes or fresh)

    def _note(self, notes: Notes) -> None:
        if notes != self._notes:
            write_notes(self._folder, notes)
            self._notes = notes

    def fail(self, fault: str) -> None:
        """Let go of the store, and note why it cannot be written, unless another process has it."""
        with self._guard, suppress(TinymemError):
            self.close()
            with hold_folder(self._folder):
                notes = read_notes(self._folder) or Notes("")
                write_notes(self._folder, replace(notes, fault=fault, is_opening=False))

    # -- opening ------------------------------------------------------------------------------------------------------

    def _opened(self) -> VectorStore:
        """Return the store, which fits its notes, and these the journal; it begins anew where they did not."""
        is_noted = self._is_locked and read_notes(self._folder) == self._notes  # or somebody has deleted the files
        if self._store is not None and is_noted and not self.is_outdated():
            return self._store
        self.close()
        with undo_on_failure(self.close):
            self._take_folder()
            notes = self._begin()
            self._note(replace(notes, is_opening=True))
            self._store = store = self._opened_store()
            if not self._is_as_noted(store):  # its files are gone, or they are not those of the notes
                store.clear()
                self._note(replace(self._notes, passage=0))
        return store

    def _is_as_noted(self, store: VectorStore) -> bool:
        """Return whether a store has what the notes say."""
        with self._reading() as journal:
            due = journal.passages_until(self._notes.passage)
        count = store.count()
        return count >= due if due else count == 0

    def _has_lost(self, store: VectorStore) -> bool:
        """Return whether an open store lost something, as a server does that was started again without its data."""
        try:
            return not self._is_as_noted(store)
        except Exception:  # opened again, it says what is wrong
            return True

    def _opened_store(self) -> VectorStore:
        try:
            return self._store or store_from(self._spec, self._folder)
        except Exception:
            if not self._notes.passage:  # it has nothing that anybody could want to be cleared
                write_notes(self._folder, None)
            raise

    def _take_folder(self, within: float = 0.0) -> None:
        self._lock.enter_context(hold_folder(self._folder, within))
        self._is_locked = True

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
        """Return whether the store may go on from there: nothing was forgotten, and the journal is no older backup."""
        with self._reading() as journal:
            changed = {change.passage: change.number for change in journal.changes(0)}
            rows = journal.passages(notes.passage - 1, 1)
        is_there = bool(rows) and (rows[0].id, rows[0].time) == (notes.passage, notes.time)
        is_known = is_there or not notes.passage or notes.passage in changed
        return is_known and changed.get(ALL_PASSAGES, 0) <= notes.change

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

    # -- out ----------------------------------------------------------------------------------------------------------

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors, int] | None:
        """Return ids and cosines of the nearest passages, and the last passage that the store holds.

        None while the store is not open, another thread uses it, or it is left alone after a failure.
        """
        if not self._guard.acquire(blocking=False):
            return None
        begun = time.monotonic()
        try:
            if self._store is None or begun < self._rest_until:
                return None
            return *self._store.query(vector, k), self._notes.passage
        except StorageError as error:
            self._rest_until = time.monotonic() + min(REST * (time.monotonic() - begun), LONGEST_REST)
            logger.info("going on without the index: %s", error)
            return None
        finally:
            self._guard.release()

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
                self._take_folder(within)
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
            self._is_locked = False

    def end(self) -> None:
        """Close the store, whoever opened it."""
        with self._guard:
            self.close()
            self._close_store()

    def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
