"""DurableWindow: a window in the journal, which outlives the process and is shared with other processes.

The journal decides, and numbers the steps that are added. Before a process reads or changes its window, it applies the
changes that other processes have written to the journal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from tinymem.archive.archive import Archive
from tinymem.archive.callbacks import Callbacks
from tinymem.errors import InputError, kind_of
from tinymem.messages.answers import open_calls
from tinymem.messages.recognition import Arrival, Node
from tinymem.protocols import LinkRow, StepRow
from tinymem.protocols.settings import OPEN_CALLS, WINDOW_CHANGES
from tinymem.steps.redaction import Redact, redacted
from tinymem.steps.serialization import dump_step
from tinymem.steps.standins import covers_of, sources_of
from tinymem.steps.step import Step, StepT
from tinymem.steps.types import SystemPromptStep
from tinymem.stores.forking import ProcessLock
from tinymem.stores.interrupts import release_when_interrupted
from tinymem.window.change import Change, check_new, note_calls
from tinymem.window.manager import MemoryManager
from tinymem.window.strategy import PruneReport, Prunes, check_report

__all__ = ["DurableWindow"]

MOST_CALLS = 256  # calls without a result that are kept, the newest


class DurableWindow(MemoryManager):
    """A MemoryManager whose steps are in the journal before they are in the window.

    `positions` has, by id, the number of tokens before each step since the memory began. `unsettled` is True once steps
    have left the window; the code that embeds them sets it to False.

    Args:
        archive: The archive that steps are written to.
        strategy: Decides at every `add` which steps stay.
        callbacks: Called for every change once it is on disk.
        redact: Applied to each step before it is written, kept or shown to a strategy.
    """

    def __init__(
        self, archive: Archive, strategy: Prunes, callbacks: Callbacks | None = None, redact: Redact | None = None
    ) -> None:
        super().__init__(None, strategy, 0)
        self.lock = self._lock = ProcessLock(f"the memory at {archive.folder}")
        self._archive, self._journal, self._callbacks = archive, archive.journal, callbacks or Callbacks()
        self._redact = redact
        self.positions: dict[str, int] = {}
        self.unsettled = False
        self._views: dict[str, str] = {}  # by id, the JSON of steps that the window does not show whole
        self._version, self._changes, self._calls = -1, "", ""  # of the journal, as they were read last
        self._news: list[tuple[Change, Sequence[int]]] = []  # changes that the callbacks were not called for yet
        with self._lock:
            self.catch_up()

    @property
    def shortened(self) -> Collection[str]:
        """The ids of the steps that the window shows shortened."""
        return self._views.keys()

    # -- changes by other processes -----------------------------------------------------------------------------------

    def catch_up(self, again: bool = False) -> None:
        """Apply changes of other processes to the window, or read all of it `again`. The lock must be held."""
        if not again and self._journal.version() == self._version:
            return
        again = again or self._version < 0
        if again:
            self._version = -1  # until all of it is read
        with self._journal.snapshot():
            rows = self._journal.window(0 if again else self._next - 1)  # what a server gives with the state at once
            version, following = self._journal.version(), self._journal.next_number()
            changes, calls = (self._journal.setting(key) or "" for key in (WINDOW_CHANGES, OPEN_CALLS))
            if changes != self._changes and not again:
                again, rows = True, self._journal.window()
        gone = self._window.keys() - {row.id for row in rows} if again else set()
        fresh = [row for row in rows if row.id not in self._window or row.view != self._views.get(row.id)]
        steps = {row.id: self._read(row) for row in fresh}
        self._see(Change(taken=gone, back=steps), {row.id: row.view for row in fresh})
        self.positions.update((row.id, row.position) for row in (rows if again else fresh))
        if calls != self._calls or self._version < 0:
            self._open = self._calls_in(calls)
        self._next = max(self._next, following)
        self._version, self._changes, self._calls = version, changes, calls

    def _read(self, row: StepRow) -> Step:
        step = self._archive.load(row.view or row.record)
        if step.id != row.id:
            raise self._journal.damaged(f"step {row.number} has the id of another step")
        return step

    def _see(self, change: Change, views: Mapping[str, str | None]) -> None:
        """Show a change that is on disk; `views` has the JSON of each shortened step, and None for a whole one."""
        self._show(change)
        self._views |= {id: view for id, view in views.items() if view is not None}
        for id in change.taken:
            self.positions.pop(id, None)
        for id in (*change.taken, *(id for id, view in views.items() if view is None)):
            self._views.pop(id, None)

    def _calls_in(self, kept: str) -> dict[str, int]:
        if not kept:  # they were never written
            waiting = open_calls(self.steps)
            return {c: s.step_number or 0 for s in self.steps for c in sorted(open_calls([s]) & waiting)}
        try:
            return {str(id): int(number) for id, number in json.loads(kept).items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise self._journal.damaged(f"{kind_of(kept)} is not a list of open calls") from error

    # -- the hooks of MemoryManager -----------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with release_when_interrupted(), super()._changing():
            self.catch_up()
            try:
                yield
                self._tell_news()
            except BaseException:  # an interrupt may have come between the journal and what is remembered of it
                self._version = -1  # so that all of it is read again
                raise

    def as_kept(self, step: StepT) -> StepT:
        """Return the step as `redact` leaves it."""
        return redacted(step, self._redact)

    def linked(self, links: Sequence[str]) -> dict[str, Node]:
        """Return the messages with these links."""
        return {row[0]: Node(*row) for row in self._journal.linked(links)}

    def alike(self, hashes: Sequence[str], limit: int) -> dict[str, list[Node]]:
        """Return up to `limit` messages, the newest, that say the same."""
        return {said: [Node(*row) for row in rows] for said, rows in self._journal.alike(hashes, limit).items()}

    def head_of(self, session: str | None) -> str | None:
        """Return the link that a session goes on behind; None where it begins."""
        return self._journal.newest_of(session)

    def _apply(self, change: Change) -> list[Step]:
        if not change:
            return []
        tokens = self._archive.tokens_of(change.added)  # counted before the transaction makes other processes wait
        positions: dict[str, int] = {}
        with self._journal.together() if change.added or change.lapsed else nullcontext():
            first = self._following(change.added) if change.added or change.lapsed else 0
            if change.added:
                change = _numbered(change, first)
                positions = self._archive.write(change.added, tokens=tokens)
                self._put_links(change.added)
            change, views, left = self._write(change)
            calls = self._write_calls(change)
        self._see(change, views)
        self._calls = calls
        self.positions.update((id, position) for id, position in positions.items() if id in self._window)
        if change.back:
            self.positions.update((row.id, row.position) for row in self._journal.window())
        self.unsettled = self.unsettled or bool(left)
        self._news.append((change, left))
        return list(change.added)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _following(self, steps: Sequence[Step]) -> int:
        """Return the number of the next step, inside the transaction that writes `steps`.

        If another process has written since `_changing` caught up, catch up and check the steps again.
        """
        following, calls = self._journal.next_number(), self._journal.setting(OPEN_CALLS) or ""
        if following != self._next or calls != self._calls:
            self.catch_up()
            check_new(steps, self._window, self._open)
        return following

    def _write(self, change: Change) -> tuple[Change, dict[str, str | None], list[int]]:
        """Write the window as it is after a change.

        Returns:
            The part of the change that was possible; by id, the JSON of shortened steps, and None for whole ones; and
            the numbers of the steps that left the window by this change, not by another process.
        """
        if not (change.taken or change.put or change.back):
            return change, {}, []
        numbers = {step.id: step.step_number or 0 for step in (*self._window.values(), *change.added)}
        whole = self._archive.fetch([step.step_number or 0 for step in (*change.put.values(), *change.back.values())])
        # A step that has left the window is not replaced, and a forgotten step does not come back.
        put = {i: s for i, s in change.put.items() if i in numbers and s.step_number in whole}
        back = {i: s for i, s in change.back.items() if s.step_number in whole}
        views = {i: None if s == whole[s.step_number or 0] else dump_step(s) for i, s in {**put, **back}.items()}
        gone = [numbers[id] for id in change.taken if id in numbers]
        left: list[int] = []
        if gone or views:
            shown, still = ({s.step_number or 0: views[i] for i, s in steps.items()} for steps in (back, put))
            left = sorted(self._journal.set_window(gone, shown, still))
        return replace(change, put=put, back=back), views, left

    def _put_links(self, steps: Sequence[Step]) -> None:
        """Keep the links of steps that came as messages, in the transaction that writes them."""
        rows: list[LinkRow] = []
        for step in steps:
            number = step.step_number or 0
            for link, said, place in self._arriving.get(step.id, ()):
                rows.append(LinkRow(link, said, number, number if place is None else place))
        if rows:
            self._journal.put_links(rows)

    def _write_calls(self, change: Change) -> str:
        """Write the open calls after a change, if they differ from before, and return their JSON."""
        if not change.added and not change.lapsed:
            return self._calls
        calls = {id: number for id, number in self._open.items() if id not in change.lapsed}
        for step in change.added:
            note_calls(step, calls)
        text = json.dumps(dict([*calls.items()][-MOST_CALLS:]))
        if text == (self._calls or "{}"):
            return self._calls
        self._journal.keep({OPEN_CALLS: text})
        return text

    def _tell_news(self) -> None:
        while self._news:
            change, left = self._news.pop(0)
            self._callbacks.added(change.added)
            if change.report is not None and change.report.changed:
                self._callbacks.pruned(change.report)
            if left and self._callbacks.wants_archived:
                self._callbacks.archived(list(self._archive.fetch(left).values()))

    # -- for a memory, beyond a MemoryManager --------------------------------------------------------------------------

    @contextmanager
    def adding(self, steps: Sequence[Step]) -> Iterator[list[Step]]:
        """Add steps as `add_steps` does, and hold the lock until the block is left."""
        with self._changing():
            added = self._added(steps)
            self._tell_news()
            yield added

    def add_instead(self, steps: Sequence[Step]) -> list[Step]:
        """Add steps in the transaction in which others were deleted; callbacks hear of it with the next change."""
        self.catch_up(again=True)
        return self._added(steps)

    def begin_with(self, prompt: SystemPromptStep) -> None:
        """Add a system prompt unless the window shows the same; processes that begin at once add it once."""
        with self._changing(), self._journal.together():
            self.catch_up()
            if self.system_prompt != self.as_kept(prompt).content:
                self._added([prompt])

    def archive(self, steps: Sequence[Step]) -> list[Step]:
        """Write steps that the window never shows, and return them with their numbers; errors as in `add_steps`."""
        MemoryManager(auto_prune_at=None).add_steps(steps)  # as strict as the window would be
        with self._changing():
            return self._archived([self.as_kept(step) for step in steps])

    def archive_new(self, find: Callable[[], Sequence[Arrival]]) -> list[Step]:
        """Write what is new of a history as `find` finds it, again if another process has written in between."""
        with self._changing():
            while True:
                new = find()
                self._arriving = {one.step.id: one.links for one in new}
                try:
                    return self._archived([self.as_kept(one.step) for one in new]) if new else []
                except InputError:
                    if not self.linked([each.link for one in new for each in one.links]):
                        raise
                finally:
                    self._arriving = {}

    def _archived(self, steps: Sequence[Step]) -> list[Step]:
        tokens = self._archive.tokens_of(steps)
        with self._journal.together():
            first = self._following(())
            self._check_unknown()
            held = [step.evolve(step_number=first + at) for at, step in enumerate(steps)]
            self._archive.write(held, False, tokens)
            self._put_links(held)
            calls = self._write_calls(Change(held)) if self._arriving else self._calls
        self._next = first + len(held)
        for step in held if self._arriving else ():
            note_calls(step, self._open)
        self._calls, self.unsettled = calls, True
        self._callbacks.archived(held)
        self._callbacks.added(held)
        return held

    def _check_unknown(self) -> None:
        """Raise InputError if another process has written a message that is being added, in the transaction for it."""
        links = [one.link for some in self._arriving.values() for one in some]
        if known := self.linked(links):
            raise InputError(f"{len(known)} of these messages are in the memory already")

    def restore(self, report: PruneReport) -> None:
        """Undo a pruning, but put back no stand-in that covers forgotten steps."""
        check_report(report)
        taken = [step for step in (*report.removed, *report.shortened) if covers_of(step)]
        stale = {step.id for step in taken if self._is_view(step) and not self._has_all(sources_of(step))}
        removed, shortened = ([s for s in steps if s.id not in stale] for steps in (report.removed, report.shortened))
        super().restore(PruneReport(tuple(removed), tuple(shortened), report.kept))

    def withdraw(self, numbers: Sequence[int]) -> None:
        """Prepare to forget steps: remove the stand-ins that cover them, and stop waiting for results of their calls.

        The other steps that such a stand-in covers are in the archive.
        """
        with self._changing():
            views = [step for step in self.steps if covers_of(step) and self._is_view(step)]
            ids = {step.id for step in self._archive.fetch(numbers).values()} if views else set()
            taken = {step.id for step in views if not ids.isdisjoint(sources_of(step))}
            gone = set(numbers)
            self._apply(Change(taken=taken, lapsed=[call for call, number in self._open.items() if number in gone]))

    def _is_view(self, step: Step) -> bool:
        """Return whether a strategy made the stand-in; if not, it was added as a step of its own."""
        whole = self._archive.fetch([step.step_number or 0]).get(step.step_number or 0)
        return whole is None or covers_of(whole) != covers_of(step)

    def _has_all(self, ids: Sequence[str]) -> bool:
        return len(self._journal.numbers(ids)) == len(set(ids))


def _numbered(change: Change, first: int) -> Change:
    """Return a change whose added steps have the numbers from `first` on."""
    numbers = {step.id: first + at for at, step in enumerate(change.added)}

    def numbered(step: Step) -> Step:
        number = numbers.get(step.id, step.step_number)
        return step if step.step_number == number else step.evolve(step_number=number)

    report = change.report
    if report is not None:
        removed, shortened = (tuple(map(numbered, steps)) for steps in (report.removed, report.shortened))
        report = replace(report, removed=removed, shortened=shortened)
    put = {id: numbered(step) for id, step in change.put.items()}
    return replace(change, added=[*map(numbered, change.added)], put=put, report=report)
