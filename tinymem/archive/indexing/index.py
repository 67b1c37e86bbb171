"""The index of a memory: a vector store that follows the journal, in a process of its own.

Everything in the store is in the journal as well, and no question asks it. So nobody waits for it but `follow`,
`finish` and `forget`.
"""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from pathlib import Path

from tinymem.archive.indexing.child import Child, EndedError, can_start, follow
from tinymem.archive.indexing.mirror import BATCH, Mirror
from tinymem.archive.indexing.notes import Notes, hold_folder, read_notes
from tinymem.archive.rows import has_archived
from tinymem.errors import ReadOnlyError, StorageError, TakenError
from tinymem.protocols import Journal, VectorStore
from tinymem.registry import is_in_memory
from tinymem.steps.progress import Progress, no_progress

__all__ = ["LET_GO", "Index"]

CLOSES_WITHIN = 10.0  # seconds that closing waits for the index
LET_GO = 10.0  # seconds that forgetting waits for another process to let go of the index,
FOLLOWED = 90.0  # and that flushing waits for it to go on
LOOK = 0.05  # seconds between two looks if it has
TURN = 1.0  # seconds that a store in this process gets, until others have their turn
REST = 20  # times as long as filling a store took, the background does not fill it again


class Index:
    """The vector store of `journal`, with its files and notes in `folder`.

    A store that is given by its name is filled by another process, if this program can start one. One in memory gets
    nothing, since nobody could look into it. Any number of threads may use an index.
    """

    def __init__(self, journal: Journal, folder: Path, store: str | VectorStore) -> None:
        self._journal, self._folder, self._store = journal, folder, store
        self._in_memory = is_in_memory(store)
        self._is_elsewhere = isinstance(store, str) and can_start()
        self._mirror = Mirror(store, folder, lambda: nullcontext(journal))
        self._guard = threading.RLock()  # of the child, and of a store in this process
        self._child: Child | None = None
        self._is_checked = False
        self._rests_until = 0.0

    @property
    def notes(self) -> Notes:
        """The notes of the store, which say how far it has followed, in whatever process."""
        return read_notes(self._folder) or Notes(self._mirror.name)

    @property
    def lacks(self) -> bool:
        """True if the store should have more: once a step has left the window, it has what the journal has."""
        if self._child is not None:
            return True  # until somebody has heard its answer
        is_due = not (self._in_memory or self._journal.is_read_only) and has_archived(self._journal)
        return is_due and self._mirror.lacks()

    @property
    def lacks_much(self) -> bool:
        """True if it lacks a whole batch."""
        return self._journal.last_passage() - self.notes.passage >= BATCH

    @property
    def rests(self) -> bool:
        """True while it is too soon to start another process for a few passages, or this program has one."""
        if self._child is not None:
            return False
        is_soon = time.monotonic() < self._rests_until and not self.lacks_much
        return is_soon or (self._is_elsewhere and Child.newest is not None and Child.newest.runs())

    # -- in -----------------------------------------------------------------------------------------------------------

    def advance(self, within: float = 0.0) -> bool:
        """Have the store get what it lacks, and return whether it lacks something still. Raises what the store raises.

        Another process does so, and is waited for `within` so many seconds.
        """
        with self._guard:
            if not self._is_elsewhere:
                until = time.monotonic() + TURN
                self._mirror.follow(lambda: time.monotonic() > until)
                return self._mirror.lacks()
            if self._child is None:
                with hold_folder(self._folder):  # or a process would start for nothing
                    pass
                self._child = Child(follow, self._folder.parent, self._mirror.name)
            if self._child.runs(within):
                return True
            child, self._child = self._child, None
            self._rests_until = time.monotonic() + REST * child.age
            child.answer()
            return self._mirror.lacks()

    def follow(self, progress: Progress = no_progress) -> None:
        """Wait until the store has all that is embedded now, left the window or not. Raises what the store raises.

        The first time it is opened in any case, which finds out if it has lost something.
        """
        if self._journal.is_read_only:
            raise ReadOnlyError(self._journal.location)
        is_behind = not self._in_memory and self._journal.last_passage() > 0
        is_behind = is_behind and (not self._is_checked or self._child is not None or self._mirror.lacks())
        total, until = self._journal.counts()["passages"], time.monotonic() + FOLLOWED
        before = self.notes
        while is_behind:
            problem: StorageError | None = None
            try:
                is_behind = self.advance(LOOK)
                self._is_checked = True
            except (TakenError, EndedError) as error:
                problem, is_behind = error, self._mirror.lacks()
                time.sleep(LOOK)
            if (notes := self.notes) != before:
                before, until = notes, time.monotonic() + FOLLOWED
                progress(min(self._journal.passages_until(notes.passage), total), total)
            elif is_behind and time.monotonic() > until:
                self.let_go()
                raise problem or StorageError(f"the index in {self._folder} lacks something, and gets nothing")

    def finish(self) -> None:
        """Have the store get what it lacks, if that does not take long. Raises what the store raises."""
        until = time.monotonic() + CLOSES_WITHIN
        while time.monotonic() < until:
            if self.forget(0.0):
                continue
            if not self.lacks:
                return
            self.advance(LOOK)

    # -- away ---------------------------------------------------------------------------------------------------------

    def forget(self, within: float = LET_GO) -> bool:
        """Remove the vectors of what is gone: all of them, and the background fills the store again; True if it did.

        Raises StorageError where another process does not let go of the index `within` so many seconds, or a store
        cannot be cleared; then whatever process next fills it begins with it.
        """
        if not self._mirror.is_outdated():
            return False
        try:
            self._erase(within)
        except TakenError:
            if self._mirror.is_outdated():  # or the other process has done it
                raise
        return True

    def let_go(self) -> None:
        """End the process that fills this store, and no other; one that hangs is killed."""
        with self._guard:
            child, self._child = self._child, None
            if child is not None:
                child.end()

    def renew(self, progress: Progress = no_progress) -> None:
        """Clear and fill the store; `progress` and errors are as in `follow`."""
        self._erase(LET_GO)
        self.follow(progress)

    def _erase(self, within: float) -> None:
        with self._guard:
            self.let_go()
            self._mirror.erase(within)

    def close(self) -> None:
        """Let go of the folder, and close the store if it is in this process."""
        self.let_go()
        if not isinstance(self._store, str):
            self._store.close()
