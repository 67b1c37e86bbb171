"""Upkeep: what follows a change of a memory, and the removal of steps from every part of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal, TypeAlias

from tinymem.archive.archive import Archive, saying
from tinymem.archive.durable_window import DurableWindow
from tinymem.errors import InputError, StorageError, TinymemError, warn_hourly
from tinymem.steps.checks import check_iterable
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Step
from tinymem.upkeep.retention import Retention, RetentionReport, retain

__all__ = ["Conflict", "Upkeep"]

Conflict: TypeAlias = Literal["error", "skip", "replace"]

logger = logging.getLogger(__name__)

RETAIN_EVERY = 1_000  # steps at least that are added until a memory's own retention is looked at again,
RETAIN_SHARE = 20  # and of those that are there, one in so many: each look reads them all


class Upkeep:
    """Keeps the memory within its own limits, `retention`, and forgets steps."""

    def __init__(self, window: DurableWindow, archive: Archive, retention: Retention | None = None) -> None:
        self._window, self._archive, self._retention = window, archive, retention
        self._until_look = 0  # steps that may be added until the retention is looked at
        self._is_purged = True  # false while the index may have vectors of steps that went by the retention

    def add(self, steps: Sequence[Step], on_conflict: Conflict, shown: bool) -> tuple[list[Step], bool]:
        """Add steps, checked and written to the journal; those that are not to be `shown` go to the archive alone.

        Of those that are in the memory already "error" refuses all, "skip" leaves them out, and "replace" forgets the
        old ones in the transaction that adds the others, which prunes nothing; the index has their vectors until the
        archive's `purge`.

        Returns:
            The steps that were added, and True where others were forgotten for them.
        """
        add = self._window.add_steps if shown else self._window.archive
        if on_conflict == "error":
            return add(steps), False
        given, journal = list(check_iterable("steps", steps)), self._archive.journal
        add_replacements = self._window.add_replacements if shown else self._window.archive
        ids = [step.id for step in given if isinstance(step, Step)]
        added: list[Step] = []
        while True:
            known = journal.numbers(ids)
            try:
                if known and on_conflict == "replace":
                    self.remove([*known.values()], lambda: added.extend(add_replacements(given)))
                    return added, True
                return add([step for step in given if not isinstance(step, Step) or step.id not in known]), False
            except InputError:  # another process may have added one of them since
                if journal.numbers(ids) == known:
                    raise
                added.clear()

    def settle(self, added: int) -> None:
        """Keep the memory within its own limits, once enough steps were added."""
        if self._retention is not None:
            self._until_look -= added
            if self._until_look <= 0:
                self._keep_within_limits()

    def remove(self, numbers: Sequence[int], instead: Callable[[], object] | None = None) -> None:
        """Remove the steps with these numbers; `instead` adds others in the same transaction.

        The index still has their vectors, until the archive's `purge`.
        """
        try:
            self._window.drop_stand_ins(numbers)
            self._archive.delete(numbers, instead)
        except BaseException as error:  # when it fails half way, the window has what the journal has
            is_whole = False
            with suppress(StorageError):  # the first error says more
                self._window.catch_up(again=True)
                is_whole = bool(self._archive.journal.steps(numbers[:1]))  # all go at once
            if is_whole and type(error) is StorageError:
                raise StorageError(f"nothing is forgotten: {error}") from error
            raise
        with saying("the steps are deleted, but the window cannot be read again"):
            self._window.catch_up(again=True)

    def retain(self, retention: Retention | None, now: datetime, dry_run: bool) -> RetentionReport:
        """Remove what is over the limits, the memory's own unless given; with `dry_run`, only report it."""
        limits = self._retention if retention is None else retention
        if not isinstance(limits, Retention):
            raise InputError(f"retention must be a Retention, not {limits!r:.80}: retain(Retention(max_steps=...))")
        self._window.catch_up()
        return retain(self._archive, limits, self.remove, now, dry_run)

    def _keep_within_limits(self) -> None:
        """Apply the memory's own retention: at first, and then whenever enough steps were added."""
        self._until_look = max(RETAIN_EVERY, self._archive.journal.counts()["steps"] // RETAIN_SHARE)
        self._is_purged = False
        try:
            report = self.retain(None, utc_now(), dry_run=False)
        except TinymemError as error:  # as when another process reads; the next time will do
            warn_hourly(logger, self._archive.folder, "the memory is over its retention: %s", error)
        else:
            logger.info("%d steps went by the memory's retention: %s", len(report.removed), report.reasons)

    def finish(self) -> None:
        """Do what takes long behind an add, once the lock is free: the index forgets what the retention removed.

        Where it cannot, as while another process has it, the background does it later.
        """
        try:
            if not self._is_purged:
                self._is_purged = True
                self._archive.purge()
        except TinymemError as error:
            warn_hourly(logger, self._archive.folder, "the memory is over its retention: %s", error)
        self._archive.indexing.keep_pace()
