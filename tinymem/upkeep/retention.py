"""Limits on the age of steps, on their number, and on their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta, timezone
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from tinymem.archive.archive import Archive
from tinymem.errors import InputError
from tinymem.messages.answers import open_calls
from tinymem.messages.conversion import groups
from tinymem.protocols import StepRow
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.step import Step
from tinymem.steps.types import FILE, MessageStep, SystemPromptStep, TaskStep
from tinymem.stores.filter import Filter

__all__ = ["Retention", "RetentionReport", "Retired", "retain"]

Group: TypeAlias = Sequence[StepRow]

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


class Removable(NamedTuple):
    """A group that is not exempt; those of the least `worth` are removed first."""

    rows: Group
    worth: int


@dataclass(frozen=True)
class Retired:
    """A removed step; `reason` is the limit that it was over: `"max_age"`, `"max_steps"` or `"max_bytes"`."""

    number: int
    id: str
    type: str
    session: str | None
    timestamp: datetime
    reason: str


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
        counted = Counter(step.reason for step in self.removed)
        return {limit.name: counted[limit.name] for limit in fields(Retention) if limit.name in counted}


def retain(
    archive: Archive,
    retention: Retention,
    remove: Callable[[Sequence[int]], object],
    now: datetime,
    dry_run: bool = False,
) -> RetentionReport:
    """Keep an archive within its limits: call `remove` with the numbers of steps over them, unless `dry_run`."""
    before = archive.journal.maintenance.size()
    gone: list[Retired] = []
    while over := _over(archive, retention, now):  # bytes can only be estimated, so it may take more than once
        gone += over
        if dry_run:
            break
        remove([step.number for step in over])
    kept = archive.journal.counts()["steps"] - (len(gone) if dry_run else 0)
    after = archive.journal.maintenance.size()
    return RetentionReport(tuple(sorted(gone, key=lambda step: step.number)), kept, before, after)


def _over(archive: Archive, retention: Retention, now: datetime) -> list[Retired]:
    """Return the steps that are over the limits, each for the first limit that it is over."""
    journal = archive.journal
    over: dict[int, tuple[StepRow, str]] = {}  # by number: a step, and the limit

    def take(reason: str, chosen: Iterable[Group]) -> None:
        over.update((row.number, (row, reason)) for row in chain.from_iterable(chosen))

    oldest = None if retention.max_age is None else _ago(now, retention.max_age)
    if oldest is not None and (numbers := journal.matching(Filter(before=oldest))):
        since = oldest.timestamp()
        early = [group.rows for group in removable_groups(archive, until=numbers[-1])]
        take("max_age", [rows for rows in early if max(map(attrgetter("time"), rows)) < since])
    if retention.max_steps is not None:
        excess = journal.counts()["steps"] - len(over) - retention.max_steps
        if excess > 0:
            take("max_steps", take_first(_others(archive, over), excess, len))
    if retention.max_bytes is not None and (size := journal.maintenance.size()) > retention.max_bytes:
        counts = journal.counts()
        share = (size - retention.max_bytes) / size
        heavy = share * (counts["tokens"] + BESIDE * counts["steps"]) - _weigh([row for row, _ in over.values()])
        take("max_bytes", take_first(_others(archive, over), heavy, _weigh))
    return [_retired(row, reason) for row, reason in over.values()]


def _weigh(rows: Group) -> int:
    """Return about how much of a journal steps take, in tokens."""
    return sum(row.tokens + BESIDE for row in rows)


def _others(archive: Archive, over: Container[int]) -> list[Group]:
    """Return the groups that may be removed and are not, in the order in which they go."""
    return in_order(group for group in removable_groups(archive) if group.rows[0].number not in over)


def _ago(now: datetime, age: timedelta) -> datetime | None:
    """Return that time; None for a time before all others."""
    try:
        return now - age
    except OverflowError:
        return None


def removable_groups(archive: Archive, until: int = 1 << 62) -> list[Removable]:
    """Return the groups that begin up to a step's number and are not exempt, in the order in which they were added."""
    corrected = {old for old, _ in archive.journal.corrections()}  # as the next version of a file corrects it
    found: list[Removable] = []
    for group, rows in _groups(archive):
        if rows[0].number > until:
            break
        if not _is_exempt(group, rows, corrected):
            bare = [replace(row, record="", view=None) for row in rows]
            found.append(Removable(bare, _worth(group[0])))
    return found


def _worth(step: Step) -> int:
    """Rank tools' output below what the model said, and that below what a person said."""
    role = step.role if isinstance(step, MessageStep) else None
    if (isinstance(step, ActionStep) and step.tool_calls) or role in ("tool", "function"):
        return 0
    return 2 if isinstance(step, (TaskStep, SystemPromptStep)) or role not in (None, "assistant") else 1


def in_order(removable: Iterable[Removable]) -> list[Group]:
    """Put groups, which come in the order in which they were added, in the order in which they are removed."""
    return [group.rows for group in sorted(removable, key=attrgetter("worth"))]


def take_first(order: Iterable[Group], excess: float, cost: Callable[[Group], int]) -> Iterator[Group]:
    """Return as many of the first groups as `cost` the `excess`."""
    for group in order:
        if excess <= 0:
            return
        yield group
        excess -= cost(group)


def _groups(archive: Archive) -> Iterator[tuple[Sequence[Step], Group]]:
    """Yield all groups with their rows, in the order in which they were added."""
    rows: dict[str, StepRow] = {}
    waiting: list[Step] = []  # a group that is not whole yet, and the steps after it
    after = 0
    while batch := archive.journal.rows(after, AT_ONCE):
        after = batch[-1].number
        rows.update((row.id, row) for row in batch)
        whole, waiting = _split([*waiting, *(archive.load(row.record) for row in batch)])
        for group in whole:
            yield group, [rows[step.id] for step in group]
        rows = {step.id: rows[step.id] for step in waiting}
    for group in groups(waiting):
        yield group, [rows[step.id] for step in group]


def _split(steps: Sequence[Step]) -> tuple[list[list[Step]], list[Step]]:
    """Split off whole groups from the steps, which begin, after these, with the first that still waits for results."""
    found = groups(steps)
    newest = max((place for place, step in enumerate(steps) if isinstance(step, ActionStep)), default=0)
    if not open_calls(steps[newest:]):
        return found, []
    last = next(place for place, group in enumerate(found) if steps[newest] in group)
    return found[:last], [*chain.from_iterable(found[last:])]


def _is_exempt(group: Sequence[Step], rows: Group, corrected: Container[int]) -> bool:
    if any(row.window or row.milestone for row in rows) or any(step.pinned for step in group):
        return True
    file = group[0].metadata.get(FILE)
    return isinstance(file, Mapping) and "version" in file and rows[0].number not in corrected


def _retired(row: StepRow, reason: str) -> Retired:
    when = datetime.fromtimestamp(row.time, timezone.utc)
    return Retired(row.number, row.id, row.type, row.session, when, reason)
