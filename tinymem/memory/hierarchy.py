"""HierarchicalMemory: steps in, and prompts with what is recalled of them out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

from tinymem.archive.archive import Archive
from tinymem.archive.callbacks import Callbacks
from tinymem.archive.durable_window import Conflict, DurableWindow
from tinymem.archive.episodes import Episodes
from tinymem.archive.folders import check_name
from tinymem.archive.stats import Stats, stats_of
from tinymem.errors import InputError, safe_repr, undo_on_failure
from tinymem.memory.aio.worker import Worker
from tinymem.memory.context.context import Context, Shares
from tinymem.memory.context.contexts import Contexts
from tinymem.memory.context.fitting import Fitting, facts_about, indices_given, is_own_message
from tinymem.memory.filters import Filters, ForgetLimits, HistoryLimits, NamespaceLimits
from tinymem.memory.opening import open_place
from tinymem.memory.reading import Reading, render_step
from tinymem.memory.scratchpad import AgentMemory, KeptScratchpad
from tinymem.memory.tools import MemoryTool, memory_tools
from tinymem.memory.upkeep import Upkeep
from tinymem.messages.formats import chat_messages
from tinymem.messages.tokens import count_tokens, counter_from
from tinymem.protocols import ChangeTracker, Embedder, Embeds, Summarizer, Summarizes, TokenCounter, VectorStore
from tinymem.recall import Explanation, Recall
from tinymem.recall.search import NEXT_BEST, Search
from tinymem.recall.selection.diversity import DIVERSITY
from tinymem.registry import check_store_spec, embedder_from, summarizer_from, to_shared_store
from tinymem.steps.checks import (
    Time,
    check_callable,
    check_choice,
    check_instance,
    check_iterable,
    check_non_negative_int,
    check_number,
    check_numbers,
    check_str,
    check_strings,
    check_token_budget,
    to_utc,
)
from tinymem.steps.collection import StepCollection
from tinymem.steps.content import Content, check_content
from tinymem.steps.ids import utc_now
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.redaction import Redact, redact_from
from tinymem.steps.step import STYLES, Message, Step, StepT, Style, check_steps
from tinymem.steps.terminal import pluralize
from tinymem.steps.types import SystemPromptStep, corrected_ids
from tinymem.stores.filter import Filter
from tinymem.stores.journals import is_address
from tinymem.upkeep.correcting import correction_of
from tinymem.upkeep.exporting import Exported, export_journal
from tinymem.upkeep.forgetting import forget_namespace, select_steps
from tinymem.upkeep.retention import Retention, RetentionReport
from tinymem.window.defaults import default_strategy, with_fallback
from tinymem.window.manager import OnConflict
from tinymem.window.strategy import Pruner, PruneReport, check_strategy

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Conflict", "HierarchicalMemory"]


class HierarchicalMemory(StepCollection):
    """A memory in a folder that outlives the context window of an agent, and its process.

    Steps that are added are durable when `add` returns. The newest stay in a window that a strategy keeps short; what
    leaves it is archived and comes back by `context` and `recall`. Opened again, a memory goes on where it was.

    Any number of threads may use one, and any number of processes may each open the same: they see one window, and what
    one adds, prunes or forgets, the others find so with their next call. Only the scratchpad is each one's own: what is
    kept is that of the process that wrote it last. Its index belongs to one of them at a time, which closes it when
    it is idle or another one forgets. A forked child must open the memory itself.

    While the embedder fails, `context` and `recall` go on with words alone and say so, and the steps that wait are
    embedded once it works. Messages are kept as they came, and contexts hold what OpenAI's API accepts of them.

    Args:
        path: The folder, or the address of a PostgreSQL database, `"postgresql://..."`, that any number of hosts share
            (see docs/scaling.md). Without one the memory is for this process alone, and nothing of it stays on disk.
        namespace: Whose memory it is: a folder of its own, so that nothing crosses it.
        max_tokens: The tokens of a context, unless `context` is given others.
        window_tokens: The tokens of the window, about: half of `max_tokens` unless given.
        prune_strategy: Keeps the window short; by default the newest steps within `window_tokens` stay.
        system_prompt: The first step, unless the window shows the same.
        embedder: An adapter or its name (see `tinymem.registry`). A memory remembers its embedder's name and opens with
            it when none is given; a new one with "static".
        store: A vector store or its name.
        counter: A TokenCounter, or the name of a tiktoken encoding or of a model (`"gpt-4o"`).
        changes: What keeps track of what later steps took back of earlier ones: "coding" for files and commands of
            coding agents, which a new memory has unless another is given, a `ChangeTracker` or its name, or "none". A
            memory remembers it.
        summarizer: A summarizer or its name; a model is asked only where `shares` give episodes some.
        shares: How much of a context each part gets.
        callbacks: Functions that hear of steps that were added, left the window, were archived or came back.
        retention: What is over these limits is forgotten when the memory is opened, and after every 1,000 steps or
            more; `retain` reports what goes.
        redact: Applied to every text before anything of it is written (see `tinymem.steps.redaction`), and to the
            `session` and `speaker` that are asked for. It must give the same for the same text; when it raises, the add
            is refused.
        extra_keys: Keys of messages that the provider wants back (see `tinymem.messages.repair`).
        cache: The price of a token that the provider's prompt cache serves, as a ratio to a fresh one: how far the
            prompts of a session jump follows from it. 1 where nothing is cached.
        create: Make the memory if it is not there.

    Raises:
        NotAMemoryError: The path holds something else.
        EmbedderMismatchError: The memory was written with another embedder.
        StorageError: The folder cannot be written, and there is no memory in it that could be read.

    >>> import tempfile
    >>> with HierarchicalMemory(tempfile.mkdtemp(), max_tokens=2_000) as memory:
    ...     step = memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])[0]
    ...     "10.0.0.7" in memory.recall("Where is staging?", max_tokens=100).text
    True
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        namespace: str = "default",
        max_tokens: int = 16_000,
        window_tokens: int | None = None,
        prune_strategy: Pruner | None = None,
        system_prompt: Content | None = None,
        embedder: str | Embedder | Embeds | None = None,
        store: str | VectorStore = "chroma",
        counter: TokenCounter | str | None = None,
        changes: str | ChangeTracker | None = None,
        summarizer: str | Summarizer | Summarizes = "extractive",
        shares: Shares = Shares(),  # noqa: B008 (it is frozen)
        callbacks: Callbacks = Callbacks(),  # noqa: B008 (it is frozen)
        retention: Retention | None = None,
        redact: Redact | None = None,
        extra_keys: Collection[str] = (),
        cache: float = 0.1,
        create: bool = True,
    ) -> None:
        self.max_tokens = check_token_budget("max_tokens", max_tokens)
        tokens = max_tokens // 2 or 1 if window_tokens is None else window_tokens
        self.window_tokens = check_token_budget("window_tokens", tokens)
        self.shares = check_instance("shares", shares, Shares)
        check_instance("retention", retention, Retention, or_none=True)
        check_instance("callbacks", callbacks, Callbacks)
        if prune_strategy is not None:
            check_strategy("prune_strategy", prune_strategy)
        counter = counter_from(counter)
        redact = redact_from(redact)
        keys = check_strings("extra_keys", extra_keys)
        cache = check_number("cache", cache, 0, 1)
        text = None if system_prompt is None else check_content(system_prompt, "system_prompt") or ""
        embedder = None if embedder is None else embedder_from(embedder)
        store = check_store_spec(to_shared_store(store) if is_address(path) else store)
        summarizer = summarizer_from(summarizer)
        self.namespace, self._worker = namespace, Worker()
        self._store_name = store if isinstance(store, str) else store.name
        with open_place(self, path, namespace, create) as place:
            self.path, self._place = place.path, place
            folder, journal = place.folder, place.journal
            archive = Archive(folder, embedder, store, counter, create=create, journal=journal, changes=changes)
            with undo_on_failure(archive.journal.close):
                check_name(archive.journal, namespace)
                usual = default_strategy(self.window_tokens, archive.prices, folder)
                strategy = with_fallback(prune_strategy, usual, folder)
                self._callbacks = callbacks = replace(callbacks, where=place.logged)
                self.short_term = DurableWindow(archive, strategy, callbacks, redact)
                self.medium_term = Episodes(archive, summarizer, is_shown=shares.episodes > 0)
                self.long_term = archive
                self._make_parts(redact, keys, cache, retention)
                if text is not None:
                    self.short_term.begin_with(SystemPromptStep(text))
                self._upkeep.finish(0)
                archive.indexing.begin(self.medium_term.catch_up)

    def _make_parts(
        self, redact: Redact | None, extra_keys: Sequence[str], cache: float, retention: Retention | None
    ) -> None:
        """Make what works on the three tiers."""
        window, archive = self.short_term, self.long_term
        self._lock = window.lock
        self._scratchpad = KeptScratchpad(archive, self.archive, redact, self._lock.while_open)
        self._filters = Filters(archive.journal, redact)
        self._reading = Reading(archive, self.namespace, self._lock.while_open)
        self._search = Search(archive)
        self._fitting = Fitting(window, archive)
        self._upkeep = Upkeep(window, archive, retention)
        self._contexts = Contexts(
            window,
            self.medium_term,
            archive,
            scratchpad=self._scratchpad.memory,
            search=self._search,
            extra_keys=extra_keys,
            while_open=self._lock.while_open,
            cache=cache,
        )

    # -- in -----------------------------------------------------------------------------------------------------------

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
        if not isinstance(milestone, bool):
            raise InputError(f"milestone must be True or False, not {safe_repr(milestone)}")
        with self._lock:
            step = self.get(id)
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
            step = self.apply_redaction(correction_of(self.get(id), correction, self.long_term))
            is_in_window = any(shown.id in corrected_ids(step) for shown in self.steps)
        return self.add(step) if is_in_window else self.archive([step])[0]

    # -- the window ---------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the window, oldest first; `stats().steps` counts those of the archive too."""
        with self._lock.while_open():
            self.short_term.catch_up()
            return self.short_term.steps

    def to_messages(self, summary_mode: bool = False, style: Style = "auto") -> list[Message]:
        """Render the window as chat messages, of all sessions and whatever their tokens; `context` shows one."""
        with self._lock.while_open():
            self.short_term.catch_up()
            return self.short_term.to_messages(summary_mode, style)

    @property
    def tokens(self) -> int:
        """The tokens of `to_messages()`, counted by the memory's own counter."""
        return count_tokens(self.to_messages(), self.long_term.counter)

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

    @property
    def scratchpad(self) -> AgentMemory:
        """The agent's scratchpad, which is part of every context and survives a restart.

        Values that cannot be saved are named after a restart. Beyond 100 observations, or failed approaches, the oldest
        go to the archive. `forget` removes only steps; `scratchpad.clear()` empties the scratchpad.
        """
        return self._scratchpad.memory

    # -- prompts ------------------------------------------------------------------------------------------------------

    def context(
        self,
        query: str | None = None,
        *,
        session: str | None = None,
        max_tokens: int | None = None,
        now: Time | None = None,
        style: Style = "auto",
    ) -> Context:
        """Build the messages to send, valid for the chat APIs and never over their budget.

        System prompt, current task, the newest request and pinned steps are always in, then summaries of earlier
        episodes if `shares` gives them room, the window's newest groups, the scratchpad, and in one block before the
        newest group what of the rest bears on the query. A request gets at most half of the budget once something was
        done for it: a longer one is shortened.

        Args:
            query: The current task and the newest steps unless given.
            session: The conversation that is shown, with steps of none; that of the newest step unless given. Others
                are recalled. Of a given one, prompts only grow until they are over the budget, so that caches hold.
            max_tokens: The budget, the memory's own unless given.
            now: When it is asked.
            style: How steps are rendered; see `Step.to_messages`.

        Raises:
            BudgetError: What is always in is over the budget by itself.
        """
        check_choice("style", style, *STYLES)
        self._lock.check_open()
        budget = check_token_budget("max_tokens", self.max_tokens if max_tokens is None else max_tokens)
        asked = None if query is None else check_str("query", query)
        when = to_utc("now", now) or utc_now()
        name = None if session is None else self._filters.name("session", session)
        context = self._contexts.of_window(asked, budget, when, style, self.shares, name)
        self._callbacks.recalled(context.recalled)
        return context

    def fit(
        self,
        messages: Any,
        *,
        session: str,
        max_tokens: int | None = None,
        query: str | None = None,
        now: Time | None = None,
        style: Style = "auto",
        format: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        without: Iterable[int] = (),
        archive: bool = True,
        **limits: Unpack[HistoryLimits],
    ) -> Context:
        """Build the messages to send from a history that the caller keeps, and hands over whole at every model call.

        The window is exactly these messages, as many as fit: system prompts and the newest request always, the newest
        group shortened if it is too long, calls with their results. What is new among them is archived once, however
        often the history comes, was edited, summarised or cut (see `tinymem.messages.recognition`). It stands in no
        window but this one, and is recalled in every other conversation. The rest of the budget is recalled from all
        that the namespace holds, or what the filters let through.

        Args:
            messages: The history, oldest first, as its framework holds it: dicts or objects of an SDK. Blocks that a
                context added are left out; prompts at the beginning are not archived. A chat message may have its own
                form at its provider under the key `native`: it is kept, and comes back in `Context.entries`.
            session: The name of the conversation.
            max_tokens: The budget, the memory's own unless given.
            query: The newest request and the newest messages unless given.
            now: When it is asked, and when what is new was said.
            style: How calls and their results are rendered; see `Step.to_messages`.
            format: `"openai"`, `"responses"` or `"anthropic"`; known by the shape of the messages unless given.
            metadata: Metadata of the steps that are archived.
            without: Recall no steps with these numbers.
            archive: False where what is new is archived otherwise, as by a session of the framework.
            **limits: Recall only steps within these: `sessions` (one of that name), `since`, `until`, `speaker`,
                `tool`, `type`, `where`.

        Returns:
            The context, as chat messages. `Context.entries` says for each which of the given ones it is, and
            `Context.to()` gives it in the format that came in.

        Raises:
            MessageError: A message is malformed; the error names its index. Nothing is archived then.
            BudgetError: What must be in is over the budget by itself.

        >>> history = [{"role": "user", "content": "The staging server is at 10.0.0.7."}]
        >>> with HierarchicalMemory() as memory:
        ...     sent = [memory.fit(history, session="s1").messages for _ in range(2)]
        ...     sent == [history, history], memory.stats().steps
        (True, 1)
        """
        with self._lock.while_open():
            only = self._filters.make(limits, HistoryLimits)
            budget = check_token_budget("max_tokens", self.max_tokens if max_tokens is None else max_tokens)
            asked = None if query is None else check_str("query", query)
            check_choice("style", style, *STYLES)
            hidden = check_numbers("without", without)
            check_instance("archive", archive, bool)
            about = facts_about(self._filters.name("session", session), now, metadata)
            history, added = self._fitting.take(messages, format, about, archive)
        try:
            context = self._contexts.of_history(history, asked, budget, about.when, style, self.shares, only, hidden)
        finally:
            if archive:
                with self._lock:
                    self._fitting.keep(history)
            self._upkeep.finish(added)
        self._callbacks.recalled(context.recalled)
        return context

    # -- what the memory holds ----------------------------------------------------------------------------------------

    def recall(
        self,
        query: str,
        max_tokens: int = 1_000,
        *,
        now: Time | None = None,
        as_of: Time | None = None,
        ids: bool = False,
        diversity: float = DIVERSITY,
        k: int | None = None,
        min_relevance: float | None = None,
        without: Iterable[int] = (),
        order: Literal["time", "relevance"] = "time",
        **limits: Unpack[NamespaceLimits],
    ) -> Recall:
        """Return what bears on `query` from every step of the namespace, in the window or not.

        The budget is not filled at any price: what is not worth its tokens to a question stays out. A question that
        names a rare identifier always brings back what holds it.

        Args:
            query: A question, a task, or a stretch of conversation.
            max_tokens: The most tokens of the block.
            now: When it is asked, and what dates in the query are reckoned from.
            as_of: What held at this moment: `until` then, and no mark of what changed after it.
            ids: Each excerpt begins with the number of its step (`#12`), by which `open` and `get` find it.
            diversity: With more of it, less of what repeats something better comes back: of two passages the worse is
                left out where their wordings resemble each other by 1 - `diversity` or more (Jaccard index); 0 keeps
                all.
            k: The most passages, the best ones; adjoining ones make one excerpt.
            min_relevance: The least `relevance` of a passage, 0 to 1; 0 leaves nothing out and fills the budget.
            without: Numbers of steps to leave out, as those that the prompt shows already.
            order: With `"relevance"`, the best excerpts stand first, those of a day together: for small models, which
                may overlook what stands in the middle.
            **limits: Only steps within these: `session`, `since`, `until`, `speaker`, `tool`, `type` (as in
                `"action"`), `where` (values in their metadata, as `{"user": "ann"}`).

        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add_message("user", "The staging server is at 10.0.0.7.")
        ...     [item.text for item in memory.recall("Where is the staging server?", k=1).items]
        ['The staging server is at 10.0.0.7.']
        """
        found = self.explain(
            query, max_tokens, next_best=0, now=now, as_of=as_of, ids=ids, diversity=diversity, k=k,
            min_relevance=min_relevance, without=without, order=order, **limits,
        ).recalled  # fmt: skip
        self._callbacks.recalled(found)
        return found

    def explain(
        self,
        query: str,
        max_tokens: int = 1_000,
        *,
        next_best: int = NEXT_BEST,
        now: Time | None = None,
        as_of: Time | None = None,
        ids: bool = False,
        diversity: float = DIVERSITY,
        k: int | None = None,
        min_relevance: float | None = None,
        without: Iterable[int] = (),
        order: Literal["time", "relevance"] = "time",
        **limits: Unpack[NamespaceLimits],
    ) -> Explanation:
        """Explain what `recall` brings back for the same arguments: tokens, scores, and each feature's part in them.

        So many of the `next_best` ranked passages follow. Print the result; rich shows it in colour.
        `tinymem.recall.features.FEATURES` tells of features.

        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add_message("user", "The staging server is at 10.0.0.7.")
        ...     memory.explain("Where is staging?").items[0].step == step
        True
        """
        with self._lock.while_open():
            only = self._filters.make(limits, NamespaceLimits, as_of)
        budget, asked = check_token_budget("max_tokens", max_tokens), check_str("query", query)
        check_instance("ids", ids, bool)
        if k is not None and check_non_negative_int("k", k) < 1:
            raise InputError(f"k must be 1 or more, not {safe_repr(k)}")
        check_choice("order", order, "time", "relevance")
        least = None if min_relevance is None else check_number("min_relevance", min_relevance, 0, 1)
        return self._search.explain(
            asked, budget, to_utc("now", now) or utc_now(), hidden=check_numbers("without", without), only=only,
            next_best=check_non_negative_int("next_best", next_best), diversity=diversity, ids=ids, k=k,
            min_relevance=least, as_of=None if as_of is None else only.until, order=order,
        )  # fmt: skip

    def get(self, id: str | int) -> Step:
        """Return one step, whole.

        Args:
            id: Its id or its number; a number may be text too, as a model writes it.

        Raises:
            InputError: There is none.
        """
        with self._lock.while_open():
            return self._reading.get(id)

    def open(self, id: str | int, start: int = 0, *, max_tokens: int = 1_000) -> str:
        """Return the text of one step from a character on, marked as data; a longer one says how to read on.

        Args:
            id: Its id or its number, as `recall(ids=True)` shows it: `"#12"`.
            start: The character to begin at.
            max_tokens: The most tokens.

        Raises:
            InputError: There is no such step, or it has not so many characters.

        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add_message("user", "The staging server is at 10.0.0.7.")
        ...     "10.0.0.7" in memory.open("#1")
        True
        """
        budget, begin = check_token_budget("max_tokens", max_tokens), check_non_negative_int("start", start)
        return render_step(self.long_term, self.get(id), begin, budget)

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
            session: Only steps of this session.
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
        with self._lock.while_open():
            named = None if session is None else self._filters.name("session", session)
            number = None if after is None else self._reading.number_behind(after)
            left = None if limit is None else check_non_negative_int("limit", limit)
        return self._reading.history(named, number, left, bool(newest))

    def tools(self, *, session: str | None = None, where: Mapping[str, Any] | None = None) -> list[MemoryTool]:
        """Return tools by which a model searches the memory: `search_memory` and `open_memory`.

        Each has a `schema` for the chat API, and a `call` that takes the arguments of the model's call; `acall` is the
        same for `await`. The answer is text, marked as data, and in words where the model made a mistake.

        Args:
            session: Only steps of this session.
            where: Only steps with these values in their metadata, as `{"user": "ann"}`.

        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add_message("user", "The staging server is at 10.0.0.7.")
        ...     search, read = memory.tools()
        ...     "10.0.0.7" in search.call(query="Where is staging?"), "10.0.0.7" in read.call(id="#1")
        (True, True)
        """
        limits: NamespaceLimits = {"session": session, "where": where}
        self._filters.make(limits, NamespaceLimits)
        return memory_tools(self, lambda step: self._filters.make(limits, NamespaceLimits).accepts(step), limits)

    def stats(self) -> Stats:
        """Count what the namespace holds."""
        with self._lock.while_open():
            self.short_term.catch_up()
            return stats_of(self.long_term, self.namespace, self._store_name)

    # -- upkeep -------------------------------------------------------------------------------------------------------

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

    def close(self) -> None:
        """Embed and index what is left, and release all files. In a forked child, or a second time, nothing happens."""
        if self._lock.inherited:
            return
        with self._lock:
            if not self._lock.is_closed:
                self._lock.is_closed = True
                try:
                    self._scratchpad.keep()
                finally:
                    if self._place.remove is not None:  # what is gone in a moment
                        self.long_term.indexing.in_background = False
                    self.long_term.close()
                    if self._place.remove is not None:
                        self._place.remove()
                    self._worker.end()

    @property
    def closed(self) -> bool:
        """True once it was closed."""
        return self._lock.is_closed

    def __enter__(self) -> HierarchicalMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self.closed else f": {pluralize(len(self), 'step')} in the window"
        return f"<HierarchicalMemory {self._place.shown}{state}>"
