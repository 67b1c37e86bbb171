"""DurableWindow: a window in the journal, which outlives the process and is shared with other processes.

The journal decides, and numbers the steps that are added. Before a process reads or changes its window, it reads it
again where other processes have written to the journal. A change is worked out, written to the journal, and only then
shown and passed to callbacks. A step is committed first; then the strategy says what stays, and a second transaction
takes out what is still in. A process that is killed between the two leaves a long window, which the next add prunes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Literal, TypeAlias

from tinymem.archive.archive import Archive
from tinymem.archive.callbacks import Callbacks
from tinymem.archive.rows import CLEARED, OPEN_CALLS, read_calls, shown_step
from tinymem.errors import PruneError, StorageError, describe_callable, safe_summary
from tinymem.messages.formats import chat_messages
from tinymem.messages.recognition import Arrival, Messages
from tinymem.steps.checks import Time, check_choice, check_iterable
from tinymem.steps.collection import StepCollection
from tinymem.steps.content import Content
from tinymem.steps.redaction import Redact, redact_step
from tinymem.steps.standins import covers_of, find_stand_ins, newest_of, sources_of
from tinymem.steps.step import Message, Step, StepT, Style, dump_step
from tinymem.steps.types import SystemPromptStep
from tinymem.stores.locks import ProcessLock
from tinymem.window.manager import OnConflict
from tinymem.window.strategy import Pruner, PruneReport, check_report, check_strategy
from tinymem.window.window import Window, check_step, number_of, render_window, steps_of_session

__all__ = ["Conflict", "DurableWindow"]

Conflict: TypeAlias = Literal["error", "skip", "replace"]

MOST_CALLS = 256  # calls without a result that are kept, the newest


class DurableWindow(StepCollection):
    """The window of a memory on disk, whose steps are in the journal before they are shown.

    `positions` has, by id, the number of tokens before each step since the memory began.

    Args:
        archive: The archive that steps are written to.
        strategy: Decides at every `add` which steps stay.
        callbacks: Called for every change once it is on disk.
        redact: Applied to each step before it is written, kept or shown to a strategy.
    """

    def __init__(
        self, archive: Archive, strategy: Pruner, callbacks: Callbacks | None = None, redact: Redact | None = None
    ) -> None:
        self.lock = ProcessLock(f"the memory at {archive.folder}")
        self._archive, self._journal, self._callbacks = archive, archive.journal, callbacks or Callbacks()
        self._window, self._strategy, self._redact = Window(), check_strategy("prune_strategy", strategy), redact
        self.positions: dict[str, int] = {}
        self._views: dict[str, str] = {}  # by id, the JSON of steps that the window does not show whole
        self._version = -1  # of the journal, as it was read last
        with self.lock:
            self.catch_up()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The window, oldest first."""
        with self.lock:
            return self._window.steps

    @property
    def shortened(self) -> Collection[str]:
        """The ids of the steps that the window shows shortened."""
        return self._views.keys()

    @property
    def next_number(self) -> int:
        """The number of the next step."""
        return self._window.next_number

    @property
    def open_calls(self) -> frozenset[str]:
        """The ids of the calls without a result yet, in the window or not."""
        with self.lock:
            return frozenset(self._window.open_calls)

    def to_messages(self, summary_mode: bool = False, style: Style = "auto") -> list[Message]:
        """Render the window as chat messages, as `MemoryManager.to_messages` does."""
        return render_window(self.steps, summary_mode, style)

    def apply_redaction(self, step: StepT) -> StepT:
        """Return the step as `redact` leaves it."""
        return step if self._redact is None else redact_step(step, self._redact)

    def __len__(self) -> int:
        return len(self._window)

    def catch_up(self) -> bool:
        """Read the window again where another process has written, and return whether one has; hold the lock."""
        if self._journal.version() == self._version:
            return False
        known: dict[tuple[int | None, str | None], Step] = {}
        if self._version >= 0:
            known = {(step.step_number, self._views.get(id)): step for id, step in self._window.shown.items()}
        self._version = -1  # until all of it is read
        with self._journal.snapshot():
            rows, version = self._journal.rows(window=True), self._journal.version()
            self._window.append((), self._journal.next_number(), read_calls(self._journal))
        steps = {row.id: known.get((row.number, row.view)) or shown_step(self._journal, row) for row in rows}
        self._archive.note_corrections(steps.values())
        self._window.shown = steps
        self._views = {row.id: row.view for row in rows if row.view is not None}
        self.positions = {row.id: row.position for row in rows}
        self._version = version
        return True

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self.lock:
            self._window.check_idle()
            self.catch_up()
            try:
                yield
            except BaseException:  # an interrupt may have come between the journal and what is remembered of it
                self._version = -1  # so that all of it is read again
                raise

    # -- adding -------------------------------------------------------------------------------------------------------

    def add_steps(self, steps: Sequence[Step], on_conflict: Conflict = "error", shown: bool = True) -> list[Step]:
        """Add steps, all of them or none when one is refused, and let the strategy choose what stays.

        Steps that are not to be `shown` never stand in the window. Of those that are in the memory already "error"
        refuses all, "skip" leaves them out, and "replace" forgets the old ones in the transaction that adds the others;
        the background scrubs the journal then, and empties the index, in a quiet moment.

        Returns:
            The steps with their numbers.

        Raises:
            InputError: One is no step, or is in the memory already.
            MessageError: One is a tool's result that answers no open call.
            PruneError: The steps are in, but the strategy failed.
        """
        with self._changing():
            new = [self.apply_redaction(step) for step in check_iterable("steps", steps)]
            if on_conflict == "error":
                return self._settle(self._write(new, shown), shown)
            for step in new:
                check_step(step, ())
            tokens = self._count(new)
            left: list[int] = []
            with self._journal.together():
                self.catch_up()
                known = self._journal.numbers([*tokens])
                if on_conflict == "skip":
                    new = [step for step in new if step.id not in known]
                elif known:
                    left = self._delete([*known.values()])
                added = self._write(new, shown, tokens)
            if known and on_conflict == "replace":
                self._archive.drop_copies()
                self._archive.indexing.wake()
                self._tell(PruneReport(), left)
            return self._settle(added, shown)

    def begin_with(self, prompt: SystemPromptStep) -> None:
        """Add a system prompt unless the window shows the same; processes that begin at once add it once."""
        with self._changing():
            with nullcontext() if self._journal.is_read_only else self._journal.together():
                self.catch_up()
                shared = newest_of(steps_of_session(self.steps, None), SystemPromptStep)
                kept = self.apply_redaction(prompt)
                if shared is not None and shared.content == kept.content:
                    return
                added = self._write([kept])
            self._settle(added)

    def add_message(self, role: str, content: Content | None, **more: Any) -> Step:
        """Add one chat message, and return its step; arguments and errors are those of `MemoryManager.add_message`."""
        with self._changing():
            step = self._window.step_of_message(role, content, **more)
            return self._add_messages([step], is_history=False)[0]

    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        session: str | None = None,
        timestamp: Time | None = None,
        on_conflict: OnConflict = "add",
        format: str | None = None,
    ) -> list[Step]:
        """Add chat messages, and return their steps; arguments and errors are those of `MemoryManager.add_messages`."""
        check_choice("on_conflict", on_conflict, "add", "skip")
        chat = chat_messages(messages, format)
        with self._changing():
            steps = self._window.steps_of_messages(chat, session, timestamp)
            return self._add_messages(steps, is_history=on_conflict == "skip")

    def _add_messages(self, steps: Sequence[Step], is_history: bool) -> list[Step]:
        """Add steps of one session's messages, under ids that identify them when they are given again."""
        kept = [self.apply_redaction(step) for step in steps]
        return self._settle(self._write(Messages(kept, is_history)))

    def archive_messages(self, messages: Messages) -> list[Step]:
        """Write what is new of messages, which the window never shows, and return it with its numbers."""
        with self._changing():
            return self._settle(self._write(messages, shown=False), shown=False)

    def _count(self, steps: Sequence[Step]) -> dict[str, int]:
        return {step.id: self._archive.prices.count(step) for step in steps}

    def _new_of(self, given: Sequence[Step] | Messages, shown: bool) -> tuple[list[Step], list[Arrival]]:
        """Return what is new of steps or messages, checked and numbered; with the arrivals of messages."""
        arrivals = given.new_in(self._journal.messages) if isinstance(given, Messages) else []
        new = [arrival.step for arrival in arrivals] if isinstance(given, Messages) else [*given]
        return self._window.number(new, self._window.shown if shown else ()), arrivals

    def _write(
        self, given: Sequence[Step] | Messages, shown: bool = True, counted: Mapping[str, int] | None = None
    ) -> list[Step]:
        """Write what is new of steps or messages under the next numbers, and show it unless only the archive has it.

        It is looked for again where another process has written since. Calls and results of steps that are not `shown`
        count only where they came as messages. `counted` has tokens of steps, by id.
        """
        steps, arrivals = self._new_of(given, shown)
        if not steps:
            return []
        known = self._count(steps) if counted is None else counted  # before a transaction makes other processes wait
        with self._journal.together():
            if self.catch_up():  # nobody else can write until the transaction ends
                steps, arrivals = self._new_of(given, shown)
            first = self._window.next_number
            tokens = [known.get(step.id) or self._archive.prices.count(step) for step in steps]
            positions = self._archive.write(steps, shown, tokens)
            if isinstance(given, Messages):
                self._journal.messages.put(given.rows(arrivals, first))
            calls = self._keep_calls(steps if shown or arrivals else ())
        self._window.append(steps if shown else (), first + len(steps), calls)
        if shown:
            self.positions.update(positions)
        return steps

    def _keep_calls(self, added: Sequence[Step] = (), gone: Collection[int] = ()) -> dict[str, int]:
        """Keep the open calls as they are behind steps that are added, but for those of steps that are gone."""
        after = self._window.calls_after(added).items()
        calls = dict([(id, number) for id, number in after if number not in gone][-MOST_CALLS:])
        if calls != self._window.open_calls:
            self._journal.keep({OPEN_CALLS: json.dumps(calls)})
        return calls

    def _settle(self, added: list[Step], shown: bool = True) -> list[Step]:
        """Prune by the memory's own strategy, and let the callbacks know; PruneError where it fails, once they know."""
        report, left = PruneReport(), list[int]()
        try:
            if shown and self._window.shown:
                report, put = self._window.prune(self._strategy, kept=self.apply_redaction)
                left = self._carry_out(report.removed, put)
        except Exception as error:
            self._callbacks.added(added)
            raise PruneError(describe_callable(self._strategy), safe_summary(error)) from error
        if not shown:
            self._archive.indexing.wake()
            self._callbacks.archived(added)
        self._callbacks.added(added)
        self._tell(report, left)
        return added

    # -- pruning ------------------------------------------------------------------------------------------------------

    def prune(self, strategy: Pruner | None = None) -> PruneReport:
        """Let `strategy`, or the memory's own, choose what stays; what left is in the report.

        Raises InputError when it returned anything but steps, and whatever it raises; nothing has changed then.
        """
        with self._changing():
            chosen = self._strategy if strategy is None else check_strategy("strategy", strategy)
            report, put = self._window.prune(chosen, kept=self.apply_redaction)
            self._tell(report, self._carry_out(report.removed, put))
            return report

    def clear(self, keep_system: bool = False) -> PruneReport:
        """Take out all steps, or all but the system prompts; the report can be restored."""
        with self._changing():
            with self._journal.together():
                self.catch_up()
                report = self._window.clear(keep_system)
                left = self._carry_out(report.removed, {})
                self._journal.keep({CLEARED: str(self._window.next_number), OPEN_CALLS: "{}"})
            self._window.append((), 0, {})
            self._tell(PruneReport(), left)
            return report

    def restore(self, report: PruneReport) -> None:
        """Undo a pruning, but put back no stand-in that covers forgotten steps."""
        check_report(report)
        with self._changing():
            views = self._views_among((*report.removed, *report.shortened))
            stale = {s.id for s in views if len(self._journal.numbers(ids := sources_of(s))) < len(set(ids))}
            removed = tuple(step for step in report.removed if step.id not in stale)
            shortened = tuple(step for step in report.shortened if step.id not in stale)
            self._carry_out((), self._window.restore(PruneReport(removed, shortened, report.kept)))

    def _carry_out(self, taken: Sequence[Step], put: dict[str, Step]) -> list[int]:
        """Write the window without the steps `taken` and with those `put` to the journal, and show it.

        Returns:
            The numbers of the steps that left the window by this change, not by another process.
        """
        if not (taken or put):
            return []
        shown = self._window.shown
        views = self._views_of(put)
        back = {number_of(put[id]): view for id, view in views.items() if id not in shown}
        still = {number_of(put[id]): view for id, view in views.items() if id in shown}
        left = sorted(self._journal.set_window([*map(number_of, taken)], back, still))
        if back:
            self._version = -1  # so that all of it is read again
            self.catch_up()
            return left
        self._window.show(taken, {id: put[id] for id in views})
        for step in taken:
            self.positions.pop(step.id, None)
            views[step.id] = None
        self._views = {id: view for id, view in (self._views | views).items() if view is not None}
        if left:
            self._archive.indexing.wake()
        return left

    def _views_of(self, put: dict[str, Step]) -> dict[str, Any]:
        """Return by id the JSON of steps that the window is to show, None for whole ones; forgotten ones stay away."""
        whole = self._archive.fetch([*map(number_of, put.values())]) if put else {}
        kept = {id: step for id, step in put.items() if step.step_number in whole}
        return {id: None if step == whole[number_of(step)] else dump_step(step) for id, step in kept.items()}

    def _tell(self, report: PruneReport, left: Sequence[int]) -> None:
        """Tell the callbacks what was pruned, and of the steps that left the window."""
        if report.removed or report.shortened:
            self._callbacks.pruned(report)
        if left and self._callbacks.on_archive is not None:  # or they would be read for nobody
            self._callbacks.archived(list(self._archive.fetch(left).values()))

    # -- forgetting ---------------------------------------------------------------------------------------------------

    def forget(self, numbers: Sequence[int]) -> None:
        """Delete steps for good, with the stand-ins that cover them; the archive's `purge` leaves no trace of them.

        Raises StorageError, which says if they are deleted.
        """
        with self._changing():
            try:
                with self._journal.together():
                    self.catch_up()
                    left = self._delete(numbers)
            except StorageError as error:
                is_whole = False
                with suppress(StorageError):  # the first error says more
                    is_whole = bool(self._journal.steps(numbers[:1]))  # all go at once
                if is_whole and type(error) is StorageError:
                    raise StorageError(f"nothing is forgotten: {error}") from error
                raise
            self._archive.drop_copies()
            self._tell(PruneReport(), left)

    def _delete(self, numbers: Sequence[int]) -> list[int]:
        """Delete steps in a transaction of the caller; return the numbers of others that leave the window with them.

        These are under stand-ins that cover a deleted step; what else such a stand-in covers is in the archive. Nobody
        waits for results of deleted calls.
        """
        gone, shown = set(numbers), self._window.shown.values()
        taken = [step for step in shown if step.step_number in gone]
        if views := self._views_among(shown):
            ids = {step.id for step in self._archive.fetch(numbers).values()}
            taken += [step for step in views if not ids.isdisjoint(sources_of(step))]
        left = self._carry_out(taken, {})
        self._archive.delete(numbers)
        if not gone.isdisjoint(self._window.open_calls.values()):
            self._window.append((), 0, self._keep_calls(gone=gone))
        return [number for number in left if number not in gone]

    def _views_among(self, steps: Iterable[Step]) -> list[Step]:
        """Return the stand-ins that a strategy made, and not those that were added as steps of their own."""
        if not (found := find_stand_ins(steps)):
            return []
        whole = self._archive.fetch([*map(number_of, found)])
        return [s for s in found if (kept := whole.get(number_of(s))) is None or covers_of(kept) != covers_of(s)]
