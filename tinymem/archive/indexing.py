"""The work of an archive with its index: the background, flushing and closing write there what waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from tinymem.archive.background import background
from tinymem.archive.embedding import Embedding
from tinymem.archive.index import Index, is_held
from tinymem.errors import StorageError, warn_hourly, without_content

__all__ = ["EXACT_UP_TO", "Indexing"]

logger = logging.getLogger(__name__)

EXACT_UP_TO = 100_000  # passages up to which search is exact
IDLE = 1.0  # seconds without a call after which less than that is embedded and indexed too
LOOK = 0.25  # seconds after which it is looked if another process has more for an open store, or wants it
LINGER = 2.0  # seconds that a store stays open when there is nothing more to write,
ASKED = 300.0  # and when it was last asked
HELD, LONGEST_HELD = 1.0, 30.0  # seconds until a store is tried again that another process has open, or that fails
MOST_WAITING = 20_000  # passages that may wait for the store; then adding steps waits for it,
PACE = 1.0  # but not longer than so many seconds each time


class Indexing(Embedding):
    """The part of an archive that has to do with its index.

    While it is `in_background`, the background thread embeds and indexes what waits, and closing does.
    """

    index: Index
    in_background = False
    _exact_up_to: int
    _keeps_pace = True
    _held_for = HELD
    _called_at = 0.0

    def begin_background(self) -> None:
        """Leave what waits, and will wait, to the background."""
        self.in_background = True
        if self.journal.any_archived():
            self.wake()

    def wake(self) -> None:
        """Have the background index what waits, and embed it when nobody has called for a while."""
        self._called_at = time.monotonic()
        if self.in_background:
            background.wake(self, IDLE)

    @property
    def waits_for_index(self) -> bool:
        """True if the index should have more than it has."""
        return self.journal.any_archived() and not self.is_small_in_memory and self.index.lacks

    @property
    def is_small_in_memory(self) -> bool:
        """True if the store is in memory only, and so small that nobody will ask it."""
        return self.index.is_in_memory and self.journal.last_passage() < self._exact_up_to // 2

    def embed_idle(self) -> None:
        """Embed what waits, if nobody has called for a while and something has left the window."""
        is_idle = time.monotonic() - self._called_at >= IDLE
        if self.in_background and is_idle and self._is_known and self.journal.any_archived():
            self.catch_up()

    def work(self) -> float | None:
        """Give the store a batch of what waits for it, or close it when it is idle or another process wants it.

        Returns:
            The seconds until there may be more to do; None for nothing.
        """
        index, now = self.index, time.monotonic()
        if not self.in_background:
            return None
        if index.is_requested:
            index.rest()
            return HELD
        if now - index.asked_at < LINGER:
            index.open()
        if self.waits_for_index:
            index.advance()
            self._held_for = HELD
            index.fault = ""
            return 0.0 if self.waits_for_index else LOOK
        if now - index.used_at > LINGER and now - index.asked_at > ASKED:
            index.rest()
        if self.journal.any_archived() and self.journal.waiting_tokens():
            return IDLE
        return LOOK if index.is_open else None

    def keep_pace(self) -> None:
        """Wait a moment where steps come faster than the background can index them."""
        until = time.monotonic() + PACE
        while self.in_background and not self._keeps_pace and time.monotonic() < until:
            behind = self.journal.last_passage() - self.index.watermark if self.index.is_open else 0
            self._keeps_pace = behind <= MOST_WAITING
            if not self._keeps_pace:
                time.sleep(LOOK / 10)

    def rest(self) -> None:
        """Close the store until it is needed again."""
        self.index.rest()

    def fail(self, error: Exception) -> float:
        """Note why the index could not be filled, unless another process does that."""
        if not is_held(error):
            self.index.fault = without_content(error)
        self._held_for = min(2 * self._held_for, LONGEST_HELD)
        return self._held_for

    def flush(self, progress: Callable[[int, int | None], object] = lambda done, total: None) -> None:
        """Wait until all that is embedded now is in the index. Raises what the store raises."""
        if not self.journal.any_archived() or self.is_small_in_memory:
            return
        until, total = self.journal.last_passage(), self.journal.counts()["passages"]
        held = self.journal.passages_until(self.index.watermark)
        deadline = time.monotonic() + LONGEST_HELD
        while True:
            try:
                self.index.follow(lambda done: progress(held + done, total))
                self.index.fault = ""
                self.wake()  # to close the store
                return
            except StorageError as error:
                if not is_held(error) or time.monotonic() > deadline:
                    raise
            if self.index.watermark >= until:  # the process that has the store has done it
                return
            time.sleep(LOOK)

    def _fill(self) -> None:
        """Index what is left; where that fails, it waits for the next time."""
        try:
            if self.waits_for_index:
                self.index.follow()
                self.index.fault = ""
        except Exception as error:
            self.fail(error)
            if not is_held(error):
                warn_hourly(logger, self.folder, "closing with an index that is behind: %s", without_content(error))
