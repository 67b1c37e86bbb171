"""How long steps are kept, how many, and in how many bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, timezone
from itertools import chain

from tinymem.actions import ActionStep
from tinymem.archive import Archive
from tinymem.base import Step
from tinymem.checks import whole_number
from tinymem.errors import InputError
from tinymem.messages import groups, open_calls
from tinymem.protocols import StepRow

__all__ = ["Retention", "RetentionReport", "Retired", "retain"]

AT_ONCE = 500  # steps that are read at once


@dataclass(frozen=True)
class Retention:
    """What a memory may hold; None does not limit. What is over is forgotten, the oldest first.

    `max_age` is how long ago a step may have happened (its timestamp), `max_steps` how many there may be, window
    included, and `max_bytes` how large the journal's file may be (an index beside it takes about as much as the vectors
    in it). Steps that were added first go first, and a call goes with its results.

    Exempt are the window, pinned steps, and milestones: final answers, and what was marked as one. They count, but stay
    even when they alone are over a limit.

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
                whole_number(name, getattr(self, name))


@dataclass(frozen=True)
class Retired:
    """A step that went; `reason` is the limit that it went for: `"max_age"`, `"max_steps"` or `"max_bytes"`."""

    number: int
    id: str
    type: str
    session: str | None
    timestamp: datetime
    reason: str


@dataclass(frozen=True)
class RetentionReport:
    """What went, in the order of its numbers, how many steps were `kept`, and the journal's size before and after."""

    removed: tuple[Retired, ...]
    kept: int
    bytes_before: int
    bytes_after: int

    @property
    def reasons(self) -> dict[str, int]:
        """How many steps went for each reason."""
        counted = Counter(one.reason for one in self.removed)
        return {limit.name: counted[limit.name] for limit in fields(Retention) if limit.name in counted}


def retain(
    archive: Archive,
    retention: Retention,
    remove: Callable[[Sequence[int]], object],
    now: datetime,
    dry_run: bool = False,
) -> RetentionReport:
    """Keep an archive within its limits: `remove` is given the numbers of what must go, unless it is a `dry_run`."""
    before, gone = archive.journal.size(), list[Retired]()
    while over := _over(archive, retention, now):  # bytes can only be estimated, so it may take more than once
        gone += over
        if dry_run:
            break
        remove([one.number for one in over])
    kept = archive.journal.counts()["steps"] - (len(gone) if dry_run else 0)
    return RetentionReport(tuple(sorted(gone, key=lambda one: one.number)), kept, before, archive.journal.size())


def _over(archive: Archive, retention: Retention, now: datetime) -> list[Retired]:
    """The steps that are over the limits."""
    journal = archive.journal
    found: dict[int, Retired] = {}

    def take(reason: str, some: Iterator[Sequence[StepRow]]) -> None:
        found.update((row.number, _retired(row, reason)) for row in chain.from_iterable(some))

    if retention.max_age is not None and (oldest := _ago(now, retention.max_age)) is not None:
        take("max_age", _from_before(archive, oldest))
    if retention.max_steps is not None:
        excess = journal.counts()["steps"] - len(found) - retention.max_steps
        take("max_steps", _first(archive, excess, found, len))
    if retention.max_bytes is not None and (size := journal.size()) > retention.max_bytes:
        share = (size - retention.max_bytes) / size
        heavy = share * journal.weight() - sum(map(journal.weight_of, found))
        take("max_bytes", _first(archive, heavy, found, lambda rows: sum(journal.weight_of(r.number) for r in rows)))
    return [*found.values()]


def _ago(now: datetime, age: timedelta) -> float | None:
    """Seconds since 1970 at that time; None for before all time."""
    try:
        return (now - age).timestamp()
    except OverflowError:
        return None


def _from_before(archive: Archive, oldest: float) -> Iterator[Sequence[StepRow]]:
    """The groups that happened wholly before a time."""
    if numbers := archive.journal.matching({"before": oldest}):
        for group in _groups(archive):
            if group[0].number > numbers[-1]:
                return
            if all(row.time < oldest for row in group):
                yield group


def _first(
    archive: Archive, excess: float, but: dict[int, Retired], cost: Callable[[Sequence[StepRow]], int]
) -> Iterator[Sequence[StepRow]]:
    """The first groups, so many that they `cost` as much as the `excess`, without those that go anyway."""
    for group in _groups(archive) if excess > 0 else ():
        if group[0].number not in but:
            yield group
            excess -= cost(group)
            if excess <= 0:
                return


def _groups(archive: Archive) -> Iterator[Sequence[StepRow]]:
    """The groups that are not exempt, those that were added first at first."""
    rows: dict[str, StepRow] = {}
    held: list[Step] = []  # a group that is not whole yet, and what came after it
    after = 0
    while some := archive.journal.rows(after, AT_ONCE):
        after = some[-1].number
        rows.update((row.id, row) for row in some)
        whole, held = _split([*held, *(archive.load(row.record) for row in some)])
        yield from _free(whole, rows)
        rows = {step.id: rows[step.id] for step in held}
    yield from _free(groups(held), rows)


def _split(steps: Sequence[Step]) -> tuple[list[list[Step]], list[Step]]:
    """The groups that are whole, and the steps from the first on that waits for results: the newest action's come."""
    found = groups(steps)
    if not open_calls(steps):
        return found, []
    last = max(at for at, group in enumerate(found) if any(isinstance(step, ActionStep) for step in group))
    return found[:last], [step for group in found[last:] for step in group]


def _free(some: Sequence[Sequence[Step]], rows: dict[str, StepRow]) -> Iterator[Sequence[StepRow]]:
    for group in some:
        its = [rows[step.id] for step in group]
        if not any(row.window or row.milestone for row in its) and not any(step.pinned for step in group):
            yield its


def _retired(row: StepRow, reason: str) -> Retired:
    when = datetime.fromtimestamp(row.time, timezone.utc)
    return Retired(row.number, row.id, row.type, row.session, when, reason)
