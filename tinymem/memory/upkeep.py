"""Upkeep: what follows when steps were added, and limits on what a memory holds."""

from __future__ import annotations

import logging
from datetime import datetime

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.errors import InputError, TinymemError, warn_hourly
from tinymem.steps.ids import utc_now
from tinymem.upkeep.retention import Retention, RetentionReport, retain

__all__ = ["Upkeep"]

logger = logging.getLogger(__name__)

RETAIN_EVERY = 1_000  # steps at least that are added until a memory's own retention is looked at again,
RETAIN_SHARE = 20  # and of those that are there, one in so many: each look reads them all


class Upkeep:
    """Keeps a memory within limits: its own, `retention`, once enough steps were added, or others."""

    def __init__(self, window: DurableWindow, archive: Archive, retention: Retention | None = None) -> None:
        self._window, self._archive, self._retention = window, archive, retention
        self._until_look = 0  # steps that may be added until the retention is looked at

    def retain(self, retention: Retention | None, now: datetime, dry_run: bool = False) -> RetentionReport:
        """Remove what is over the limits, the memory's own unless given; with `dry_run`, only report it."""
        limits = self._retention if retention is None else retention
        if not isinstance(limits, Retention):
            raise InputError(f"retention must be a Retention, not {limits!r:.80}: retain(Retention(max_steps=...))")
        self._window.catch_up()
        return retain(self._window, self._archive, limits, now, dry_run)

    def finish(self, added: int) -> None:
        """Do what follows when steps were added, once the lock is free: look at the retention, and embed if need be."""
        if self._retention is not None:
            self._until_look -= added
            if self._until_look <= 0:
                self._keep_within_limits()
        self._archive.indexing.keep_pace()

    def _keep_within_limits(self) -> None:
        """Apply the memory's own retention; where the index cannot forget now, the background has it do so later."""
        self._until_look = max(RETAIN_EVERY, self._archive.journal.counts()["steps"] // RETAIN_SHARE)
        try:
            with self._window.lock.while_open():
                report = self.retain(None, utc_now())
            logger.info("%d steps went by the memory's retention: %s", len(report.removed), report.reasons)
            self._archive.purge()
        except TinymemError as error:  # as when another process reads; the next time will do
            warn_hourly(logger, self._archive.folder, "the memory is over its retention: %s", error)
