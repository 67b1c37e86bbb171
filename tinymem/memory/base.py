"""BaseMemory: an open namespace with its window, episodes and archive, and what is done to the steps in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.episodes import Episodes
from tinymem.archive.stats import Stats, stats_of
from tinymem.errors import ClosedError, InputError, kind_of, shown
from tinymem.memory.context.blocks import KeptScratchpad
from tinymem.memory.filters import a_filter
from tinymem.memory.forgetting import Forgetting
from tinymem.memory.tracing import traced
from tinymem.messages.tokens import count_tokens
from tinymem.recall.fusion import Filter
from tinymem.steps.checks import Time, a_callable, a_text, an_aware_time, one_of, some, some_texts, whole_number
from tinymem.steps.collection import StepCollection
from tinymem.steps.content import clean
from tinymem.steps.ids import utc_now
from tinymem.steps.progress import Progress, unseen
from tinymem.steps.redaction import Redact
from tinymem.steps.step import Message, Step, Style, some_steps
from tinymem.stores.interrupts import release_when_interrupted
from tinymem.upkeep.exporting import Exported, export_journal
from tinymem.upkeep.forgetting import chosen, forget_namespace, number_of
from tinymem.upkeep.retention import Retention, RetentionReport
from tinymem.window.strategy import PruneReport, Prunes

if TYPE_CHECKING:
    from tinymem.memory.aio.worker import Worker

__all__ = ["BaseMemory", "Conflict"]

Conflict: TypeAlias = Literal["error", "skip", "replace"]
Add: TypeAlias = Callable[[Sequence[Step]], list[Step]]

PAGE = 500  # steps of a history that are read at once


class BaseMemory(StepCollection):
    """The steps of one namespace in three tiers: the window, the episodes and the archive."""

    _worker: Worker | None = None  # makes the calls of event loops, once there are any

    def __init__(
        self,
        path: Path,
        namespace: str,
        window: DurableWindow,
        episodes: Episodes,
        archive: Archive,
        *,
        store_name: str,
        retention: Retention | None,
        redact: Redact | None,
    ) -> None:
        self.path, self.namespace = path, namespace
        self.short_term, self.medium_term, self.long_term = window, episodes, archive
        self._lock, self._redact, self._store_name, self._closed = window.lock, redact, store_name, False
        self._forgetting = Forgetting(window, archive, retention)
        self._scratchpad = KeptScratchpad(archive, self.archive, redact)

    @traced("create_memory")
    def archive(self, steps: Sequence[Step], *, on_conflict: Conflict = "error") -> list[Step]:
        """Add steps that are recalled but never stand in the window, as a finished task's history: all, or none.

        Args:
            steps: The steps.
            on_conflict: As in `add_steps`.

        Raises:
            InputError: One of them is no step, or in the memory already.
            MessageError: A tool's result comes without its call.
        """
        return self._added(some_steps("steps", steps), on_conflict, self.short_term.archive, self.short_term.archive)

    def _added(self, steps: Sequence[Step], on_conflict: Conflict, add: Add, add_instead: Add) -> list[Step]:
        """Add steps as `on_conflict` says, `add_instead` in the transaction in which others are forgotten."""
        one_of("on_conflict", on_conflict, "error", "skip", "replace")
        added: list[Step] = []
        with self._opened():
            given, journal = list(some("steps", steps)), self.long_term.journal
            ids = [step.id for step in given if isinstance(step, Step)]
            while True:
                held = journal.held(ids) if on_conflict != "error" else set()
                try:
                    if held and on_conflict == "replace":
                        self._forgetting.remove(journal.numbers(ids), lambda: added.extend(add_instead(given)))
                    else:
                        added.extend(add([step for step in given if not isinstance(step, Step) or step.id not in held]))
                    break
                except InputError:  # another process may have added one of them since
                    if on_conflict == "error" or journal.held(ids) == held:
                        raise
                    added.clear()
            self._settle(len(added))
        if held and on_conflict == "replace":
            self.long_term.purge()
        self._forgetting.finish()
        return added

    def _settle(self, added: int) -> None:
        """Have what left the window embedded, summarised and indexed in the background; then apply the retention."""
        if self.short_term.unsettled:
            self.short_term.unsettled = False
            self.long_term.wake()
        self._forgetting.keep_within_limits(added)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Hold the lock of a memory that is open."""
        with release_when_interrupted(), self._lock:
            self._check_open()
            yield

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the memory at {self.path} is closed: open it again")

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the window, oldest first; `stats().steps` counts those of the archive too."""
        with self._opened():
            self.short_term.catch_up()
            return self.short_term.steps

    def to_messages(self, summary_mode: bool = False, style: Style = "auto") -> list[Message]:
        """Render the window as chat messages, whatever their tokens; `context` has a budget, and recalls."""
        with self._opened():
            self.short_term.catch_up()
            return self.short_term.to_messages(summary_mode, style)

    @property
    def tokens(self) -> int:
        """The tokens of `to_messages()`, counted by the memory's own counter."""
        return count_tokens(self.to_messages(), self.long_term.counter)

    def prune(self, strategy: Prunes | None = None) -> PruneReport:
        """Let a strategy choose what stays in the window; what leaves it is archived.

        Args:
            strategy: The memory's own unless given.

        Returns:
            What left the window.

        Raises:
            InputError: It is no strategy, or returned no window; nothing has changed then.
        """
        with self._opened():
            report = self.short_term.prune(strategy)
            self._settle(0)
            return report

    def clear(self, keep_system: bool = False) -> PruneReport:
        """Empty the window, or all but its system prompts; what is in the archive stays, as the report says."""
        with self._opened():
            report = self.short_term.clear(keep_system)
            self._settle(0)
            return replace(report, archived=self.long_term.journal.counts()["steps"] - report.kept)

    def restore(self, report: PruneReport) -> None:
        """Put back into the window what a pruning took out; what was forgotten since stays away."""
        with self._opened():
            self.short_term.restore(report)

    def get(self, id: str | int) -> Step:
        """Return one step, whole.

        Args:
            id: Its id or its number; a number may be text too, as a model writes it.

        Raises:
            InputError: There is none.
        """
        with self._opened():
            number = number_of(self.long_term, id)
            if (found := self.long_term.fetch([number]).get(number)) is None:
                raise InputError(f"no step {number if number >= 0 else 'of this id'} in namespace {self.namespace!r}")
            return found

    def history(
        self,
        session: str | None = None,
        *,
        after: str | int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> Iterator[Step]:
        """Yield every step that was added and not forgotten, in the window or not, in order.

        Steps are read from the journal a few hundred at a time, so that a history of any length takes no memory; a step
        that is added meanwhile comes too. `steps` is the window alone.

        Args:
            session: Only steps of this session; `"team/*"` means all sessions that begin with `team/`.
            after: Only steps behind this one, by its id or its number: with `newest`, those before it.
            limit: The most steps.
            newest: The newest step comes first.

        Raises:
            InputError: There is no step with the id `after`.

        >>> from tinymem import HierarchicalMemory
        >>> with HierarchicalMemory() as memory:
        ...     added = memory.add_messages([{"role": "user", "content": text} for text in ("a", "b", "c")])
        ...     [step.text for step in memory.history(newest=True, limit=2)]
        ['c', 'b']
        """
        with self._opened():
            named = None if session is None else (self._redact or str)(a_text("session", session))
            number = None if after is None else self._behind(after)
            left = None if limit is None else whole_number("limit", limit)
        return self._pages(named, number, left, newest)

    def _pages(self, session: str | None, number: int | None, left: int | None, newest: bool) -> Iterator[Step]:
        while left is None or left > 0:
            count = PAGE if left is None else min(left, PAGE)
            with self._opened():
                journal = self.long_term.journal
                if newest:
                    rows = journal.newest(count, *(() if number is None else (number,)), session=session)
                else:
                    rows = journal.rows(number or 0, count, session=session)
                steps = [self.long_term.load(row.record) for row in rows]
            yield from steps
            if len(rows) < count:
                return
            number, left = rows[-1].number, None if left is None else left - count

    def _behind(self, after: str | int) -> int:
        """Return the number of the step that a history goes on behind; it may have been forgotten."""
        number = number_of(self.long_term, after) if isinstance(after, (str, int)) else -1
        if number < 0:
            raise InputError(f"after must be the id or the number of a step, not {kind_of(after)}")
        return number

    @traced("update_memory")
    def mark(self, id: str | int, milestone: bool = True) -> None:
        """Make a step a milestone, which ranks a little higher in recall, or none.

        Final answers and pinned steps are milestones anyway, and so is a step added with
        `metadata={"milestone": True}`. Arguments and errors as in `get`.
        """
        if not isinstance(milestone, bool):
            raise InputError(f"milestone must be True or False, not {shown(milestone)}")
        with self._lock:
            step = self.get(id)
            self.long_term.set_milestones([step.step_number or 0], milestone)

    def stats(self) -> Stats:
        """Count what the namespace holds."""
        with self._opened():
            self.short_term.catch_up()
            return stats_of(self.long_term, self.namespace, self._store_name)

    def export(self, file: str | Path | TextIO, *, vectors: bool = False, progress: Progress | None = None) -> Exported:
        """Write all that the memory holds as lines of JSON, which `tinymem.import_memory` reads.

        Args:
            file: A path or a text stream.
            vectors: Write vectors too, so that an import with the same embedder embeds nothing.
            progress: Called with the number of steps that are written, and of all.

        Raises:
            StorageError: The file cannot be written.
        """
        with self._opened():
            self._scratchpad.keep()
        return export_journal(self.long_term.journal, file, vectors, progress)

    def flush(self, progress: Progress | None = None) -> None:
        """Wait until all steps are embedded, and those that were archived are summarised and in the index.

        A background thread does this all the time, so it is needed only where somebody looks into the index at once. A
        memory from which no step has left the window yet has no index.

        Args:
            progress: Called with the number of passages that are in the index, and of all.

        Raises:
            EmbedderError: The embedder fails.
            StorageError: The index cannot be written, or another process that has it open does not write it.
        """
        self._check_open()  # without the lock, since embedding takes time
        self.long_term.embed_pending(advance=lambda step: self.long_term.hurry())
        self.long_term.hurry()
        self.medium_term.settle()
        self.long_term.flush(a_callable("progress", progress) or unseen)

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
        where: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Remove steps for good, wherever they are: those with one of the ids, and those that all filters let pass.

        Text, vectors, terms and summaries of the steps are gone from every file on return; the index is made again.

        Args:
            ids: An id or several.
            session: Only steps of this session; `"team/*"` means all sessions that begin with `team/`.
            before: Only steps before this moment.
            since: Only steps of this moment or later.
            until: Only steps of this moment or earlier.
            speaker: Only steps said by this speaker.
            tool: Only steps that call this tool.
            type: Only steps of this type.
            where: Only steps with these values in their metadata, as `{"user": "ann"}`.
            dry_run: Only count.
            progress: Called with the number of parts that are done, of two: the journal, then the index.

        Returns:
            How many steps there are.

        Raises:
            InputError: Nothing says what to forget.
            StorageError: Another process reads, or holds the index.

        >>> from tinymem import HierarchicalMemory, MessageStep
        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add(MessageStep("user", "My number is 555-0100.", speaker="Ann", session="monday"))
        ...     memory.forget(speaker="Ann", session="monday")
        1
        """
        advance = a_callable("progress", progress) or unseen
        with self._opened():
            named = [clean(id) for id in some_texts("ids", [ids] if isinstance(ids, str) else ids)]
            limits = {"since": since, "until": until, "session": session, "speaker": speaker, "tool": tool}
            only = self._filter(**limits, type=type, where=where)
            end = an_aware_time("before", before)
            if not named and only == Filter() and end is None:
                raise InputError("say what to forget: ids, session, before, since, until, speaker, tool, type or where")
            numbers = chosen(self.long_term, named, only, end)
            if dry_run or not numbers:
                return len(numbers)
            self._forgetting.remove(numbers)
        self._forgetting.purge(advance)
        return len(numbers)

    def _filter(self, **limits: Any) -> Filter:
        return a_filter(self.long_term.journal, self._redact, **limits)

    @staticmethod
    def forget_namespace(path: str | Path, namespace: str) -> None:
        """Remove a namespace of the memory at `path` for good, with its folder. Other namespaces are as they were.

        Raises:
            NotAMemoryError: There is none.
            StorageError: It is open somewhere, or a file cannot be removed; called again, it goes on.
        """
        forget_namespace(path, namespace)

    @traced("delete_memory")
    def retain(
        self,
        retention: Retention | None = None,
        *,
        now: Time | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> RetentionReport:
        """Forget what is over the limits, as `forget` does.

        Args:
            retention: The limits, the memory's own unless given.
            now: The time that ages are reckoned from.
            dry_run: Only report what would go.
            progress: Called as in `forget`, but not in a dry run.

        Returns:
            What went, and why.

        Raises:
            InputError: There are no limits.
            StorageError: As in `forget`.
        """
        advance = a_callable("progress", progress) or unseen
        with self._opened():
            report = self._forgetting.retain(retention, an_aware_time("now", now) or utc_now(), dry_run)
        return self._forgetting.complete(report, unseen if dry_run else advance)
