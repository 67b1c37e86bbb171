"""The window as the journal keeps it: which steps it shows, and how, for when the memory is opened again, and for all
processes that have it open now.

The journal decides. It numbers the steps that are added; and before something is added, asked or taken out, a process
reads what the others did to the window since, and does the same to its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from tinymem.archive.archive import Archive
from tinymem.archive.callbacks import Callbacks
from tinymem.archive.sharing import SharedManager
from tinymem.errors import kind_of
from tinymem.messages.answers import open_calls
from tinymem.protocols import StepRow
from tinymem.protocols.settings import OPEN_CALLS, WINDOW_CHANGES
from tinymem.steps.redaction import Redact, redacted
from tinymem.steps.serialization import dump_step
from tinymem.steps.standins import covers_of, sources_of
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep
from tinymem.window.manager import MemoryManager
from tinymem.window.strategy import PruneReport, Prunes, check_report

__all__ = ["DurableWindow"]

MOST_CALLS = 256  # calls without a result that are kept, the newest


class DurableWindow:
    """A MemoryManager, `manager`, whose steps are in the journal before they are in it, as `redact` leaves them.

    `positions` says how many tokens came before each of its steps since the memory began; `shortened` are the ids of
    those that the window does not show whole.
    """

    def __init__(
        self,
        archive: Archive,
        strategy: Prunes,
        callbacks: Callbacks | None = None,
        redact: Redact | None = None,
    ) -> None:
        self._archive, self._journal, self._callbacks = archive, archive.journal, callbacks or Callbacks()
        self._redact = redact
        self._reports: list[PruneReport] = []  # that nobody was told of yet
        self.positions: dict[str, int] = {}
        self._on_disk: dict[str, Step] = {}  # the window as the journal has it
        self._views: dict[str, str] = {}  # the JSON of those of its steps that are shortened
        self._calls: dict[str, int] = {}
        self._version, self._changes, self._kept_calls = -1, "", ""  # of the journal, as it was read last
        what = f"the memory at {archive.folder}"
        told = self._reports.append
        held, newest = self._journal.held, self._journal.newest_of
        self.manager = SharedManager(
            what, self._record, self.catch_up, strategy, told, redact, held=held, newest=newest
        )
        with self.manager.locked():
            self.catch_up()

    @property
    def shortened(self) -> Collection[str]:
        """Ids of the steps that the window does not show whole."""
        return self._views.keys()

    # -- what others do -----------------------------------------------------------------------------------------------

    def catch_up(self) -> bool:
        """Do to the window what others did to it since; whether they wrote anything. The manager must be locked."""
        if self._journal.version() == self._version:
            return False
        with self._journal.snapshot():
            version, following = self._journal.version(), self._journal.next_number()
            changes, calls = (self._journal.setting(key) or "" for key in (WINDOW_CHANGES, OPEN_CALLS))
            anew = changes != self._changes or self._version < 0
            rows = self._journal.window(0 if anew else self.manager.next_number - 1)
        gone = self._on_disk.keys() - {row.id for row in rows} if anew else set()
        fresh = [row for row in rows if row.id not in self._on_disk or row.view != self._views.get(row.id)]
        self.manager.follow(gone, self._read(fresh) if fresh else [], following)
        self._lose(gone)
        if calls != self._kept_calls or self._version < 0:
            self._calls = self._calls_in(calls)
            self.manager.follow_calls(self._calls)
        self._version, self._changes, self._kept_calls = version, changes, calls
        return True

    def _read(self, rows: Sequence[StepRow]) -> list[Step]:
        """Steps that came or changed; those that this process has changed itself, and not written down yet, stay so."""
        shown = {step.id: step for step in self.manager.steps}
        steps = []
        for row in rows:
            step = self._archive.load(row.view or row.record)
            if step.id != row.id:
                raise self._journal.damaged(f"step {row.number} is said to have another's id")
            if (before := self._on_disk.get(row.id)) is None or shown.get(row.id) is before:
                steps.append(step)
            self._on_disk[row.id], self.positions[row.id] = step, row.position
            self._see(row.id, row.view)
        return steps

    def _see(self, id: str, view: str | None) -> None:
        if view is None:
            self._views.pop(id, None)
        else:
            self._views[id] = view

    def _lose(self, ids: Iterable[str]) -> None:
        for id in ids:
            for kept in (self._on_disk, self.positions, self._views):
                kept.pop(id, None)

    # -- in -----------------------------------------------------------------------------------------------------------

    def _record(self, steps: Sequence[Step]) -> list[Step]:
        """Journal steps that are about to be in the window, under the next numbers."""
        tokens = self._archive.tokens_of(steps)  # before others have to wait
        with self._journal.together():
            if self.catch_up():
                self.manager.check(steps)
            held = self._numbered(steps)
            positions = self._archive.write(held, tokens=tokens)
            calls = self._noted(held)
            kept = self._keep_calls(calls)
        self._calls, self._kept_calls = calls, kept
        self.positions.update(positions)
        self._on_disk.update((step.id, step) for step in held)
        return held

    def _numbered(self, steps: Sequence[Step]) -> list[Step]:
        first = self._journal.next_number()
        return [s if s.step_number == first + at else s.evolve(step_number=first + at) for at, s in enumerate(steps)]

    def pass_by(self, steps: Sequence[Step]) -> list[Step]:
        """Journal steps that the window never shows; they come back numbered."""
        MemoryManager(auto_prune_at=None).add_steps(steps)  # as strict as the window would be
        steps = [redacted(step, self._redact) for step in steps]
        tokens = self._archive.tokens_of(steps)
        with self.manager.locked():
            with self._journal.together():
                self.catch_up()
                held = self._numbered(steps)
                self._archive.write(held, False, tokens)
            self.manager.follow((), (), self._journal.next_number())
        return held

    # -- calls that wait for their results ----------------------------------------------------------------------------

    def _noted(self, steps: Iterable[Step]) -> dict[str, int]:
        """The open calls, when these steps have come."""
        known = self.manager.open_calls
        calls = {id: number for id, number in self._calls.items() if id in known}
        for step in steps:
            calls.update(dict.fromkeys(open_calls([step]), step.step_number or 0))
            if isinstance(step, MessageStep) and step.role == "tool":
                calls.pop(step.tool_call_id or "", None)
        return dict([*calls.items()][-MOST_CALLS:])

    def _keep_calls(self, calls: Mapping[str, int]) -> str:
        """Write down which calls are open, if others are; what is written there then."""
        if calls == self._calls:
            return self._kept_calls
        text = json.dumps(calls)
        self._journal.keep({OPEN_CALLS: text})
        return text

    def _calls_in(self, kept: str) -> dict[str, int]:
        if not kept:  # nobody has written them down yet
            return self._noted(self._on_disk.values())
        try:
            return {str(id): int(number) for id, number in json.loads(kept).items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise self._journal.damaged(f"{kind_of(kept)} is no list of open calls") from error

    # -- out ----------------------------------------------------------------------------------------------------------

    def restore(self, report: PruneReport) -> None:
        """Put back into the window what a pruning took out, but no stand-in that tells of what was forgotten since."""
        check_report(report)
        taken = [step for step in (*report.removed, *report.shortened) if covers_of(step)]
        stale = {step.id for step in taken if self._is_view(step) and not self._has_all(sources_of(step))}
        removed, shortened = ([s for s in steps if s.id not in stale] for steps in (report.removed, report.shortened))
        self.manager.restore(PruneReport(tuple(removed), tuple(shortened), report.kept))
        self.keep()

    def forget(self, numbers: Sequence[int]) -> None:
        """Before these steps are forgotten: take summaries and other stand-ins that may tell of them out of the window
        (what else those cover is in the archive), and wait no longer for the results of their calls."""
        if views := [step for step in self.manager.steps if covers_of(step) and self._is_view(step)]:
            ids = {step.id for step in self._archive.fetch(numbers).values()}
            self.manager.drop([step.step_number or 0 for step in views if not ids.isdisjoint(sources_of(step))])
            self.keep()
        gone = set(numbers)
        with self.manager.locked():
            with self._journal.together():
                self.catch_up()
                calls = {id: number for id, number in self._noted(()).items() if number not in gone}
                kept = self._keep_calls(calls)
            self._calls, self._kept_calls = calls, kept
            self.manager.follow_calls(calls)

    def _is_view(self, step: Step) -> bool:
        """Whether a strategy made the stand-in, rather than that it was added as a step of its own."""
        whole = self._archive.fetch([step.step_number or 0]).get(step.step_number or 0)
        return whole is None or covers_of(whole) != covers_of(step)

    def _has_all(self, ids: Sequence[str]) -> bool:
        return len(self._archive.journal.numbers(ids)) == len(set(ids))

    def keep(self) -> list[int]:
        """Write down what the window shows now; the numbers of the steps that left it by that.

        Where several processes take the same step out, one of them did.
        """
        with self.manager.locked():
            self.catch_up()
            shown = {step.id: step for step in self.manager.steps}
            gone = {id: step.step_number or 0 for id, step in self._on_disk.items() if id not in shown}
            changed = {step.step_number or 0: step for id, step in shown.items() if self._on_disk.get(id) is not step}
            left = self._write_down(gone, changed) if gone or changed else []
        self._tell(left)
        return left

    def _write_down(self, gone: Mapping[str, int], changed: Mapping[int, Step]) -> list[int]:
        whole = self._archive.fetch([*changed])
        views = {
            n: None if step == whole.get(n) else dump_step(redacted(step, self._redact)) for n, step in changed.items()
        }
        still = {n: view for n, view in views.items() if changed[n].id in self._on_disk}
        back = {n: view for n, view in views.items() if n in whole and n not in still}
        left = self._journal.set_window(gone.values(), back, still)
        lost = [step.id for n, step in changed.items() if n not in whole]  # came back with an old report: forgotten
        self.manager.follow(lost, (), 0)
        self._lose([*gone, *lost])
        for number in whole:
            self._on_disk[changed[number].id] = changed[number]
            self._see(changed[number].id, views[number])
        if back:
            self.positions.update((row.id, row.position) for row in self._journal.window())
        return sorted(left)

    def _tell(self, gone: Sequence[int]) -> None:
        while self._reports:
            self._callbacks.pruned(self._reports.pop(0))
        if gone and self._callbacks.wants_archived:
            self._callbacks.archived(list(self._archive.fetch(gone).values()))
