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
from tinymem.archive.indexing.mirror import Mirror, Notes, hold_folder
from tinymem.archive.rows import has_archived
from tinymem.errors import ReadOnlyError, StorageError, TakenError, safe_summary
from tinymem.protocols import Journal, VectorStore
from tinymem.registry import is_in_memory
from tinymem.steps.progress import Progress, no_progress

__all__ = ["LET_GO", "Index"]

CLOSES_WITHIN = 10.0  # seconds that closing waits for the index
LET_GO = 10.0  # seconds that forgetting waits for another process to let go of the index,
FOLLOWED = 90.0  # and that flushing waits for it to go on
LOOK = 0.05  # seconds between two looks if it has
REST = 20  # times as long as filling a store took, the background does not fill it again


class Index:
    """The vector store of `journal`, with its files and notes in `folder`.

    A store that is given by its name is filled by another process, if this program can start one. One in memory gets
    nothing, since nobody could look into it. Any number of threads may use an index. `fault` is why the store could not
    be written when it was last tried; "" where it could.
    """

    def __init__(self, journal: Journal, folder: Path, store: str | VectorStore) -> None:
        self._journal, self._folder, self._store = journal, folder, store
        self._in_memory = is_in_memory(store)
        self._is_elsewhere = isinstance(store, str) and can_start()
        self._mirror = Mirror(store, folder, lambda: nullcontext(journal))
        self._guard = threading.RLock()  # of the child, and of a store in this process
        self._child: Child | None = None
        self._before = Notes()  # as they were when the child began
        self._is_checked = False
        self._rests_until = 0.0
        self.fault = ""

    @property
    def notes(self) -> Notes:
        """The notes of the store, which say how far it has followed, in whatever process."""
        return self._mirror.notes

    @property
    def lacks(self) -> bool:
        """True if the store should have more: once a step has left the window, it has what the journal has."""
        if self._child is not None:
            return True  # until somebody has heard its answer
        is_due = not (self._in_memory or self._journal.is_read_only) and has_archived(self._journal)
        return is_due and self._mirror.lacks()

    @property
    def rests(self) -> bool:
        """True while it is too soon to start another process, or this program has one for another memory."""
        if self._child is not None or not self._is_elsewhere:
            return False
        return time.monotonic() < self._rests_until or (Child.newest is not None and Child.newest.runs())

    # -- in -----------------------------------------------------------------------------------------------------------

    def advance(self, within: float = 0.0) -> None:
        """Have the store get some of what it lacks. Raises what the store raises.

        Another process gives it all, and is waited for `within` so many seconds.
        """
        with self._guard:
            try:
                if not self._is_elsewhere:
                    self._mirror.follow(lambda: True)
                elif not self._ends(within):
                    return
            except TakenError:
                raise
            except Exception as error:
                self.fault = safe_summary(error)
                raise
            self._is_checked, self.fault = True, ""

    def _ends(self, within: float) -> bool:
        """Start the process unless it runs, and return whether it has ended within so many seconds."""
        if self._child is None:
            with hold_folder(self._folder):  # or a process would start for nothing
                self._before = self.notes
            self._child = Child(follow, self._folder.parent, self._mirror.name)
        if self._child.runs(within):
            return False
        child, self._child = self._child, None
        self._rests_until = time.monotonic() + REST * (time.monotonic() - child.began)
        try:
            child.answer()
        except EndedError:
            if self.notes == self._before:  # damaged files may have ended it
                self._mirror.erase(0.0)
            raise
        return True

    def follow(self, progress: Progress = no_progress) -> None:
        """Wait until the store has all that is embedded now, left the window or not. Raises what the store raises.

        The first time it is opened in any case, which finds out if it has lost something.
        """
        if self._journal.is_read_only:
            raise ReadOnlyError(self._journal.location)
        if self._in_memory or not self._journal.last_passage():
            return
        total, until, before = self._journal.counts()["passages"], time.monotonic() + FOLLOWED, self.notes
        while not self._is_checked or self._child is not None or self._mirror.lacks():
            problem: StorageError | None = None
            try:
                self.advance(LOOK)
            except (TakenError, EndedError) as error:
                problem, self._is_checked = error, True
                time.sleep(LOOK)
            if (notes := self.notes) != before:
                before, until = notes, time.monotonic() + FOLLOWED
                progress(min(self._journal.passages_until(notes.passage), total), total)
            elif time.monotonic() > until:
                self.let_go()
                raise problem or StorageError(f"the index in {self._folder} lacks something, and gets nothing")

    def finish(self) -> None:
        """Have the store get what it lacks, if that does not take long. Raises what the store raises."""
        self.forget(0.0)
        until = time.monotonic() + CLOSES_WITHIN
        while time.monotonic() < until and self.lacks:
            self.advance(LOOK)

    # -- away ---------------------------------------------------------------------------------------------------------

    def forget(self, within: float = LET_GO) -> None:
        """Remove the vectors of what is gone: all of them, and the background fills the store again.

        Raises StorageError where another process does not let go of the index `within` so many seconds, or a store
        cannot be cleared; then whatever process next fills it begins with it.
        """
        try:
            if self._mirror.is_outdated():
                self._erase(within)
        except TakenError:
            if self._mirror.is_outdated():  # or the other process has done it
                raise

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
