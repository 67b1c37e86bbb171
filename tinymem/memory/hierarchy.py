"""HierarchicalMemory: steps in, and prompts with what is recalled of them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tinymem.archive.stats import Stats, stats_of
from tinymem.memory.context.context import Context
from tinymem.memory.context.fitting import facts_about
from tinymem.memory.filters import HistoryLimits, NamespaceLimits
from tinymem.memory.reading import render_step
from tinymem.memory.scratchpad import AgentMemory
from tinymem.memory.tools import MemoryTool, memory_tools
from tinymem.memory.writing import WritableMemory
from tinymem.messages.tokens import count_tokens
from tinymem.recall import Explanation, Recall
from tinymem.recall.search import NEXT_BEST
from tinymem.recall.selection.diversity import DIVERSITY
from tinymem.steps.checks import (
    Time,
    check_choice,
    check_instance,
    check_non_negative_int,
    check_number,
    check_numbers,
    check_str,
    check_token_budget,
    to_utc,
)
from tinymem.steps.ids import utc_now
from tinymem.steps.step import STYLES, Message, Step, Style

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["HierarchicalMemory"]


class HierarchicalMemory(WritableMemory):
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
        summarizer: A summarizer or its name; a model is asked only where `shares` give episodes some.
        create: Make the memory if it is not there.
        **options: `changes`, `shares`, `callbacks`, `retention`, `redact`, `extra_keys` and `cache`: see
            `tinymem.memory.MemoryOptions`.

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

    # -- the window ---------------------------------------------------------------------------------------------------

    def to_messages(self, summary_mode: bool = False, style: Style = "auto") -> list[Message]:
        """Render the window as chat messages, of all sessions and whatever their tokens; `context` shows one."""
        with self._lock.while_open():
            self.short_term.catch_up()
            return self.short_term.to_messages(summary_mode, style)

    @property
    def tokens(self) -> int:
        """The tokens of `to_messages()`, counted by the memory's own counter."""
        return count_tokens(self.to_messages(), self.long_term.counter)

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
        if k is not None:
            check_non_negative_int("k", k, 1)
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
