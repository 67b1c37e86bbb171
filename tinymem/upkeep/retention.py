"""Limits on the age of steps, on their number, and on their bytes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import chain

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.errors import InputError, TinymemError, warn_hourly
from tinymem.protocols import StepRow
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Step
from tinymem.steps.types import FILE, MessageStep, SystemPromptStep, TaskStep
from tinymem.stores.filter import Filter
from tinymem.upkeep.exporting import rows_of

__all__ = ["Retainer", "Retention", "RetentionReport", "removable_steps"]

logger = logging.getLogger(__name__)

BEGINNING = datetime.min.replace(tzinfo=timezone.utc)
RETAIN_EVERY = 1_000  # steps at least that are added until a memory's own retention is looked at again,
RETAIN_SHARE = 20  # and of those that are there, one in so many: each look reads them all
BESIDE = 150  # tokens that take as many bytes as a step's row, vector and terms do beside its text


@dataclass(frozen=True)
class Retention:
    """The limits of a memory; steps over a limit are forgotten, and None means no limit.

    `max_age` limits the age of a step by its timestamp, `max_steps` the number of steps, window included, and
    `max_bytes` the size of the journal's file (an index beside it takes about as much as the vectors in it). All steps
    over `max_age` are removed. Over the other limits, calls of tools and their results are removed first, since they
    can be made again, then what the model said, and last what a person said; of each kind the oldest first.

    The window, pinned steps, milestones (final answers, and steps marked as one) and the newest version of each file of
    a memory tool are exempt. They count, but stay even if they alone are over a limit.

    >>> Retention(max_age=timedelta(days=90), max_bytes=500_000_000).max_steps is None
    True
    """

    max_age: timedelta | None = None
    max_steps: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.max_age is not None and (not isinstance(self.max_age, timedelta) or self.max_age < timedelta(0)):
            raise InputError(f"max_age must be a timedelta of 0 or more, not {self.max_age!r}")
        for name in ("max_steps", "max_bytes"):
            if getattr(self, name) is not None:
                check_non_negative_int(name, getattr(self, name))


@dataclass(frozen=True)
class RetentionReport:
    """The steps that went: for the id of each the limit that it was over, in the order in which they were added.

    The limit is `"max_age"`, `"max_steps"` or `"max_bytes"`. So many steps are `kept`.
    """

    removed: Mapping[str, str]
    kept: int

    def __repr__(self) -> str:
        return f"<RetentionReport: {len(self.removed)} removed, {self.kept} kept>"

    @property
    def reasons(self) -> dict[str, int]:
        """Count the removed steps, by reason."""
        return dict(sorted(Counter(self.removed.values()).items()))


class Retainer:
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
        gone = list[tuple[int, str, str]]()
        while over := [*_over(self._archive, limits, now)]:  # bytes are only estimated, so it may take more than once
            gone += over
            if dry_run:
                break
            self._window.forget([number for number, *_ in over])
            self._archive.scrub()  # so that the size is that without them
        kept = self._archive.journal.counts()["steps"] - (len(gone) if dry_run else 0)
        return RetentionReport({id: reason for _, id, reason in sorted(gone)}, kept)

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


def _over(archive: Archive, limits: Retention, now: datetime) -> Iterator[tuple[int, str, str]]:
    """Yield the steps that are over the limits, by number and id, each with the first limit that it is over."""
    counts, size = archive.journal.counts(), archive.journal.maintenance.size()
    oldest = BEGINNING if limits.max_age is None else now - min(limits.max_age, now - BEGINNING)
    steps = 0 if limits.max_steps is None else counts["steps"] - limits.max_steps
    share = 0.0 if limits.max_bytes is None else 1 - limits.max_bytes / max(size, 1)
    weight = share * (counts["tokens"] + BESIDE * counts["steps"])
    if steps <= 0 and weight <= 0 and not archive.journal.matching(Filter(before=oldest)):
        return  # without reading all steps
    for row in sorted(removable_steps(archive), key=lambda row: row.time >= oldest.timestamp()):
        reason = "max_age" if row.time < oldest.timestamp() else "max_steps" if steps > 0 else "max_bytes"
        if reason == "max_bytes" and weight <= 0:
            break
        yield row.number, row.id, reason
        steps, weight = steps - 1, weight - row.tokens - BESIDE


def removable_steps(archive: Archive) -> list[StepRow]:
    """Return the steps that are not exempt, without their texts: what is worth least first, and of that the oldest."""
    found: dict[int, list[StepRow]] = {0: [], 1: [], 2: []}
    for row in rows_of(archive.journal):
        step = archive.load(row.record)
        if not (step.pinned or FILE in step.metadata or row.window or row.milestone):
            found[_worth(step)].append(replace(row, record=""))
    return [*chain.from_iterable(found.values())]


def _worth(step: Step) -> int:
    """Rank tools' output below what the model said, and that below what a person said."""
    role = step.role if isinstance(step, MessageStep) else None
    if (isinstance(step, ActionStep) and step.tool_calls) or role in ("tool", "function"):
        return 0
    return 2 if isinstance(step, (TaskStep, SystemPromptStep)) or role not in (None, "assistant") else 1
