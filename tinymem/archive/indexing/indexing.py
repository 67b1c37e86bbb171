"""The work of an archive that no caller waits for: it embeds, summarises, indexes, writes snapshots, and scrubs.

Flushing and closing do it too. Who adds steps embeds a batch where these come faster than the background can embed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tinymem.archive.embedding import EmbeddingQueue
from tinymem.archive.indexing.background import Background
from tinymem.archive.indexing.index import Index
from tinymem.archive.rows import has_archived
from tinymem.errors import ClosedError, StorageError, TakenError, safe_summary, warn_hourly
from tinymem.protocols import Journal
from tinymem.protocols.settings import UNSCRUBBED
from tinymem.steps.progress import Progress, no_progress

__all__ = ["Indexing"]

logger = logging.getLogger(__name__)

WAITING = 16_000  # new steps are embedded once they have so many tokens
IDLE = 1.0  # seconds without a call after which less than that is embedded too
QUIET = 0.05  # seconds without a call before the background works, or each call would wait for the interpreter's lock
LOOK = 1.0  # seconds between two looks if the index follows
HELD, LONGEST_HELD = 1.0, 30.0  # seconds until a store that fails is tried again
MOST_NEW = 4  # times WAITING: the most tokens that wait to be embedded; then adding steps embeds a batch of them
SCRUB_REST = 20  # times as long as writing the journal's file again took, it is not written again


class Indexing:
    """The work that keeps the vectors, the summaries and the index of an archive up to date.

    While it is `in_background`, a thread does what waits; so does closing.

    Args:
        journal: What is to be indexed.
        queue: Embeds what waits.
        index: Follows what is embedded.
        folder: The memory's folder, which warnings name.
        write_files: Writes the files of the memory's snapshot where they are due.
    """

    def __init__(
        self, journal: Journal, queue: EmbeddingQueue, index: Index, folder: Path, write_files: Callable[[], object]
    ) -> None:
        self.folder, self._journal, self._queue, self._index = folder, journal, queue, index
        self.in_background = False
        self._summarise: Callable[[], object] = lambda: None
        self._write_files = write_files
        self._new_tokens = 0  # of steps that this process has written and, as far as it knows, nobody has embedded
        self._pause = HELD
        self._called_at = self._scrub_at = 0.0
        self._background = Background(self.work)

    def begin(self, summarise: Callable[[], object]) -> None:
        """Leave what waits, and will wait, to the background; `summarise` makes the summaries of what was archived.

        Where nothing can be written, there is nothing to do.
        """
        self.in_background, self._summarise = not self._journal.is_read_only, summarise
        if not self.in_background:
            return
        with suppress(StorageError):  # or the background does it
            self._index.forget(0.0)  # what an earlier process could not
        if has_archived(self._journal):
            self.wake()

    def note_call(self, tokens: int = 0) -> None:
        """Note that somebody calls, and how many tokens they write."""
        self._called_at = time.monotonic()
        self._new_tokens += tokens

    def wake(self) -> None:
        """Have the background embed what waits, soon if it is much, else when nobody calls."""
        self.note_call()
        if self.in_background:
            self._background.wake(QUIET if self._embeds_soon else IDLE)

    @property
    def _embeds_soon(self) -> bool:
        return self._new_tokens >= WAITING and self._queue.is_known and not self._queue.rests

    def _digest(self) -> bool:
        """Embed a batch, and summarise what was archived, once enough waits or nobody has called for a while.

        Returns:
            False if there was nothing to embed.
        """
        is_idle = time.monotonic() - self._called_at >= IDLE
        if not self._queue.is_known or not has_archived(self._journal) or not self._queue.lock.acquire(blocking=False):
            return False  # a caller embeds already
        try:
            before = self._journal.last_passage()
            self._queue.catch_up(1 if is_idle else WAITING, once=True)
            is_done = self._journal.last_passage() != before
        finally:
            self._queue.lock.release()
        self._new_tokens = self._journal.waiting_tokens()
        if is_done or is_idle:
            self._summarise()
        return is_done

    def work(self) -> float | None:
        """Do a piece of what waits; the seconds until there may be more to do, None for nothing."""
        try:
            return self._work() if self.in_background else None
        except ClosedError:
            return None
        except Exception as error:
            if isinstance(error, TakenError):  # another process works for the same memory
                return self._pause
            self._pause = min(2 * self._pause, LONGEST_HELD)
            if threading.main_thread().is_alive() and self._has_files():  # without its files nobody misses the index
                message = "the background goes on without the index, and tries again: %s"
                warn_hourly(logger, self.folder, message, safe_summary(error))
            return self._pause

    def _work(self) -> float | None:
        """Embed a batch, have the index follow, write the files of a snapshot, or scrub the journal."""
        if time.monotonic() - self._called_at < QUIET:
            return QUIET
        is_done = self._digest()
        if self._index.lacks and not self._index.rests:
            self._index.advance()
        self._write_files()
        self._pause = HELD
        if is_done:
            return 0.0
        if has_archived(self._journal) and self._journal.waiting_tokens():
            return QUIET if self._embeds_soon else IDLE
        if self._journal.setting(UNSCRUBBED):
            return self._scrub()
        return LOOK if self._index.lacks else None

    def _scrub(self) -> float:
        """Leave nothing in the journal's file of what was replaced, if nobody calls; the seconds until then."""
        now = time.monotonic()
        wait = max(self._called_at + IDLE, self._scrub_at) - now
        if wait > 0:
            return wait
        self._journal.maintenance.finish_scrub()
        self._index.forget(0.0)
        self._scrub_at = time.monotonic() + SCRUB_REST * (time.monotonic() - now)
        return IDLE

    def keep_pace(self) -> None:
        """Embed a batch where steps come faster than the background can embed them."""
        if self.in_background and self._new_tokens >= MOST_NEW * WAITING and has_archived(self._journal):
            self._queue.catch_up(MOST_NEW * WAITING, once=True)
            self._new_tokens = self._journal.waiting_tokens()
            self._background.wake()

    def _has_files(self) -> bool:
        """Return whether the memory's files are where they were: its folder may be gone, or have come back empty."""
        try:
            self._journal.version()
        except StorageError:
            return False
        return self.folder.exists()

    def flush(self, progress: Progress = no_progress) -> None:
        """Wait until all that is embedded now is in the index. Raises what the store raises."""
        self._new_tokens = self._journal.waiting_tokens()
        if has_archived(self._journal):
            self._index.follow(progress)

    def finish(self) -> None:
        """Leave the background, embed what waits, and have the index follow; where that fails, it does so next time."""
        was_in_background, self.in_background = self.in_background, False
        self._background.end()
        self._queue.catch_up()
        self._journal.maintenance.finish_scrub()
        if not was_in_background:
            return
        self._summarise()
        self._write_files()
        try:
            self._index.finish()
        except Exception as error:
            if not isinstance(error, TakenError):
                warn_hourly(logger, self.folder, "closing with an index that is behind: %s", safe_summary(error))
