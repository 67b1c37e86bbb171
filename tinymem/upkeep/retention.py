"""Limits on the age of steps, on their number, and on their bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import chain
from operator import attrgetter

from tinymem.archive.archive import Archive
from tinymem.errors import InputError
from tinymem.messages.answers import is_result
from tinymem.protocols import StepRow
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.step import Step
from tinymem.steps.types import FILE, MessageStep, SystemPromptStep, TaskStep
from tinymem.stores.filter import Filter

__all__ = ["Retention", "RetentionReport", "Retired", "retain"]

BEGINNING = datetime.min.replace(tzinfo=timezone.utc)
AT_ONCE = 500  # steps that are read at once
BESIDE = 150  # tokens that take as many bytes as a step's row, vector and terms do beside its text


@dataclass(frozen=True)
class Retention:
    """The limits of a memory; steps over a limit are forgotten, and None means no limit.

    `max_age` limits the age of a step by its timestamp, `max_steps` the number of steps, window included, and
    `max_bytes` the size of the journal's file (an index beside it takes about as much as the vectors in it). All steps
    over `max_age` are removed. Over the other limits, calls of tools and their results are removed first, since they
    can be made again, then what the model said, and last what a person said; of each kind the oldest first. A call is
    removed together with its results.

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
class Retired:
    """A removed step; `reason` is the limit that it was over: `"max_age"`, `"max_steps"` or `"max_bytes"`."""

    number: int
    id: str
    type: str
    session: str | None
    timestamp: datetime
    reason: str


@dataclass
class Removable:
    """A step, or a call with its results: the least `worth` goes first; `reason` is the limit that it is over."""

    worth: int
    rows: list[StepRow] = field(default_factory=list)
    stays: bool = False
    reason: str = ""

    def retired(self) -> Iterator[Retired]:
        """Yield the steps as removed ones."""
        for row in self.rows:
            when = datetime.fromtimestamp(row.time, timezone.utc)
            yield Retired(row.number, row.id, row.type, row.session, when, self.reason)


@dataclass(frozen=True)
class RetentionReport:
    """The removed steps, by number; the number of steps `kept`; the journal's size before and after."""

    removed: tuple[Retired, ...]
    kept: int
    bytes_before: int
    bytes_after: int

    def __repr__(self) -> str:
        return f"<RetentionReport: {len(self.removed)} removed, {self.kept} kept>"

    @property
    def reasons(self) -> dict[str, int]:
        """Count the removed steps, by reason."""
        return dict(sorted(Counter(step.reason for step in self.removed).items()))


def retain(
    archive: Archive,
    retention: Retention,
    remove: Callable[[Sequence[int]], object],
    now: datetime,
    dry_run: bool = False,
) -> RetentionReport:
    """Keep an archive within its limits: call `remove` with the numbers of steps over them, unless `dry_run`."""
    journal = archive.journal
    before, gone = journal.maintenance.size(), list[Retired]()
    while over := _over(archive, retention, now):  # bytes can only be estimated, so it may take more than once
        gone += over
        if dry_run:
            break
        remove([step.number for step in over])
    kept = journal.counts()["steps"] - (len(gone) if dry_run else 0)
    removed = tuple(sorted(gone, key=attrgetter("number")))
    return RetentionReport(removed, kept, before, journal.maintenance.size())


def _over(archive: Archive, limits: Retention, now: datetime) -> list[Retired]:
    """Return the steps that are over the limits, each for the first limit that it is over."""
    journal = archive.journal
    counts, size = journal.counts(), journal.maintenance.size()
    since = None if limits.max_age is None else now - min(limits.max_age, now - BEGINNING)
    most = math.inf if limits.max_steps is None else limits.max_steps
    share = 0.0 if limits.max_bytes is None else 1 - limits.max_bytes / max(size, 1)
    steps, weight = counts["steps"] - most, share * (counts["tokens"] + BESIDE * counts["steps"])
    is_old = since is not None and bool(journal.matching(Filter(before=since)))
    if steps <= 0 and weight <= 0 and not is_old:
        return []  # without reading all steps
    groups = removable_groups(archive)
    for group in groups:
        if since is not None and max(row.time for row in group.rows) < since.timestamp():
            group.reason = "max_age"
    _choose(groups, "max_steps", steps, len)
    _choose(groups, "max_bytes", weight, _weigh)
    return [*chain.from_iterable(group.retired() for group in groups if group.reason)]


def _choose(groups: list[Removable], reason: str, excess: float, cost: Callable[[Sequence[StepRow]], int]) -> None:
    """Give groups a reason to go, the least worth first, until what goes costs as much as the excess."""
    for group in sorted(groups, key=lambda group: (not group.reason, group.worth)):  # the oldest first
        if excess > 0:
            group.reason = group.reason or reason
        excess -= cost(group.rows)


def _weigh(rows: Sequence[StepRow]) -> int:
    """Return about how much of a journal steps take, in tokens."""
    return sum(row.tokens + BESIDE for row in rows)


def removable_groups(archive: Archive) -> list[Removable]:
    """Return the groups that are not exempt, in the order in which they were added."""
    found: list[Removable] = []
    calls: dict[str, Removable] = {}
    after = 0
    while rows := archive.journal.rows(after, AT_ONCE):
        for row in rows:
            step = archive.load(row.record)
            group = calls.get(step.tool_call_id or "") if is_result(step) else None
            if group is None:
                group = Removable(_worth(step))
                found.append(group)
            if isinstance(step, ActionStep):
                calls.update(dict.fromkeys((call.id for call in step.tool_calls), group))
            group.rows.append(replace(row, record="", view=None))
            group.stays |= _is_exempt(row, step)
        after = rows[-1].number
    return [group for group in found if not group.stays]


def _worth(step: Step) -> int:
    """Rank tools' output below what the model said, and that below what a person said."""
    role = step.role if isinstance(step, MessageStep) else None
    if (isinstance(step, ActionStep) and step.tool_calls) or role in ("tool", "function"):
        return 0
    return 2 if isinstance(step, (TaskStep, SystemPromptStep)) or role not in (None, "assistant") else 1


def _is_exempt(row: StepRow, step: Step) -> bool:
    return step.pinned or FILE in step.metadata or bool(row.window or row.milestone)
