"""Limits on the age of steps, on their number, and on their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import chain

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.errors import InputError
from tinymem.protocols import Journal, StepRow
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.step import Step
from tinymem.steps.types import FILE, MessageStep, SystemPromptStep, TaskStep
from tinymem.stores.filter import Filter
from tinymem.upkeep.exporting import rows_of

__all__ = ["Retention", "RetentionReport", "removable_steps", "retain"]

BEGINNING = datetime.min.replace(tzinfo=timezone.utc)
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


def retain(
    window: DurableWindow, archive: Archive, limits: Retention, now: datetime, dry_run: bool = False
) -> RetentionReport:
    """Forget what is over the limits of an archive, and report it; with `dry_run`, only report it."""
    gone = list[tuple[int, str, str]]()
    while over := [*_over(archive, limits, now)]:  # bytes are only estimated, so it may take more than once
        gone += over
        if dry_run:
            break
        window.forget([number for number, *_ in over])
        archive.scrub()  # so that the size is that without them
    kept = archive.journal.counts()["steps"] - (len(gone) if dry_run else 0)
    return RetentionReport({id: reason for _, id, reason in sorted(gone)}, kept)


def _over(archive: Archive, limits: Retention, now: datetime) -> Iterator[tuple[int, str, str]]:
    """Yield the steps that are over the limits, by number and id, each with the first limit that it is over."""
    steps, weight = _excess(archive.journal, limits)
    oldest = BEGINNING if limits.max_age is None else now - min(limits.max_age, now - BEGINNING)
    if steps <= 0 and weight <= 0 and not archive.journal.matching(Filter(before=oldest)):
        return  # without reading all steps
    border = oldest.timestamp()
    for row in sorted(removable_steps(archive), key=lambda row: row.time >= border):
        reason = "max_age" if row.time < border else "max_steps" if steps > 0 else "max_bytes"
        if reason == "max_bytes" and weight <= 0:
            break
        yield row.number, row.id, reason
        steps, weight = steps - 1, weight - row.tokens - BESIDE


def _excess(journal: Journal, limits: Retention) -> tuple[int, float]:
    """Return how many steps are too many, and about how many tokens, with those that a step takes beside its text."""
    counts = journal.counts()
    steps = 0 if limits.max_steps is None else counts["steps"] - limits.max_steps
    share = 0.0 if limits.max_bytes is None else 1 - limits.max_bytes / max(journal.maintenance.size(), 1)
    return steps, share * (counts["tokens"] + BESIDE * counts["steps"])


def removable_steps(archive: Archive) -> list[StepRow]:
    """Return the steps that are not exempt, without their texts: what is worth least first, and of that the oldest."""
    found: list[list[StepRow]] = [[], [], []]
    for row in rows_of(archive.journal):
        step = archive.load(row.record)
        if not (step.pinned or FILE in step.metadata or row.window or row.milestone):
            found[_worth(step)].append(replace(row, record=""))
    return [*chain.from_iterable(found)]


def _worth(step: Step) -> int:
    """Rank tools' output below what the model said, and that below what a person said."""
    role = step.role if isinstance(step, MessageStep) else None
    if (isinstance(step, ActionStep) and step.tool_calls) or role in ("tool", "function"):
        return 0
    return 2 if isinstance(step, (TaskStep, SystemPromptStep)) or role not in (None, "assistant") else 1
