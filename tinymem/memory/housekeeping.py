"""What is done to a memory as a whole: forgetting, retention, export."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from tinymem.archive.archive import Archive
from tinymem.archive.episodes import Episodes
from tinymem.archive.stats import Stats, stats_of
from tinymem.errors import InputError, TinymemError, shown, warn_hourly
from tinymem.memory.blocks import KeptScratchpad
from tinymem.memory.tracing import traced
from tinymem.memory.window_verbs import WindowVerbs
from tinymem.recall.fusion import Filter
from tinymem.steps.checks import Time, a_text, an_aware_time, some_texts
from tinymem.steps.content import clean
from tinymem.steps.ids import utc_now
from tinymem.steps.redaction import Redact
from tinymem.steps.step import Step
from tinymem.upkeep.exporting import Exported, export_journal
from tinymem.upkeep.forgetting import chosen, forget_namespace, number_of
from tinymem.upkeep.retention import Retention, RetentionReport, retain

__all__ = ["Housekeeping"]

logger = logging.getLogger(__name__)

RETAIN_EVERY = 1_000  # steps at least that are added until a memory's own retention is looked at again,
RETAIN_SHARE = 20  # and of those that are there, one in so many: each look reads them all


class Housekeeping(WindowVerbs):
    """The part of a HierarchicalMemory that is about what it holds, and not about what is asked of it."""

    path: Path
    namespace: str
    _store_name: str
    long_term: Archive
    medium_term: Episodes
    _scratchpad: KeptScratchpad
    _redact: Redact | None
    _retention: Retention | None
    _until_look: int = 0  # steps that may be added until the retention is looked at

    def _filter(
        self,
        since: Time | None,
        until: Time | None,
        session: str | None,
        speaker: str | None,
        tool: str | None,
        type: str | None,
    ) -> Filter:
        """What is asked for, checked; names are told as they are written down."""
        redact = self._redact or str
        names = {"session": session, "speaker": speaker, "tool": tool}
        told = {name: redact(a_text(name, text)) for name, text in names.items() if text is not None}
        if type is not None:
            told["type"] = a_text("type", type)
        return Filter(an_aware_time("since", since), an_aware_time("until", until), **told)

    # -- single steps, and the numbers --------------------------------------------------------------------------------

    def get(self, id: str | int) -> Step:
        """The step with this id, or this number, whole; a number may be text too, as a model writes it.

        Raises InputError when there is none.
        """
        with self._lock:
            self._check_open()
            number = number_of(self.long_term, id)
            if (found := self.long_term.fetch([number]).get(number)) is None:
                raise InputError(f"no step {shown(id)} in namespace {self.namespace!r}")
            return found

    @traced("update_memory")
    def mark(self, id: str | int, milestone: bool = True) -> None:
        """Make a step a milestone, which ranks a little higher in recall, or none; final answers and pinned steps are
        milestones anyway, and so is a step added with `metadata={"milestone": True}`. Raises InputError as `get`."""
        if not isinstance(milestone, bool):
            raise InputError(f"milestone must be True or False, not {shown(milestone)}")
        with self._lock:
            step = self.get(id)
            self.long_term.set_milestones([step.step_number or 0], milestone)

    def stats(self) -> Stats:
        """What the namespace holds."""
        with self._lock:
            self._check_open()
            self.short_term.catch_up()
            return stats_of(self.long_term, self.namespace, self._store_name)

    # -- forgetting ---------------------------------------------------------------------------------------------------

    @traced("delete_memory")
    def forget(
        self,
        ids: str | Iterable[str] = (),
        *,
        session: str | None = None,
        before: Time | None = None,
        since: Time | None = None,
        until: Time | None = None,
        speaker: str | None = None,
        tool: str | None = None,
        type: str | None = None,
        dry_run: bool = False,
    ) -> int:
        """Remove steps for good, wherever they are: those with one of the ids, and those that all filters let pass. How
        many there are; with `dry_run`, that is all.

        Filters are those of `recall`, and `before`, which leaves out the moment itself. Text, vectors and terms are
        gone from every file when this returns; the index is made anew. Summaries that tell of one of them go too.
        Raises InputError when nothing is said, and StorageError when somebody else reads, or holds the index.

        >>> import tempfile
        >>> from tinymem import HierarchicalMemory, MessageStep
        >>> with HierarchicalMemory(tempfile.mkdtemp()) as memory:
        ...     step = memory.add(MessageStep("user", "My number is 555-0100.", speaker="Ann", session="monday"))
        ...     memory.forget(speaker="Ann", session="monday")
        1
        """
        with self._lock:
            self._check_open()
            named = [clean(id) for id in some_texts("ids", [ids] if isinstance(ids, str) else ids)]
            only = self._filter(since, until, session, speaker, tool, type)
            end = an_aware_time("before", before)
            if not named and only == Filter() and end is None:
                raise InputError("say what to forget: ids, session, before, since, until, speaker, tool or type")
            numbers = chosen(self.long_term, named, only, end)
            if numbers and not dry_run:
                self._remove(numbers)
            return len(numbers)

    def _remove(self, numbers: Sequence[int]) -> None:
        self.short_term.withdraw(numbers)
        try:
            self.long_term.forget(numbers)
        finally:  # when it fails half way, the window has what the journal has
            self.short_term.catch_up(again=True)
            self.medium_term.forget()

    @staticmethod
    def forget_namespace(path: str | Path, namespace: str) -> None:
        """Remove a namespace of the memory at `path`, for good: its folder goes. Other namespaces are as they were.

        Raises NotAMemoryError where there is none, and StorageError when somebody has it open, or a file cannot be
        removed; called again, it goes on.
        """
        forget_namespace(path, namespace)

    # -- retention ----------------------------------------------------------------------------------------------------

    @traced("delete_memory")
    def retain(
        self, retention: Retention | None = None, *, now: Time | None = None, dry_run: bool = False
    ) -> RetentionReport:
        """Forget what is over the limits of `retention` (the memory's own unless given), as `forget` does; what went,
        and why. With `dry_run`, what would go. `now` is what ages are reckoned from.

        Raises InputError when there are no limits, and what `forget` raises.
        """
        with self._lock:
            self._check_open()
            limits = self._retention if retention is None else retention
            if not isinstance(limits, Retention):
                raise InputError(f"retention must be a Retention, not {limits!r:.80}: retain(Retention(max_steps=...))")
            self.short_term.catch_up()
            return retain(self.long_term, limits, self._remove, an_aware_time("now", now) or utc_now(), dry_run)

    def _keep_within_limits(self, added: int = 0) -> None:
        """Apply the memory's own retention once enough steps were `added`, and when it is opened."""
        self._until_look -= added
        if self._retention is not None and self._until_look <= 0:
            self._until_look = max(RETAIN_EVERY, self.long_term.journal.counts()["steps"] // RETAIN_SHARE)
            try:
                report = self.retain()
            except TinymemError as error:  # as when another process reads; the next time will do
                warn_hourly(logger, self.long_term.folder, "the memory is over its retention: %s", error)
            else:
                logger.info("%d steps went by the memory's retention: %s", len(report.removed), report.reasons)

    # -- export -------------------------------------------------------------------------------------------------------

    def export(self, file: str | Path | TextIO, *, vectors: bool = False) -> Exported:
        """Write all that the memory holds to `file`, a path or a text stream, as lines of JSON; with `vectors`, if an
        import with the same embedder shall embed nothing. See `tinymem.upkeep.export_memory`; what reads it is
        `tinymem.upkeep.import_memory`.

        Raises StorageError for a file that cannot be written.
        """
        with self._lock:
            self._check_open()
            self.short_term.catch_up()
            self._scratchpad.keep()
        return export_journal(self.long_term.journal, file, vectors)
