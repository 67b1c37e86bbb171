"""The work of an archive that no caller waits for: the background embeds, summarises and indexes what waits.

Flushing and closing do it too. Who adds steps waits only where these come faster than the background can follow.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

from tinymem.archive.embedding import EmbeddingQueue
from tinymem.archive.indexing.background import background, is_held
from tinymem.archive.indexing.index import BATCH, Index
from tinymem.errors import StorageError, safe_summary, warn_hourly
from tinymem.protocols import Journal
from tinymem.protocols.settings import UNSCRUBBED
from tinymem.steps.progress import Progress, no_progress

__all__ = ["Indexing"]

logger = logging.getLogger(__name__)

WAITING = 16_000  # new steps are embedded once they have so many tokens
IDLE = 1.0  # seconds without a call after which less than that is embedded and indexed too
QUIET = 0.05  # seconds without a call before the background works, or each call would wait for the interpreter's lock
LOOK = 0.25  # seconds between two looks if another process has more for an open store, or wants it
LINGER = 2.0  # seconds that a store stays open when there is nothing more to write,
ASKED = 300.0  # and when it was last asked
HELD, LONGEST_HELD = 1.0, 30.0  # seconds until a store is tried again that another process has open, or that fails
MOST_BEHIND = 4_000  # passages that may wait for the store while somebody calls
MOST_NEW = 4  # times WAITING: the most tokens that wait to be embedded; then adding steps embeds a batch of them
MOST_WAITING = 20_000  # passages that may wait for the store; then adding steps waits for it,
SCRUB_REST = 20  # times as long as writing the journal's file again took, it is not written again
PACE = 1.0  # but not longer than so many seconds each time


class Indexing:
    """The work that keeps the vectors and the index of an archive up to date.

    While it is `in_background`, the background thread embeds and indexes what waits; so does closing.

    Args:
        journal: What is to be indexed.
        queue: Embeds what waits.
        index: Gets what is embedded.
        folder: The memory's folder, which warnings name.
    """

    def __init__(self, journal: Journal, queue: EmbeddingQueue, index: Index, folder: Path) -> None:
        self.folder, self._journal, self._queue, self._index = folder, journal, queue, index
        self.in_background = False
        self._summarise: Callable[[], object] = lambda: None
        self._new_tokens = 0  # of steps that this process has written and, as far as it knows, nobody has embedded
        self._keeps_pace = True
        self._is_flooded = False  # callers embed what they add, so the background may as well index it meanwhile
        self._held_for = HELD
        self._called_at = self._scrub_at = 0.0

    def begin(self, summarise: Callable[[], object]) -> None:
        """Leave what waits, and will wait, to the background; `summarise` makes the summaries of what was archived.

        Where nothing can be written, there is nothing to do.
        """
        self.in_background, self._summarise = not self._journal.is_read_only, summarise
        if self._journal.any_archived() or self._index.is_unclean:
            self.wake()

    def note_call(self, tokens: int = 0) -> None:
        """Note that somebody calls, and how many tokens they write."""
        self._called_at = time.monotonic()
        self._new_tokens += tokens

    def wake(self) -> None:
        """Have the background embed and index what waits, soon if it is much, else when nobody calls."""
        self.note_call()
        self._keeps_pace = False
        if self.in_background:
            background.wake(self, QUIET if self._embeds_soon else IDLE)

    def hurry(self) -> None:
        """Have the background do now what waits, since somebody waits for that."""
        self._called_at = -inf
        if self.in_background:
            background.wake(self)

    @property
    def _behind(self) -> int:
        """The passages that wait for the store, if it is open or should be."""
        is_wanted = self._index.is_open or (self._is_flooded and not self._index.is_small_in_memory)
        return self._journal.last_passage() - self._index.watermark if is_wanted else 0

    @property
    def _embeds_soon(self) -> bool:
        return self._new_tokens >= WAITING and self._queue.is_known and not self._queue.rests

    @property
    def waits_for_index(self) -> bool:
        """True if the index should have more than it has."""
        has_to_follow = self._index.is_unclean or (self._journal.any_archived() and self._index.lacks)
        return has_to_follow and not self._index.is_small_in_memory

    def _digest(self) -> bool:
        """Embed a batch, and summarise what was archived, once enough waits or nobody has called for a while.

        Returns:
            False if there was nothing to embed.
        """
        is_idle = time.monotonic() - self._called_at >= IDLE
        if not self._queue.is_known or not self._journal.any_archived() or not self._queue.lock.acquire(blocking=False):
            return False  # where a caller embeds already, the index need not wait for that
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
        """Embed a batch, or give the store one, or close it when it is idle or another process wants it.

        Returns:
            The seconds until there may be more to do; None for nothing.
        """
        index, now = self._index, time.monotonic()
        if not self.in_background:
            return None
        if index.is_requested:
            index.rest()
            return HELD
        if now - self._called_at < QUIET and self._behind < (BATCH if self._is_flooded else MOST_BEHIND):
            return QUIET
        # A whole batch goes to the store first, which writes while callers embed; but not where it has just failed.
        if (self._behind < BATCH or self._held_for > HELD) and self._digest():
            return 0.0
        if now - index.asked_at < LINGER:
            index.open()
        if self.waits_for_index:
            index.advance()
            self._held_for = HELD
            self._is_flooded = False
            index.fault = ""
            return 0.0 if self.waits_for_index else QUIET if self._embeds_soon else LOOK
        if now - index.used_at > LINGER and now - index.asked_at > ASKED:
            index.rest()
        if self._journal.setting(UNSCRUBBED):
            return self._scrub()
        if self._journal.any_archived() and self._journal.waiting_tokens():
            return QUIET if self._embeds_soon else IDLE
        return LOOK if index.is_open else None

    def _scrub(self) -> float:
        """Leave nothing in the journal's file of what was replaced, if nobody calls; the seconds until then."""
        now = time.monotonic()
        wait = max(self._called_at + IDLE, self._scrub_at) - now
        if wait > 0:
            return wait
        self._journal.finish_scrub()
        self._scrub_at = time.monotonic() + SCRUB_REST * (time.monotonic() - now)
        return IDLE

    def keep_pace(self) -> None:
        """Embed a batch, or wait a moment, where steps come faster than the background can embed or index them."""
        if self.in_background and self._new_tokens >= MOST_NEW * WAITING and self._journal.any_archived():
            self._queue.catch_up(MOST_NEW * WAITING, once=True)
            self._new_tokens = self._journal.waiting_tokens()
            self._is_flooded = True
            background.wake(self)
        until = time.monotonic() + PACE
        while self.in_background and not self._keeps_pace and time.monotonic() < until:
            self._keeps_pace = self._behind <= MOST_WAITING
            if not self._keeps_pace:
                time.sleep(LOOK / 10)

    def rest(self) -> None:
        """Close the store until it is needed again."""
        self._index.rest()

    def fail(self, error: Exception) -> float:
        """Note why the index could not be filled, unless another process does that."""
        if not is_held(error):
            self._index.fault = safe_summary(error)
        self._held_for = min(2 * self._held_for, LONGEST_HELD)
        return self._held_for

    def flush(self, progress: Progress = no_progress) -> None:
        """Wait until all that is embedded now is in the index. Raises what the store raises."""
        self._new_tokens = self._journal.waiting_tokens()
        if not self._journal.any_archived() or self._index.is_small_in_memory:
            return
        until, total = self._journal.last_passage(), self._journal.counts()["passages"]
        held = self._journal.passages_until(self._index.watermark)
        deadline = time.monotonic() + LONGEST_HELD
        while True:
            try:
                self._index.follow(lambda done: progress(held + done, total))
                self._index.fault = ""
                self.wake()  # to close the store
                return
            except StorageError as error:
                if not is_held(error) or time.monotonic() > deadline:
                    raise
            # The process that has the store may have done it.
            if self._index.watermark >= until and not self._index.is_unclean:
                return
            time.sleep(LOOK)

    def finish(self) -> None:
        """Leave the background, embed what waits, and index it; where that fails, it waits for the next time."""
        was_in_background, self.in_background = self.in_background, False
        background.dismiss(self)
        self._queue.catch_up()
        self._journal.finish_scrub()
        if not was_in_background:
            return
        self._summarise()
        try:
            if self.waits_for_index:
                self._index.follow()
                self._index.fault = ""
        except Exception as error:
            self.fail(error)
            if not is_held(error):
                warn_hourly(logger, self.folder, "closing with an index that is behind: %s", safe_summary(error))
