"""The window as the journal keeps it: which steps it shows, and how, for when the memory is opened again."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.archive import Archive
from tinymem.base import Step
from tinymem.callbacks import Callbacks
from tinymem.manager import MemoryManager
from tinymem.redaction import Redact, redacted
from tinymem.serialization import dump_step, load_step
from tinymem.steps import SummaryStep
from tinymem.strategy import PruneReport, PruneStrategy

__all__ = ["DurableWindow"]


class _Redacting(MemoryManager):
    """A MemoryManager that holds what `redact` leaves of its steps."""

    redact: Redact | None = None

    def add_steps(self, steps: Sequence[Step]) -> list[Step]:
        return super().add_steps([redacted(step, self.redact) for step in steps])


class DurableWindow:
    """A MemoryManager, `steps`, whose steps are in the journal before they are in it, as `redact` leaves them.

    `positions` says how many tokens came before each of its steps since the memory began; `shortened` are the ids of
    those that the window does not show whole.
    """

    def __init__(
        self,
        archive: Archive,
        strategy: PruneStrategy,
        callbacks: Callbacks | None = None,
        redact: Redact | None = None,
    ) -> None:
        self._archive, self._callbacks, self._redact = archive, callbacks or Callbacks(), redact
        self._reports: list[PruneReport] = []  # that nobody was told of yet
        rows = archive.journal.window()
        self.positions = {row.id: row.position for row in rows}
        self.shortened = {row.id for row in rows if row.view}
        kind = MemoryManager if redact is None else _Redacting
        self.manager = kind.from_steps(
            [load_step(row.view or row.record) for row in rows],
            next_number=archive.journal.next_number(),
            prune_strategy=strategy,
            auto_prune_at=0,
            on_add=self._journal,
            on_prune=self._reports.append,
        )
        if isinstance(self.manager, _Redacting):
            self.manager.redact = redact
        self._on_disk = {step.id: step for step in self.manager.steps}

    def _journal(self, steps: Sequence[Step]) -> None:
        self.positions.update(self._archive.write(steps))
        self._on_disk.update((step.id, step) for step in steps)

    def pass_by(self, steps: Sequence[Step]) -> list[Step]:
        """Journal steps that the window never shows; they come back numbered."""
        MemoryManager(auto_prune_at=None).add_steps(steps)  # as strict as the window would be
        first = self.manager.reserve(len(steps))
        numbered = [redacted(step, self._redact).evolve(number=first + at) for at, step in enumerate(steps)]
        self._archive.write(numbered, window=False)
        return numbered

    def restore(self, report: PruneReport) -> None:
        """Put back into the window what a pruning took out, but no summary that tells of what was forgotten since."""
        taken = [step for step in (*report.removed, *report.shortened) if isinstance(step, SummaryStep)]
        stale = {step.id for step in taken if self._is_view(step) and not self._has_all(step.covers)}
        removed, shortened = ([s for s in steps if s.id not in stale] for steps in (report.removed, report.shortened))
        self.manager.restore(PruneReport(tuple(removed), tuple(shortened), report.kept))
        self.keep()

    def forget_summaries(self, numbers: Sequence[int]) -> None:
        """Take summaries of any of these steps out of the window; the others that they cover are in the archive."""
        if summaries := [step for step in self.manager.steps if isinstance(step, SummaryStep) and self._is_view(step)]:
            ids = {step.id for step in self._archive.fetch(numbers).values()}
            self.manager.drop([step.number or 0 for step in summaries if not ids.isdisjoint(step.covers)])
            self.keep()

    def _is_view(self, summary: SummaryStep) -> bool:
        """Whether a strategy made the summary, rather than that it was added as a step of its own."""
        whole = self._archive.fetch([summary.number or 0]).get(summary.number or 0)
        return not isinstance(whole, SummaryStep) or whole.covers != summary.covers

    def _has_all(self, ids: Sequence[str]) -> bool:
        return len(self._archive.journal.numbers(ids)) == len(set(ids))

    def keep(self) -> list[int]:
        """Write down what the window shows now; the numbers of the steps that left it."""
        border = self.manager.next_number  # what another thread adds right now is in the journal first: it stays
        shown = {step.id: step for step in self.manager.steps}
        numbers = {id: step.number or 0 for id, step in [*self._on_disk.items()] if id not in shown}
        gone = {id: number for id, number in numbers.items() if number < border}
        changed = {step.number or 0: step for id, step in shown.items() if self._on_disk.get(id) is not step}
        if gone or changed:
            whole = self._archive.fetch([*changed])
            views = {
                n: None if step == whole.get(n) else dump_step(redacted(step, self._redact))
                for n, step in changed.items()
            }
            self._archive.journal.set_window(gone.values(), views)
            self.manager.drop(changed.keys() - whole.keys())  # came back with an old report: forgotten is gone
            for id in gone:
                del self._on_disk[id], self.positions[id]
            for number in whole:
                self._on_disk[changed[number].id] = changed[number]
                (self.shortened.add if views[number] else self.shortened.discard)(changed[number].id)
            if any(step.id not in self.positions for step in whole.values()):
                self.positions.update((row.id, row.position) for row in self._archive.journal.window())
        self._tell(sorted(gone.values()))
        return sorted(gone.values())

    def _tell(self, gone: Sequence[int]) -> None:
        while self._reports:
            self._callbacks.pruned(self._reports.pop(0))
        if gone and self._callbacks.wants_archived:
            self._callbacks.archived(list(self._archive.fetch(gone).values()))
