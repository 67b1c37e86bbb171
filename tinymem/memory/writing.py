"""WritableMemory: steps into a memory, into and out of its window, and out for good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from tinymem.archive.durable_window import Conflict
from tinymem.errors import InputError
from tinymem.memory.context.fitting import facts_about, indices_given, is_own_message
from tinymem.memory.filters import ForgetLimits
from tinymem.memory.opening import OpenMemory
from tinymem.messages.formats import chat_messages
from tinymem.steps.checks import Time, check_callable, check_choice, check_instance, check_iterable, to_utc
from tinymem.steps.content import Content
from tinymem.steps.ids import utc_now
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.step import Step, StepT, check_steps
from tinymem.steps.types import corrected_ids
from tinymem.stores.filter import Filter
from tinymem.upkeep.correcting import correction_of
from tinymem.upkeep.exporting import Exported, export_journal
from tinymem.upkeep.forgetting import forget_namespace, select_steps
from tinymem.upkeep.retention import Retention, RetentionReport
from tinymem.window.manager import OnConflict
from tinymem.window.strategy import Pruner, PruneReport

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Conflict", "WritableMemory"]


class WritableMemory(OpenMemory):
    """The calls of a memory that change what it holds, or what its window does."""

    def add(self, step: StepT) -> StepT:
        """Add one step; when this returns it is on disk.

        Returns:
            The copy that is held, with its number.

        Raises:
            InputError: It is no step, or is in the memory already; nothing has changed.
            MessageError: It is a tool's result whose call is not open; nothing has changed.
            PruneError: The step is in, but the strategy failed.
        """
        return cast(StepT, self.add_steps([step])[0])

    def add_steps(self, steps: Sequence[Step], *, on_conflict: Conflict = "error") -> list[Step]:
        """Add steps in one transaction, and return them: all, or none when one is refused. Errors as in `add`.

        Args:
            steps: The steps.
            on_conflict: For a step whose id is in the memory: `"error"` refuses it, `"skip"` leaves it out, `"replace"`
                forgets the one that is there and adds this one as the newest. Nobody sees the memory without either.

        >>> from tinymem import MessageStep
        >>> with HierarchicalMemory() as memory:
        ...     for port in (80, 8443):
        ...         step = MessageStep("user", f"The port is {port}.", id="port")
        ...         added = memory.add_steps([step], on_conflict="replace")
        ...     [step.text for step in memory.steps]
        ['The port is 8443.']
        """
        return self._add(steps, on_conflict, shown=True)

    def _add(self, steps: Sequence[Step], on_conflict: Conflict, shown: bool) -> list[Step]:
        """Add steps; only to the archive unless they are to be `shown` in the window."""
        check_choice("on_conflict", on_conflict, "error", "skip", "replace")
        with self._lock.while_open():
            added = self.short_term.add_steps(steps, on_conflict, shown)
        self._upkeep.finish(len(added))
        return added

    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        session: str | None = None,
        timestamp: Time | None = None,
        on_conflict: OnConflict = "add",
        format: str | None = None,
    ) -> list[Step]:
        """Add chat messages as steps, and return these: all of them, or none when one is malformed.

        Blocks that this memory recalled earlier are left out, so a prompt can be added back as it was sent.

        Args:
            messages: What was sent and answered.
            session: The conversation that they belong to.
            timestamp: When they were said; now unless given.
            on_conflict: With "skip", the messages are the whole history of the session, and only what is new in it is
                added, though it was cut or edited since (see `tinymem.messages.recognition`).
            format: `"openai"`, `"anthropic"` or `"responses"`, as for `fit`; by default known by their shape.

        Raises:
            MessageError: A message is malformed; the error names its index.

        >>> import tempfile
        >>> history = [{"role": "user", "content": "The staging server is at 10.0.0.7."}]
        >>> with HierarchicalMemory(tempfile.mkdtemp()) as memory:
        ...     [len(memory.add_messages(history, session="s1", on_conflict="skip")) for _ in range(2)]
        [1, 0]
        """
        with self._lock.while_open():
            given = check_iterable("messages", chat_messages(messages, format))
            key = self.long_term.key
            others = {place: said for place, said in enumerate(given) if not is_own_message(said, key)}
            with indices_given([*others]):
                added = self.short_term.add_messages(
                    others.values(), session=session, timestamp=timestamp, on_conflict=on_conflict
                )
        self._upkeep.finish(len(added))
        return added

    def add_message(
        self,
        role: str,
        content: Content | None,
        *,
        tool_call_id: str | None = None,
        speaker: str | None = None,
        session: str | None = None,
        timestamp: Time | None = None,
        pinned: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> Step:
        """Add one chat message, and get its step; see `MemoryManager.add_message` for the arguments and errors.

        >>> with HierarchicalMemory() as memory:
        ...     memory.add_message("user", "Which port is it?", speaker="Ann")
        <MessageStep #1: Which port is it?>
        """
        with self._lock.while_open():
            step = self.short_term.add_message(
                role, content, tool_call_id=tool_call_id, speaker=speaker, session=session, timestamp=timestamp,
                pinned=pinned, metadata=metadata,
            )  # fmt: skip
        self._upkeep.finish(1)
        return step

    def archive(self, steps: Sequence[Step], *, on_conflict: Conflict = "error") -> list[Step]:
        """Add steps that are recalled but never stand in the window, as a finished task's history: all, or none.

        Args:
            steps: The steps.
            on_conflict: As in `add_steps`.

        Raises:
            InputError: One of them is no step, or in the memory already.
            MessageError: A tool's result comes without its call.
        """
        return self._add(check_steps("steps", steps), on_conflict, shown=False)

    def archive_messages(
        self,
        messages: Any,
        *,
        session: str,
        now: Time | None = None,
        format: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_conflict: OnConflict = "skip",
    ) -> int:
        """Archive what is new in a history that the caller keeps, as `fit` does, and return how many steps are new.

        The last answer of a conversation is not handed to `fit` any more: call this with it.

        Args:
            messages: The whole history of the session, as for `fit`.
            session: The name of the conversation.
            now: When what is new was said.
            format: As for `fit`.
            metadata: Metadata of the steps that are archived.
            on_conflict: With `"add"`, the messages are not the whole history but come behind it, prompts too.

        Raises:
            MessageError: A message is malformed; the error names its index. Nothing is archived then.

        >>> history = [{"role": "user", "content": "The staging server is at 10.0.0.7."}]
        >>> with HierarchicalMemory() as memory:
        ...     [memory.archive_messages(history, session="s1") for _ in range(2)]
        [1, 0]
        """
        with self._lock.while_open():
            check_choice("on_conflict", on_conflict, "skip", "add")
            about = facts_about(self._filters.name("session", session), now, metadata)
            if on_conflict == "add":
                added = self._fitting.add(messages, format, about)
            else:
                history, added = self._fitting.take(messages, format, about)
                self._fitting.keep(history)
        self._upkeep.finish(added)
        return added

    def apply_redaction(self, step: StepT) -> StepT:
        """Return a step as it is written down: what `redact` leaves of it."""
        return self.short_term.apply_redaction(step)

    def mark(self, id: str | int, milestone: bool = True) -> None:
        """Make a step a milestone, which ranks a little higher in recall, or none.

        Final answers and pinned steps are milestones anyway, and so is a step added with
        `metadata={"milestone": True}`. Arguments and errors as in `get`.
        """
        check_instance("milestone", milestone, bool)
        with self._lock.while_open():
            step = self._reading.get(id)
            self.long_term.set_milestones([step.step_number or 0], milestone)

    def correct(self, id: str | int, correction: str | Step) -> Step:
        """Correct what a step says: wherever it would be recalled from now on, the correction comes back instead.

        The step stays in the history. The correction is a milestone, in the window if the step is; once it is
        forgotten, the step is recalled again. Where the step stands in a prompt, so does the correction, behind it.

        Args:
            id: The step's id or its number. If it was corrected before, that correction is corrected too.
            correction: What is true, in words of its own ("The port is 8444."), or as a step.

        Returns:
            The correction, with the ids of what it corrects in its metadata under `"corrects"`. A step that repeats the
            claim is not touched.

        Raises:
            InputError: There is no such step, or the correction says nothing.

        >>> with HierarchicalMemory() as memory:
        ...     old = memory.add_message("user", "The port of staging is 8443.")
        ...     new = memory.correct(old.id, "The port of staging is 8444.")
        ...     [item.text for item in memory.recall("Which port has staging?").items]
        ['The port of staging is 8444.']
        """
        with self._lock.while_open():
            step = self.apply_redaction(correction_of(self._reading.get(id), correction, self.long_term))
            is_in_window = any(shown.id in corrected_ids(step) for shown in self.steps)
        return self.add(step) if is_in_window else self.archive([step])[0]

    def prune(self, strategy: Pruner | None = None) -> PruneReport:
        """Let a strategy choose what stays in the window, and return what leaves it, which is archived.

        Args:
            strategy: The memory's own unless given.

        Raises:
            InputError: It is no strategy, or returned no window; nothing has changed then.
        """
        with self._lock.while_open():
            report = self.short_term.prune(strategy)
            self._contexts.begin_anew()
            return report

    def clear(self, keep_system: bool = False) -> PruneReport:
        """Empty the window, or all but its system prompts; what is in the archive stays, as the report says."""
        with self._lock.while_open():
            report = self.short_term.clear(keep_system)
            self._contexts.begin_anew()
            return replace(report, archived=self.long_term.journal.counts()["steps"] - report.kept)

    def restore(self, report: PruneReport) -> None:
        """Put back into the window what a pruning took out; what was forgotten since stays away."""
        with self._lock.while_open():
            self.short_term.restore(report)
            self._contexts.begin_anew()

    def flush(self, progress: Progress | None = None) -> None:
        """Wait until all steps are embedded, and those that were archived are in the index (and in episodes, if shown).

        A background thread does this all the time, so it is needed only where somebody looks into the index at once. A
        memory from which no step has left the window yet has no index.

        Args:
            progress: Called with the number of passages that are in the index, and of all.

        Raises:
            EmbedderError: The embedder fails.
            StorageError: The index cannot be written, or another process that has it open does not write it.
        """
        self._lock.check_open()  # without the lock, since embedding takes time
        self.long_term.queue.embed_pending()
        self.medium_term.catch_up()
        self.long_term.indexing.flush(check_callable("progress", progress) or no_progress)

    def export(self, file: str | Path | TextIO, *, progress: Progress | None = None) -> Exported:
        """Write all that the memory holds as lines of JSON, which `tinymem.import_memory` reads.

        Args:
            file: A path or a text stream.
            progress: Called with the number of steps that are written, and of all.

        Raises:
            StorageError: The file cannot be written.
        """
        with self._lock.while_open():
            self._scratchpad.keep()
        return export_journal(self.long_term.journal, file, progress)

    def forget(
        self,
        ids: str | int | Iterable[str | int] = (),
        *,
        dry_run: bool = False,
        **limits: Unpack[ForgetLimits],
    ) -> int:
        """Remove steps for good, wherever they are, and return how many: those with these ids, or within all filters.

        Text, vectors, terms and summaries of the steps are gone from every file on return; the index is made again. An
        error says if the steps are deleted; what is then left of them in files goes with the next call, or when the
        memory is opened again.

        Args:
            ids: An id or a number of a step, or several; a number may be text, as `"#12"`.
            dry_run: Only count.
            **limits: Only steps within these: `session`, `before`, `since`, `until`, `speaker`, `tool`, `type`, `where`
                (values in their metadata, as `{"user": "ann"}`).

        Raises:
            InputError: Nothing says what to forget, or no step has one of the ids; nothing is forgotten then.
            StorageError: Another process reads, or holds the index, or the disk is full.

        >>> from tinymem import HierarchicalMemory, MessageStep
        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add(MessageStep("user", "My number is 555-0100.", speaker="Ann", session="monday"))
        ...     memory.forget(speaker="Ann", session="monday")
        1
        """
        with self._lock.while_open():
            named = [*check_iterable("ids", [ids] if isinstance(ids, (str, int)) else ids)]
            only = self._filters.make(limits, ForgetLimits)
            if not named and only == Filter():
                raise InputError("say what to forget: ids, session, before, since, until, speaker, tool, type or where")
            numbers = select_steps(self.long_term, named, only)
            if dry_run:
                return len(numbers)
            if numbers:
                self._contexts.begin_anew()
                self.short_term.forget(numbers)
        self.long_term.purge()  # also what an earlier call has left
        return len(numbers)

    def retain(
        self,
        retention: Retention | None = None,
        *,
        now: Time | None = None,
        dry_run: bool = False,
    ) -> RetentionReport:
        """Forget what is over the limits, as `forget` does, and return what went, and why.

        Args:
            retention: The limits, the memory's own unless given.
            now: The time that ages are reckoned from.
            dry_run: Only report what would go.

        Raises:
            InputError: There are no limits.
            StorageError: As in `forget`.
        """
        with self._lock.while_open():
            report = self._upkeep.retain(retention, to_utc("now", now) or utc_now(), dry_run)
            if not dry_run:
                self._contexts.begin_anew()
        self.long_term.purge()
        return report

    @staticmethod
    def forget_namespace(path: str | Path, namespace: str) -> None:
        """Remove a namespace of the memory at `path` for good, with its folder. Other namespaces are as they were.

        Raises:
            NotAMemoryError: There is none.
            StorageError: It is open somewhere, or a file cannot be removed; called again, it goes on.
        """
        forget_namespace(path, namespace)
