"""DurableWindow: a window in the journal, which outlives the process and is shared with other processes.

The journal decides, and numbers the steps that are added. Before a process reads or changes its window, it reads it
again where other processes have written to the journal. A change is worked out, written to the journal, and only then
shown and passed to callbacks. A step is committed first; then the strategy says what stays, and a second transaction
takes out what is still in. A process that is killed between the two leaves a long window, which the next add prunes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any

from tinymem.archive.archive import Archive
from tinymem.archive.callbacks import Callbacks
from tinymem.archive.rows import shown_step
from tinymem.archive.window_rows import CLEARED, OPEN_CALLS, keep_calls, read_calls
from tinymem.errors import PruneError, describe_callable, safe_summary
from tinymem.messages.formats import chat_messages
from tinymem.messages.recognition import Arrival, Messages, keys_of
from tinymem.steps.checks import Time, check_choice, check_iterable
from tinymem.steps.collection import StepCollection
from tinymem.steps.content import Content
from tinymem.steps.redaction import Redact, redact_step
from tinymem.steps.serialization import dump_step
from tinymem.steps.standins import covers_of, find_stand_ins, newest_of, sources_of
from tinymem.steps.step import Message, Step, StepT, Style
from tinymem.steps.types import SystemPromptStep
from tinymem.stores.locks import ProcessLock
from tinymem.window.manager import OnConflict
from tinymem.window.strategy import Pruner, PruneReport, check_report, check_strategy
from tinymem.window.window import Window, WindowChange, render_window, steps_of_session

__all__ = ["DurableWindow"]


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
        self._news: list[tuple[WindowChange, Sequence[int]]] = []  # changes that the callbacks were not called for yet
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
        return redact_step(step, self._redact)

    def __len__(self) -> int:
        return len(self._window)

    # -- changes by other processes -----------------------------------------------------------------------------------

    def catch_up(self, again: bool = False) -> None:
        """Read the window where another process has written, or all of it `again`. The lock must be held."""
        if not again and self._journal.version() == self._version:
            return
        known: dict[tuple[int | None, str | None], Step] = {}
        if not again and self._version >= 0:
            known = {(step.step_number, self._views.get(id)): step for id, step in self._window.shown.items()}
        self._version = -1  # until all of it is read
        with self._journal.snapshot():
            rows = self._journal.rows(window=True)
            version, following = self._journal.version(), self._journal.next_number()
            calls = self._journal.setting(OPEN_CALLS) or ""
        steps = {row.id: known.get((row.number, row.view)) or shown_step(self._journal, row) for row in rows}
        self._archive.note_corrections(steps.values())
        self._window.shown = steps
        self._window.follow(following, read_calls(self._journal, calls))
        self._views = {row.id: row.view for row in rows if row.view is not None}
        self.positions = {row.id: row.position for row in rows}
        self._version = version

    def _see(self, change: WindowChange, views: Mapping[str, str | None]) -> None:
        """Show a change that is on disk; `views` has the JSON of each shortened step, and None for a whole one."""
        self._window.show(change)
        self._views |= {id: view for id, view in views.items() if view is not None}
        for id in change.taken:
            self.positions.pop(id, None)
        for id in (*change.taken, *(id for id, view in views.items() if view is None)):
            self._views.pop(id, None)

    # -- changes ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self.lock:
            self._window.check_idle()
            self.catch_up()
            try:
                yield
                self._tell_news()
            except BaseException:  # an interrupt may have come between the journal and what is remembered of it
                self._version = -1  # so that all of it is read again
                raise

    def add_steps(self, steps: Sequence[Step]) -> list[Step]:
        """Add steps, all of them or none when one is refused, and let the strategy choose what stays.

        Returns:
            The steps with their numbers.

        Raises:
            InputError: One is no step, or is in the memory already.
            MessageError: One is a tool's result that answers no open call.
            PruneError: The steps are in, but the strategy failed.
        """
        with self._changing():
            added = self._write_new(self._check_new(steps))
            self._keep_short()
            return added

    def add_replacements(self, steps: Sequence[Step]) -> list[Step]:
        """Add steps in the transaction in which others were deleted; a call of `add_steps` behind it prunes."""
        self.catch_up(again=True)
        return self._write_new(self._check_new(steps))

    def begin_with(self, prompt: SystemPromptStep) -> None:
        """Add a system prompt unless the window shows the same; processes that begin at once add it once."""
        with self._changing():
            with nullcontext() if self._journal.is_read_only else self._journal.together():
                self.catch_up()
                shared = newest_of(steps_of_session(self.steps, None), SystemPromptStep)
                if shared is not None and shared.content == self.apply_redaction(prompt).content:
                    return
                self._write_new(self._check_new([prompt]))
            self._keep_short()

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
        messages = Messages(kept, keys_of(kept), is_history)
        new = messages.new_in(self._journal.messages)
        self._window.check_new([arrival.step for arrival in new])
        added = self._write_new(new, messages)
        self._keep_short()
        return added

    def _check_new(self, steps: Iterable[Step]) -> list[Arrival]:
        """Return steps as they are kept; InputError unless they can be added to the window."""
        new = [self.apply_redaction(step) for step in check_iterable("steps", steps)]
        self._window.check_new(new)
        return [Arrival(step) for step in new]

    def _keep_short(self) -> None:
        """Prune by the memory's own strategy; PruneError, once the callbacks know what was added, when that fails."""
        try:
            if self._window.shown:
                self._carry_out(self._window.prune(self._strategy, kept=self.apply_redaction))
        except Exception as error:
            self._tell_news()
            raise PruneError(describe_callable(self._strategy), safe_summary(error)) from error

    def prune(self, strategy: Pruner | None = None) -> PruneReport:
        """Let `strategy`, or the memory's own, choose what stays; what left is in the report.

        Raises InputError when it returned anything but steps, and whatever it raises; nothing has changed then.
        """
        with self._changing():
            chosen = self._strategy if strategy is None else check_strategy("strategy", strategy)
            change = self._window.prune(chosen, kept=self.apply_redaction)
            self._carry_out(change)
            return change.report or PruneReport()

    def clear(self, keep_system: bool = False) -> PruneReport:
        """Take out all steps, or all but the system prompts; the report can be restored."""
        with self._changing():
            change, report = self._window.clear(keep_system)
            self._journal.keep({CLEARED: str(self._window.next_number)})
            self._carry_out(change)
            return report

    def restore(self, report: PruneReport) -> None:
        """Undo a pruning, but put back no stand-in that covers forgotten steps."""
        check_report(report)
        views = self._views_among((*report.removed, *report.shortened))
        stale = {s.id for s in views if len(self._journal.numbers(ids := sources_of(s))) < len(set(ids))}
        removed = tuple(step for step in report.removed if step.id not in stale)
        shortened = tuple(step for step in report.shortened if step.id not in stale)
        with self._changing():
            self._carry_out(self._window.restore(PruneReport(removed, shortened, report.kept)))

    def drop_stand_ins(self, numbers: Sequence[int]) -> None:
        """Prepare to forget steps: remove the stand-ins that cover them, and stop waiting for results of their calls.

        The other steps that such a stand-in covers are in the archive.
        """
        with self._changing():
            views = self._views_among(self._window.shown.values())
            ids = {step.id for step in self._archive.fetch(numbers).values()} if views else set()
            taken = {step.id for step in views if not ids.isdisjoint(sources_of(step))}
            gone, calls = set(numbers), self._window.open_calls.items()
            self._carry_out(WindowChange(taken=taken, lapsed=[call for call, number in calls if number in gone]))

    def _views_among(self, steps: Iterable[Step]) -> list[Step]:
        """Return the stand-ins that a strategy made, and not those that were added as steps of their own."""
        found = find_stand_ins(steps)
        whole = self._archive.fetch([step.step_number or 0 for step in found])
        return [s for s in found if (kept := whole.get(s.step_number or 0)) is None or covers_of(kept) != covers_of(s)]

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write_new(self, new: Sequence[Arrival], messages: Messages | None = None, shown: bool = True) -> list[Step]:
        """Write steps under the next numbers, and show them unless they go to the archive alone.

        Those that came as `messages` are looked for again where another process has written since. Calls and results of
        others count only where they are `shown`.
        """
        if not new:
            return []
        # Counted before the transaction makes other processes wait.
        known = {arrival.step.id: self._archive.prices.count(arrival.step) for arrival in new}
        with self._journal.together():
            if self._journal.version() != self._version:  # nobody else can write until the transaction ends
                self.catch_up()
                new = new if messages is None else messages.new_in(self._journal.messages)
                self._window.check_new([arrival.step for arrival in new])
            first = self._window.next_number
            steps = [arrival.step.evolve(step_number=number) for number, arrival in enumerate(new, first)]
            tokens = [known.get(step.id) or self._archive.prices.count(step) for step in steps]
            positions = self._archive.write(steps, shown, tokens)
            if messages is not None:
                rows = [arrival.rows(number) for number, arrival in enumerate(new, first)]
                self._journal.messages.put([*chain.from_iterable(rows)])
            change = WindowChange(steps) if shown or messages is not None else WindowChange()
            calls = keep_calls(self._journal, self._window.open_calls, change)
        if shown:
            self._window.show(change)
            self._archive.prices.note(steps, tokens)
            self.positions.update(positions)
            self._news.append((change, []))
        else:
            self._window.follow(first + len(steps), calls)
        return steps

    def _carry_out(self, change: WindowChange) -> None:
        """Write a change of the window to the journal, show it, and note it for the callbacks."""
        if not change:
            return
        with self._journal.together() if change.lapsed else nullcontext():
            if change.lapsed:
                self.catch_up()
                keep_calls(self._journal, self._window.open_calls, change)
            change, views, left = self._write(change)
        self._see(change, views)
        if not change.put.keys() <= self.positions.keys():
            self.positions.update((row.id, row.position) for row in self._journal.rows(window=True, texts=False))
        if left:
            self._archive.indexing.wake()
        self._news.append((change, left))

    def _write(self, change: WindowChange) -> tuple[WindowChange, dict[str, str | None], list[int]]:
        """Write the window as it is after a change.

        Returns:
            The part of the change that was possible; by id, the JSON of shortened steps, and None for whole ones; and
            the numbers of the steps that left the window by this change, not by another process.
        """
        if not (change.taken or change.put):
            return change, {}, []
        numbers = {step.id: step.step_number or 0 for step in self._window.shown.values()}
        whole = self._archive.fetch([step.step_number or 0 for step in change.put.values()])
        put = {i: s for i, s in change.put.items() if s.step_number in whole}  # a forgotten step does not come back
        views = {i: None if s == whole[s.step_number or 0] else dump_step(s) for i, s in put.items()}
        gone = [numbers[id] for id in change.taken if id in numbers]
        left: list[int] = []
        if gone or views:
            shown = {step.step_number or 0: views[id] for id, step in put.items() if id not in numbers}
            still = {step.step_number or 0: views[id] for id, step in put.items() if id in numbers}
            left = sorted(self._journal.set_window(gone, shown, still))
        return replace(change, put=put), views, left

    def _tell_news(self) -> None:
        while self._news:
            change, left = self._news.pop(0)
            if change.added:
                self._callbacks.added(change.added)
            if change.report is not None and change.report.changed:
                self._callbacks.pruned(change.report)
            if left and self._callbacks.on_archive is not None:  # or they would be read for nobody
                self._callbacks.archived(list(self._archive.fetch(left).values()))

    def archive(self, steps: Sequence[Step]) -> list[Step]:
        """Write steps that the window never shows, and return them with their numbers; errors as in `add_steps`."""
        Window().check_new(steps)  # as strict as the window would be
        with self._changing():
            return self._archive_all([Arrival(self.apply_redaction(step)) for step in steps])

    def archive_messages(self, messages: Messages) -> list[Step]:
        """Write what is new of messages, which the window never shows, and return it with its numbers."""
        with self._changing():
            new = messages.new_in(self._journal.messages)
            return self._archive_all(new, messages)

    def _archive_all(self, new: Sequence[Arrival], messages: Messages | None = None) -> list[Step]:
        """Write steps, which the window never shows."""
        steps = self._write_new(new, messages, shown=False)
        self._archive.indexing.wake()
        self._callbacks.archived(steps)
        self._callbacks.added(steps)
        return steps
