"""BaseMemory: an open namespace with its window, episodes and archive, and what is done to the steps in them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.episodes import Episodes
from tinymem.archive.stats import Stats, stats_of
from tinymem.errors import ClosedError, InputError, shown
from tinymem.memory.blocks import KeptScratchpad
from tinymem.memory.forgetting import Forgetting
from tinymem.memory.tracing import traced
from tinymem.messages.tokens import count_tokens
from tinymem.recall.fusion import Filter
from tinymem.steps.checks import Time, a_callable, a_text, an_aware_time, some_texts
from tinymem.steps.collection import StepCollection
from tinymem.steps.content import clean
from tinymem.steps.ids import utc_now
from tinymem.steps.redaction import Redact
from tinymem.steps.step import Message, Step, Style, some_steps
from tinymem.upkeep.exporting import Exported, export_journal
from tinymem.upkeep.forgetting import chosen, forget_namespace, number_of
from tinymem.upkeep.progress import Progress, unseen
from tinymem.upkeep.retention import Retention, RetentionReport
from tinymem.window.strategy import PruneReport, Prunes

__all__ = ["BaseMemory"]

logger = logging.getLogger(__name__)


class BaseMemory(StepCollection):
    """The steps of one namespace in three tiers: the window, the episodes and the archive."""

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
    def archive(self, steps: Sequence[Step]) -> list[Step]:
        """Add steps that are recalled but never stand in the window, as a finished task's history: all, or none.

        Raises:
            InputError: One of them is no step, or in the memory already.
            MessageError: A tool's result comes without its call.
        """
        with self._opened():
            added = self.short_term.archive(some_steps("steps", steps))
            self._settle(len(added))
        self.long_term.keep_pace()
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
        with self._lock:
            self._check_open()
            yield

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the memory at {self.path} is closed: open it again")

    # -- the window ---------------------------------------------------------------------------------------------------

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
        """Empty the window, or all but its system prompts. The steps stay in the archive: `forget` removes them."""
        with self._opened():
            report = self.short_term.clear(keep_system)
            self._settle(0)
            return report

    def restore(self, report: PruneReport) -> None:
        """Put back into the window what a pruning took out; what was forgotten since stays away."""
        with self._opened():
            self.short_term.restore(report)

    # -- single steps, and the numbers --------------------------------------------------------------------------------

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
                raise InputError(f"no step {shown(id)} in namespace {self.namespace!r}")
            return found

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

    def export(self, file: str | Path | TextIO, *, vectors: bool = False) -> Exported:
        """Write all that the memory holds as lines of JSON, which `tinymem.import_memory` reads.

        Args:
            file: A path or a text stream.
            vectors: Write vectors too, so that an import with the same embedder embeds nothing.

        Raises:
            StorageError: The file cannot be written.
        """
        with self._opened():
            self._scratchpad.keep()
        return export_journal(self.long_term.journal, file, vectors)

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
        with self._opened():
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
        dry_run: bool = False,
    ) -> int:
        """Remove steps for good, wherever they are: those with one of the ids, and those that all filters let pass.

        Text, vectors and terms are gone from every file when this returns; the index is made again. Summaries of one of
        the steps go too.

        Args:
            ids: An id or several.
            session: Only steps of this session.
            before: Only steps before this moment.
            since: Only steps of this moment or later.
            until: Only steps of this moment or earlier.
            speaker: Only steps said by this speaker.
            tool: Only steps that call this tool.
            type: Only steps of this type.
            dry_run: Only count.

        Returns:
            How many steps there are.

        Raises:
            InputError: Nothing says what to forget.
            StorageError: Another process reads, or holds the index.

        >>> import tempfile
        >>> from tinymem import HierarchicalMemory, MessageStep
        >>> with HierarchicalMemory(tempfile.mkdtemp()) as memory:
        ...     step = memory.add(MessageStep("user", "My number is 555-0100.", speaker="Ann", session="monday"))
        ...     memory.forget(speaker="Ann", session="monday")
        1
        """
        with self._opened():
            named = [clean(id) for id in some_texts("ids", [ids] if isinstance(ids, str) else ids)]
            only = self._filter(since, until, session, speaker, tool, type)
            end = an_aware_time("before", before)
            if not named and only == Filter() and end is None:
                raise InputError("say what to forget: ids, session, before, since, until, speaker, tool or type")
            numbers = chosen(self.long_term, named, only, end)
            if numbers and not dry_run:
                self._forgetting.remove(numbers)
            return len(numbers)

    def _filter(
        self,
        since: Time | None,
        until: Time | None,
        session: str | None,
        speaker: str | None,
        tool: str | None,
        type: str | None,
    ) -> Filter:
        """Check filters, and give names the form that they are written down in."""
        redact = self._redact or str
        names = {"session": session, "speaker": speaker, "tool": tool}
        given = {name: redact(a_text(name, text)) for name, text in names.items() if text is not None}
        if type is not None:
            given["type"] = a_text("type", type)
        return Filter(an_aware_time("since", since), an_aware_time("until", until), **given)

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
        self, retention: Retention | None = None, *, now: Time | None = None, dry_run: bool = False
    ) -> RetentionReport:
        """Forget what is over the limits, as `forget` does.

        Args:
            retention: The limits, the memory's own unless given.
            now: The time that ages are reckoned from.
            dry_run: Only report what would go.

        Returns:
            What went, and why.

        Raises:
            InputError: There are no limits.
            StorageError: As in `forget`.
        """
        with self._opened():
            return self._forgetting.retain(retention, an_aware_time("now", now) or utc_now(), dry_run)
