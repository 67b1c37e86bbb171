"""The index of a memory: a vector store that follows the journal, in a process of its own, and what it is asked.

Everything in the store is in the journal as well. Where it lacks something, is busy, fails, or belongs to another
process, passages are searched exactly, and nobody waits for it but `follow` and `forget`.
"""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np

from tinymem.archive.indexing.mirror import Mirror
from tinymem.archive.indexing.notes import Notes, is_taken, read_notes
from tinymem.archive.indexing.process import EndedError, can_start, process
from tinymem.errors import ReadOnlyError, StorageError, safe_summary
from tinymem.protocols import Ids, Journal, Vectors, VectorStore
from tinymem.recall.candidates import Nearest, products
from tinymem.recall.snapshot import Snapshot
from tinymem.registry import is_in_memory
from tinymem.steps.progress import Progress, no_progress

__all__ = ["EXACT_UP_TO", "LET_GO", "Index"]

EXACT_UP_TO = 100_000  # passages up to which search is exact
ANSWERED = 0.05  # seconds that a search waits for an answer, before it is exact
LET_GO = 10.0  # seconds that forgetting waits for another process to let go of the index,
FOLLOWED = 90.0  # and that flushing waits for it to go on, longer than a process that hangs is waited for at first
LOOK = 0.05  # seconds between two looks if it has
NOTHING = np.zeros(0, np.int64), np.zeros(0, np.float32)


class Index:
    """The vector store of `journal`, with its files and notes in `folder`.

    A store that is given by its name runs in another process, if this program can start one; else `follow` alone fills
    it. An object is filled here, piece by piece (`advance`). Up to `exact_up_to` passages nobody asks the store, and
    one in memory that is given by its name is never asked, since it searches exactly too. Any number of threads may use
    an index.
    """

    def __init__(
        self, journal: Journal, folder: Path, store: str | VectorStore, *, exact_up_to: int = EXACT_UP_TO
    ) -> None:
        self._journal, self._folder, self.exact_up_to = journal, folder, exact_up_to
        self._is_named, self._in_memory = isinstance(store, str), is_in_memory(store)
        self._is_elsewhere = self._is_named and can_start()
        self._mirror = Mirror(store, folder, lambda: nullcontext(journal))
        self._key = str(folder.parent.absolute()), self._mirror.name

    @property
    def notes(self) -> Notes:
        """The notes of the store, which say how far it has followed, in whatever process."""
        return read_notes(self._folder) or Notes(self._mirror.name)

    @property
    def lacks(self) -> bool:
        """True if the store should have more: from the first step on that left the window, it has what the journal has.

        One in memory waits until there is almost enough to ask it.
        """
        is_due = not self._journal.is_read_only and self._journal.any_archived()
        return is_due and self._is_of_use() and self._mirror.lacks()

    def _is_of_use(self) -> bool:
        is_small = self._journal.last_passage() < self.exact_up_to // 2
        return not (self._in_memory and (self._is_named or is_small))

    # -- in -----------------------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Have the store get more of what it lacks; True if this thread gave it some. Raises what the store raises."""
        if not self.lacks:
            return False
        if self._is_elsewhere:
            process.tell("follow", *self._key)
        if self._is_named:
            return False
        try:
            self._follow_here()
        finally:
            self._mirror.close()  # for other processes
        return True

    def _follow_here(self) -> None:
        """Give the store a batch, in this process."""
        try:
            self._mirror.follow()
        except Exception as error:
            if not is_taken(error):
                self._mirror.fail(safe_summary(error))
            raise

    def follow(self, progress: Progress = no_progress) -> None:
        """Wait until the store has all that is embedded now, left the window or not. Raises what the store raises.

        It is opened, which finds out if it has lost something.
        """
        if self._journal.is_read_only:
            raise ReadOnlyError(self._journal.location)
        is_behind = self._is_of_use() and self._journal.last_passage() > 0
        total, until = self._journal.counts()["passages"], time.monotonic() + FOLLOWED
        before = self.notes
        while is_behind:
            error = self._wait_for_batch()
            if (notes := self.notes) != before:
                before, until = notes, time.monotonic() + FOLLOWED
                progress(min(self._journal.passages_until(notes.passage), total), total)
            elif time.monotonic() > until:
                raise error or StorageError(f"the index in {self._folder} lacks something, and gets nothing")
            is_behind = self._mirror.lacks()
        if not self._is_elsewhere:
            self._mirror.close()

    def _wait_for_batch(self) -> StorageError | None:
        """Wait until the store has got a batch, or for a moment where that cannot be yet, and return the reason.

        It is that another process has the store, or that its own has ended.
        """
        try:
            if self._is_elsewhere:
                process.ask("advance", *self._key)
            else:
                self._follow_here()
        except StorageError as error:
            if not (is_taken(error) or isinstance(error, EndedError)):
                raise
            time.sleep(LOOK)
            return error
        return None

    def finish(self) -> None:
        """Have the store get what it lacks: a process of its own does so after the end of this one too."""
        if self._is_elsewhere:
            self.advance()
        else:
            self.follow()

    # -- out ----------------------------------------------------------------------------------------------------------

    def nearest(self, catalog: Snapshot) -> Nearest:
        """Return a search of the store, and exactly of what it lacks; it finds nothing where the store is no help."""

        def search(vector: Vectors, k: int) -> tuple[Ids, Vectors]:
            answer = self._query(vector, k)
            if answer is None:
                return NOTHING
            ids, cosines, last = answer
            count = int(np.searchsorted(catalog.id, last, "right"))
            if count <= len(catalog) // 2:
                return NOTHING
            mine = ids <= last  # a crash can leave some beyond it
            beyond = products(vector[np.newaxis], catalog.vectors[count:])[0]
            ids = np.concatenate([ids[mine], catalog.id[count:]])
            cosines = np.concatenate([cosines[mine], beyond])
            best = np.argsort(-cosines, kind="stable")[:k]
            return ids[best], cosines[best]

        return search

    def _query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors, int] | None:
        """Return what the store finds, with the last passage that it holds; None where that would take long."""
        if not self._is_elsewhere:
            return self._mirror.query(vector, k)
        answer: tuple[Ids, Vectors, int] | None = None
        if self.notes.store != self._mirror.name or not self.notes.passage:  # or the process would fill it
            return answer
        with suppress(StorageError, TimeoutError):
            answer = process.ask("query", *self._key, vector, k, within=ANSWERED)
        return answer

    # -- away ---------------------------------------------------------------------------------------------------------

    def forget(self, within: float = LET_GO) -> None:
        """Remove the vectors of what was forgotten: all of them, and the background fills the store again.

        Raises StorageError where another process does not let go of the index `within` so many seconds, or a store
        cannot be cleared; then whatever process next fills it begins with it.
        """
        if self._mirror.is_outdated():
            try:
                self._erase(within)
            except StorageError as error:
                if not is_taken(error) or self._mirror.is_outdated():  # or another process has done it
                    raise

    def stop(self) -> None:
        """End the other process at once: it may be reading the journal, and what it writes is to be deleted."""
        if self._is_elsewhere:
            process.stop()

    def renew(self, progress: Progress = no_progress) -> None:
        """Clear and fill the store; `progress` and errors are as in `follow`."""
        self._erase(LET_GO)
        self.follow(progress)

    def _erase(self, within: float) -> None:
        if self._is_elsewhere:
            process.end()  # it may hold the vectors in its memory
        self._mirror.erase(within)

    def leave(self) -> None:
        """Let go of the folder at once, in the other process too."""
        if self._is_elsewhere:
            process.end()
        self._mirror.end()

    def close(self) -> None:
        """Let go of the folder: the other process, once it has done what is left."""
        if self._is_elsewhere and process.is_running:
            process.tell("finish", *self._key)
        self._mirror.end()
