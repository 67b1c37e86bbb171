"""The index of a memory: a vector store that follows the journal, in a process of its own.

Everything in the store is in the journal as well, and no question asks it. So nobody waits for it but `follow`,
`finish` and `forget`.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

from tinymem.archive.indexing import worker
from tinymem.archive.indexing.mirror import BATCH, Mirror
from tinymem.archive.indexing.notes import Notes, is_taken, read_notes
from tinymem.archive.indexing.process import EndedError, can_start, process
from tinymem.errors import ReadOnlyError, StorageError
from tinymem.protocols import Journal, VectorStore
from tinymem.registry import is_in_memory
from tinymem.steps.progress import Progress, no_progress

__all__ = ["LET_GO", "Index"]

ANSWERS_WITHIN = 30.0  # seconds that a process may take to open a large index and write to it
CLOSES_WITHIN = 10.0  # seconds that closing waits for the index
LET_GO = 10.0  # seconds that forgetting waits for another process to let go of the index,
FOLLOWED = 90.0  # and that flushing waits for it to go on
LOOK = 0.05  # seconds between two looks if it has


class Index:
    """The vector store of `journal`, with its files and notes in `folder`.

    A store that is given by its name runs in another process, if this program can start one. One in memory gets
    nothing, since nobody could look into it. Any number of threads may use an index.
    """

    def __init__(self, journal: Journal, folder: Path, store: str | VectorStore) -> None:
        self._journal, self._folder, self._in_memory = journal, folder, is_in_memory(store)
        self._is_elsewhere = isinstance(store, str) and can_start()
        self._mirror = Mirror(store, folder, lambda: nullcontext(journal))
        self._user = folder.parent.absolute()

    @property
    def notes(self) -> Notes:
        """The notes of the store, which say how far it has followed, in whatever process."""
        return read_notes(self._folder) or Notes(self._mirror.name)

    @property
    def lacks(self) -> bool:
        """True if the store should have more: once a step has left the window, it has what the journal has."""
        is_due = not (self._in_memory or self._journal.is_read_only) and self._journal.any_archived()
        return is_due and self._mirror.lacks()

    @property
    def lacks_much(self) -> bool:
        """True if it lacks a whole batch."""
        return self._journal.last_passage() - self.notes.passage >= BATCH

    # -- in -----------------------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Give the store some of what it lacks; False once it has everything. Raises what the store raises."""
        if self._is_elsewhere:
            return bool(process.call(ANSWERS_WITHIN, worker.follow, self._user, self._mirror.name))
        try:
            return self._mirror.advance()
        finally:
            self._mirror.close()  # for other processes

    def follow(self, progress: Progress = no_progress) -> None:
        """Wait until the store has all that is embedded now, left the window or not. Raises what the store raises.

        It is opened, which finds out if it has lost something.
        """
        if self._journal.is_read_only:
            raise ReadOnlyError(self._journal.location)
        is_behind = not self._in_memory and self._journal.last_passage() > 0
        total, until = self._journal.counts()["passages"], time.monotonic() + FOLLOWED
        before = self.notes
        while is_behind:
            problem: StorageError | None = None
            try:
                self.advance()
            except StorageError as error:
                if not (is_taken(error) or isinstance(error, EndedError)):
                    raise
                problem = error
                time.sleep(LOOK)
            if (notes := self.notes) != before:
                before, until = notes, time.monotonic() + FOLLOWED
                progress(min(self._journal.passages_until(notes.passage), total), total)
            elif time.monotonic() > until:
                raise problem or StorageError(f"the index in {self._folder} lacks something, and gets nothing")
            is_behind = self._mirror.lacks()

    def finish(self) -> None:
        """Have the store get what it lacks, if that does not take long. Raises what the store raises."""
        until = time.monotonic() + CLOSES_WITHIN
        while time.monotonic() < until:
            if self.lacks:
                self.advance()
            elif not self.forget(0.0):
                return

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
        except StorageError as error:
            if not is_taken(error) or self._mirror.is_outdated():  # or another process has done it
                raise
        return True

    def let_go(self) -> None:
        """Have the other process close this store, and nothing else; one that hangs is killed."""
        if self._is_elsewhere:
            process.release(self._user)

    def rest(self) -> float | None:
        """End the other process if nobody has used it for a while; the seconds until then, or None if there is none."""
        return process.rest() if self._is_elsewhere else None

    def renew(self, progress: Progress = no_progress) -> None:
        """Clear and fill the store; `progress` and errors are as in `follow`."""
        self._erase(LET_GO)
        self.follow(progress)

    def _erase(self, within: float) -> None:
        self.let_go()
        self._mirror.erase(within)

    def close(self) -> None:
        """Let go of the folder, in the other process too, which ends if no other memory needs it."""
        self.let_go()
        self._mirror.end()
