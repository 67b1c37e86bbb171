"""HierarchicalMemory: the window, the episodes and the archive as one memory that outlives the context window."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tinymem.archive.archive import Archive
from tinymem.archive.callbacks import Callbacks, StepCallbacks
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.episodes import Episodes
from tinymem.archive.folders import check_name, namespace_folder
from tinymem.archive.temporary import private_folder
from tinymem.errors import ClosedError, MessageError, TinymemError, warn_hourly
from tinymem.memory.blocks import KeptScratchpad, episodes_block, scratchpad_block
from tinymem.memory.context import Context, Shares, assemble, default_query
from tinymem.memory.housekeeping import Housekeeping
from tinymem.memory.scratchpad.scratchpad import AgentMemory
from tinymem.memory.tracing import traced
from tinymem.messages.tokens import counter_from
from tinymem.protocols import Embedder, Embeds, Summarizer, Summarizes, TokenCounter, VectorStore
from tinymem.recall import Explanation, Recall
from tinymem.recall.diversity import DIVERSITY
from tinymem.recall.render import is_own_message
from tinymem.recall.search import Search
from tinymem.registry import embedder_from, known_store, store_from, summarizer_from
from tinymem.steps.checks import Time, a_path, a_text, an_aware_time, an_object, one_of, some, some_texts, some_tokens
from tinymem.steps.content import Content, checked
from tinymem.steps.ids import utc_now
from tinymem.steps.redaction import Redact, redact_from
from tinymem.steps.step import STYLES, Step, StepT, Style, some_steps
from tinymem.steps.terminal import many
from tinymem.steps.types import SystemPromptStep
from tinymem.upkeep.forgetting import undone_on_failure
from tinymem.upkeep.retention import Retention
from tinymem.window.defaults import always_pruned, default_strategy
from tinymem.window.manager import OnConflict, PruneReport
from tinymem.window.sending import Sending
from tinymem.window.strategy import Prunes, a_strategy

__all__ = ["HierarchicalMemory"]

logger = logging.getLogger(__name__)


class HierarchicalMemory(Housekeeping):
    """A memory in the folder `path`, for one `namespace` (a folder of its own: nothing crosses it). Without a path it
    is for this process alone, and nothing of it stays on disk when it is closed.

    Steps that are added are durable when `add` returns. The newest stay in a window of about `window_tokens` (half of
    `max_tokens` unless given), which `prune_strategy` keeps; what leaves it is archived and comes back by `context`
    and `recall`. Opened again, a memory goes on where it was.

    Any number of threads may use one, and any number of processes may each open the same: they see one window, and what
    one adds, prunes or forgets, the others find so with their next call. Only the scratchpad is each one's own: what is
    kept is that of whoever wrote it last. A large memory's index belongs to one of them at a time; the others search
    exactly, and cannot forget. A forked child must open the memory itself.

    `embedder`, `store` and `summarizer` are adapters or their names (see `tinymem.registry`). A memory remembers its
    embedder's name and opens with it when none is given; a new one with "static". While the embedder fails, `context`
    and `recall` go on with words alone, say so, and the steps that wait are embedded once it works. `counter` is a
    TokenCounter, or the name of a tiktoken encoding or of a model (`"gpt-4o"`). `shares` say how much of a context each
    part gets. With `create=False` the memory must be there. With a `retention`, what is over its limits is forgotten
    when the memory is opened, and after every 1,000 steps or more; `retain` says what goes.

    `step_callbacks` (a list, or by type of step) are called with each step added, `on_prune` with what left the window,
    `on_archive` with steps now in the archive only, `on_recall` with what came back. What they raise is logged.

    `redact` is applied to every text before anything of it is written (see `tinymem.steps.redaction`), and to the
    `session` and `speaker` that are asked for; it must give the same for the same text. What it raises refuses the add.

    Messages are kept as they came, and contexts hold what OpenAI's API accepts of them; a provider that wants more back
    is named its keys by `extra_keys` (see `tinymem.messages.repair`).

    >>> import tempfile
    >>> with HierarchicalMemory(tempfile.mkdtemp(), max_tokens=2_000) as memory:
    ...     step = memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])[0]
    ...     "10.0.0.7" in memory.recall("Where is staging?", max_tokens=100).text
    True

    Raises NotAMemoryError for a path that holds something else, EmbedderMismatchError for another embedder than
    it was written with, StorageError for a folder that cannot be written.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        namespace: str = "default",
        max_tokens: int = 8_000,
        window_tokens: int | None = None,
        prune_strategy: Prunes | None = None,
        system_prompt: Content | None = None,
        embedder: str | Embedder | Embeds | None = None,
        store: str | VectorStore = "chroma",
        counter: TokenCounter | str | None = None,
        summarizer: str | Summarizer | Summarizes = "extractive",
        shares: Shares = Shares(),  # noqa: B008 (it is frozen)
        on_prune: Callable[[PruneReport], object] | None = None,
        on_archive: Callable[[Sequence[Step]], object] | None = None,
        on_recall: Callable[[Recall], object] | None = None,
        step_callbacks: StepCallbacks | None = None,
        retention: Retention | None = None,
        redact: Redact | None = None,
        extra_keys: Collection[str] = (),
        create: bool = True,
    ) -> None:
        self.max_tokens = some_tokens("max_tokens", max_tokens)
        self.window_tokens = some_tokens(
            "window_tokens", max_tokens // 2 or 1 if window_tokens is None else window_tokens
        )
        self.namespace, self.shares = namespace, an_object("shares", shares, Shares)
        self._retention = an_object("retention", retention, Retention, or_none=True)
        self._counter = counter_from(counter)
        keys = some_texts("extra_keys", extra_keys)
        self._sending = {style: Sending(self._counter, style, keys) for style in STYLES}
        self._redact = redact_from(redact)
        if prune_strategy is not None:
            a_strategy("prune_strategy", prune_strategy)
        strategy = prune_strategy or default_strategy(self.window_tokens, self._counter)
        prompt = None if system_prompt is None else SystemPromptStep(checked(system_prompt, "system_prompt") or "")
        embedder = None if embedder is None else embedder_from(embedder)
        store, summarizer = known_store(store), summarizer_from(summarizer)
        where = None if path is None else f"{path} {namespace}"
        self._callbacks = Callbacks(on_prune, on_archive, on_recall, step_callbacks, where=where)
        self._closed, self._is_private = False, path is None
        self._remove_folder: Callable[[], object] | None = None
        if path is None:
            path, self._remove_folder = private_folder(self)
        self.path = a_path("path", path)
        with undone_on_failure(self.path, namespace, self._remove_folder):
            folder = namespace_folder(self.path, namespace, create)
            self._store_name = store if isinstance(store, str) else store.name
            self.long_term = Archive(
                folder,
                embedder,
                lambda: store_from(store, folder / "index"),
                self._counter,
                create=create,
            )
            self._search = Search(self.long_term)
            self.medium_term = Episodes(self.long_term, summarizer)
            try:
                check_name(self.long_term.journal, namespace)
                strategy = always_pruned(strategy, self.window_tokens, self._counter, folder)
                self.short_term = DurableWindow(self.long_term, strategy, self._callbacks, self._redact)
                self._lock = self.short_term.lock
                self._scratchpad = KeptScratchpad(self.long_term, self.archive, self._redact)
                if prompt is not None:
                    self.short_term.begin_with(prompt)
                self._settle(0)
            except BaseException:
                self.long_term.journal.close()
                raise

    # -- in -----------------------------------------------------------------------------------------------------------

    def add(self, step: Step) -> Step:
        """Add one step; when this returns it is on disk. The copy that is held, with its number, comes back.

        Raises InputError for what is no step or is in the memory already, and MessageError for a tool result whose
        call is not open; the memory is then as it was.
        """
        return self.add_steps([step])[0]

    @traced("create_memory")
    def add_steps(self, steps: Sequence[Step]) -> list[Step]:
        """Add steps in one transaction: all of them, or none when one is refused."""
        self._check_open()
        with self.short_term.adding(steps) as added:
            self._settle(len(added))
            return added

    @traced("create_memory")
    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        session: str | None = None,
        timestamp: Time | None = None,
        on_conflict: OnConflict = "add",
    ) -> list[Step]:
        """Add OpenAI chat messages as steps: all of them, or none when one is malformed (MessageError says which).

        Blocks that this memory recalled earlier are left out, so a prompt can be added back as it was sent. With
        `on_conflict="skip"` the messages are the whole history of the session, and only what is new in it is added:
        what stands behind the last message that was added before; from where it differs on, if it was changed since.
        The steps that were added come back.

        >>> import tempfile
        >>> history = [{"role": "user", "content": "The staging server is at 10.0.0.7."}]
        >>> with HierarchicalMemory(tempfile.mkdtemp()) as memory:
        ...     [len(memory.add_messages(history, session="s1", on_conflict="skip")) for _ in range(2)]
        [1, 0]
        """
        with self._lock:
            self._check_open()
            key = self.long_term.key
            own = {
                at: message for at, message in enumerate(some("messages", messages)) if not is_own_message(message, key)
            }
            try:
                added = self.short_term.add_messages(
                    own.values(), session=session, timestamp=timestamp, on_conflict=on_conflict
                )
                self._settle(len(added))
                return added
            except MessageError as error:
                if error.index is None or [*own][error.index] == error.index:
                    raise
                raise MessageError(str(error).partition(": ")[2], [*own][error.index]) from error

    def add_message(self, role: str, content: Content | None, **more: Any) -> Step:
        """Add one chat message, and get its step; see `MemoryManager.add_message` for the arguments and errors.

        >>> with HierarchicalMemory() as memory:
        ...     memory.add_message("user", "Which port is it?", speaker="Ann")
        <MessageStep #1: Which port is it?>
        """
        with self._lock:
            self._check_open()
            step = self.short_term.add_message(role, content, **more)
            self._settle(1)
            return step

    @traced("create_memory")
    def archive(self, steps: Sequence[Step]) -> list[Step]:
        """Add steps that are recalled but never stand in the window, as a finished task's history: all, or none.

        Raises as `add_steps` does; a tool result must come with its call.
        """
        with self._lock:
            self._check_open()
            added = self.short_term.archive(some_steps("steps", steps))
            self._settle(len(added))
            return added

    @property
    def scratchpad(self) -> AgentMemory:
        """The agent's scratchpad. It has a part of every context, and is kept over a restart: what cannot be is named.
        Of more than 100 observations, or failed approaches, the oldest go to the archive.

        `forget` concerns steps; what is noted here goes by `scratchpad.clear()`.
        """
        return self._scratchpad.memory

    def _settle(self, added: int) -> None:
        """Embed, index and summarise what left the window, once enough has come together; then apply the retention."""
        try:
            if self.short_term.unsettled:
                self.short_term.unsettled = False
                self.long_term.settle()
                self.medium_term.settle()
        except TinymemError as error:  # the steps are safe; the next add and recall try again, and recall raises
            warn_hourly(logger, self.long_term.folder, "archiving is behind: %s", error)
        self._keep_within_limits(added)

    def as_kept(self, step: StepT) -> StepT:
        """`step` as it is written down: what `redact` leaves of it."""
        return self.short_term.as_kept(step)

    # -- out ----------------------------------------------------------------------------------------------------------

    @traced("search_memory")
    def context(
        self,
        query: str | None = None,
        *,
        max_tokens: int | None = None,
        now: Time | None = None,
        style: Style = "auto",
    ) -> Context:
        """The messages to send, of at most `max_tokens` (the memory's own unless given), valid for the chat APIs.

        System prompt, current task and pinned steps are always in, then summaries of earlier episodes, the window's
        newest groups, the scratchpad, and what of the rest bears on `query` (unless given, the current task and the
        newest steps) in one block before the newest group. `now` is when it is asked. Raises BudgetError when the first
        three alone do not fit.
        """
        one_of("style", style, *STYLES)
        with self._lock:
            self._check_open()
            self.short_term.catch_up()
            steps = self.short_term.steps
            asked = default_query(steps) if query is None else a_text("query", query)
            when = an_aware_time("now", now) or utc_now()

            def recall(tokens: int, shown: Collection[int]) -> Recall:
                return self._search.recall(asked, tokens, when, hidden=shown)

            context = assemble(
                steps,
                self.short_term.positions,
                some_tokens("max_tokens", self.max_tokens if max_tokens is None else max_tokens),
                self._sending[style],
                recall,
                self.shares,
                complete=not self.long_term.journal.any_archived(),
                shortened=self.short_term.shortened,
                episodes=episodes_block(self.medium_term, self.long_term),
                scratchpad=scratchpad_block(self.scratchpad, self.long_term),
            )
            self._callbacks.recalled(context.recalled)
            return context

    @traced("search_memory")
    def recall(
        self,
        query: str,
        max_tokens: int = 1_000,
        *,
        now: Time | None = None,
        since: Time | None = None,
        until: Time | None = None,
        session: str | None = None,
        speaker: str | None = None,
        tool: str | None = None,
        type: str | None = None,
        diversity: float = DIVERSITY,
    ) -> Recall:
        """What bears on `query`, in at most `max_tokens`, from every step of the namespace, in the window or not.

        `now` is when it is asked, and what dates in the query are reckoned from. Exact filters: `since`, `until`
        (aware), `session`, `speaker`, `tool` (the name of one that a step calls) and `type` (of step, as in
        `"action"`). With more `diversity`, less of what repeats something better comes back: of two passages the worse
        is left out where their wordings resemble each other by 1 - `diversity` or more (Jaccard index); 0 keeps all.
        """
        with self._lock:
            self._check_open()
            only = self._filter(since, until, session, speaker, tool, type)
            when = an_aware_time("now", now) or utc_now()
            budget = some_tokens("max_tokens", max_tokens)
            found = self._search.recall(a_text("query", query), budget, when, only=only, diversity=diversity)
            self._callbacks.recalled(found)
            return found

    def explain(self, query: str, max_tokens: int = 1_000, *, now: Time | None = None) -> Explanation:
        """What `recall` brings back for the same arguments, and why: tokens, scores and what features add to them, and
        the next best passages with the reason why they stay away. Print it; through rich it has colours.

        >>> import tempfile
        >>> with HierarchicalMemory(tempfile.mkdtemp()) as memory:
        ...     step = memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])[0]
        ...     memory.explain("Where is staging?").recalled.items[0].step == step
        True
        """
        with self._lock:
            self._check_open()
            when, budget = an_aware_time("now", now) or utc_now(), some_tokens("max_tokens", max_tokens)
            return self._search.explain(a_text("query", query), budget, when)

    def close(self) -> None:
        """Embed what is left, and release all files. Closing twice is no error; a forked child leaves it to its
        parent."""
        if self._lock.inherited:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                try:
                    self._scratchpad.keep()
                finally:
                    self.long_term.close()
                    if self._remove_folder is not None:
                        self._remove_folder()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the memory at {self.path} is closed: open it again")

    def __enter__(self) -> HierarchicalMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        place = "in this process" if self._is_private else f"{self.path} namespace={self.namespace!r}"
        held = " closed" if self._closed else f": {many(len(self), 'step')} in the window"
        return f"<HierarchicalMemory {place}{held}>"
