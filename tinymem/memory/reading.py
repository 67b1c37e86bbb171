"""ReadingMemory: what comes out of a memory: contexts, recall, and the reasons."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from types import NoneType
from typing import Any

from tinymem.archive.archive import Archive
from tinymem.archive.callbacks import Callbacks
from tinymem.archive.durable_window import DurableWindow
from tinymem.errors import InputError, shown
from tinymem.memory.base import BaseMemory
from tinymem.memory.context.blocks import episodes_block, scratchpad_block
from tinymem.memory.context.context import Context, Shares, assemble, default_query
from tinymem.memory.context.fitting import Fitting, History, read_items, shortened_task, window_of
from tinymem.memory.filters import passes
from tinymem.memory.inspection.opening import opened
from tinymem.memory.scratchpad.scratchpad import AgentMemory
from tinymem.memory.tools import MemoryTool, memory_tools
from tinymem.memory.tracing import traced
from tinymem.recall import Explanation, Recall
from tinymem.recall.diversity import DIVERSITY
from tinymem.recall.fusion import Filter
from tinymem.recall.render import one_line
from tinymem.recall.search import Search
from tinymem.steps.checks import Time, a_number, a_text, an_aware_time, one_of, some_tokens, whole_number
from tinymem.steps.ids import utc_now
from tinymem.steps.step import STYLES, Style
from tinymem.window.manager import OnConflict
from tinymem.window.sending import Sending

__all__ = ["ReadingMemory"]

WHOLE = 0.85  # share of a context up to which a history is shown whole; the rest is for recall


class ReadingMemory(BaseMemory):
    """A memory that contexts are built from."""

    max_tokens: int
    shares: Shares
    _sending: dict[Style, Sending]
    _callbacks: Callbacks

    def _read_from(self, archive: Archive, window: DurableWindow) -> None:
        self._search, self._fitting = Search(archive, held=self._opened), Fitting(window, archive.key)

    @property
    def scratchpad(self) -> AgentMemory:
        """The agent's scratchpad, which is part of every context and survives a restart.

        Values that cannot be saved are named after a restart. Beyond 100 observations, or failed approaches, the oldest
        go to the archive. `forget` removes only steps; `scratchpad.clear()` empties the scratchpad.
        """
        return self._scratchpad.memory

    @traced("search_memory")
    def context(
        self,
        query: str | None = None,
        *,
        max_tokens: int | None = None,
        now: Time | None = None,
        style: Style = "auto",
    ) -> Context:
        """Build the messages to send, valid for the chat APIs and never over their budget.

        System prompt, current task and pinned steps are always in, then summaries of earlier episodes if `shares` gives
        them room, the window's newest groups, the scratchpad, and in one block before the newest group what of the rest
        bears on the query.

        Args:
            query: The current task and the newest steps unless given.
            max_tokens: The budget, the memory's own unless given.
            now: When it is asked.
            style: How steps are rendered; see `Step.to_messages`.

        Raises:
            BudgetError: What is always in is over the budget by itself.
        """
        one_of("style", style, *STYLES)
        with self._opened():
            self.short_term.catch_up()
            steps = self.short_term.steps
            positions, partial = {**self.short_term.positions}, {*self.short_term.shortened}
            whole = 0 if self.long_term.journal.any_archived() else 1
        asked = default_query(steps) if query is None else a_text("query", query)
        when = an_aware_time("now", now) or utc_now()

        def recall(tokens: int, shown: Collection[int]) -> Recall:
            return self._search.recall(asked, tokens, when, hidden=shown)

        context = assemble(
            steps,
            positions,
            some_tokens("max_tokens", self.max_tokens if max_tokens is None else max_tokens),
            self._sending[style],
            recall,
            self.shares,
            whole=whole,
            partial=partial,
            episodes=episodes_block(self.medium_term, self.long_term),
            scratchpad=scratchpad_block(self.scratchpad, self.long_term),
        )
        self._callbacks.recalled(context.recalled)
        return context

    @traced("search_memory")
    def fit(
        self,
        messages: Any,
        *,
        session: str,
        max_tokens: int | None = None,
        query: str | None = None,
        now: Time | None = None,
        format: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        sessions: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        speaker: str | None = None,
        tool: str | None = None,
        type: str | None = None,
        where: Mapping[str, Any] | None = None,
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
            format: `"openai"`, `"responses"` or `"anthropic"`; known by the shape of the messages unless given.
            metadata: Metadata of the steps that are archived.
            sessions: Recall only from this session; `"team/*"` means all that begin with `team/`.
            since: Recall only steps of this moment or later.
            until: Recall only steps of this moment or earlier.
            speaker: Recall only steps said by this speaker.
            tool: Recall only steps that call this tool.
            type: Recall only steps of this type.
            where: Recall only steps with these values in their metadata, as `{"user": "ann"}`.

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
        with self._opened():
            only = self._filter(
                since=since, until=until, sessions=sessions, speaker=speaker, tool=tool, type=type, where=where
            )
            budget = some_tokens("max_tokens", self.max_tokens if max_tokens is None else max_tokens)
            asked = None if query is None else a_text("query", query)
            about = self._about(session, now, metadata)
            listed, beside, read = read_items(messages, format, self.long_term.counter)
            history, added = self._fitting.take(listed, beside, *about)
            self._settle(added)
        try:
            context = self._fitted(history, asked, budget, about[1], only)
        finally:
            with self._lock:
                self._fitting.keep(history)
        self._callbacks.recalled(context.recalled)
        self._forgetting.finish()
        return replace(context, read=read)

    def _about(
        self, session: str, now: Time | None, metadata: Mapping[str, Any] | None
    ) -> tuple[str, datetime, Mapping[str, Any]]:
        """Check what stands beside the messages of a history."""
        if not isinstance(metadata, (Mapping, NoneType)):
            raise InputError(f"metadata must be a mapping, not {shown(metadata)}")
        named = (self._redact or str)(a_text("session", session))
        return named, an_aware_time("now", now) or utc_now(), metadata or {}

    def _fitted(self, history: History, asked: str | None, budget: int, when: datetime, only: Filter) -> Context:
        steps = window_of(history)
        wanted = default_query(steps) if asked is None else asked
        sending = history.sending = history.sending or self._sending["auto"].like(history.tokens_beside)
        steps, partial = shortened_task(steps, budget, sending.cost_of)

        def recall(tokens: int, shown: Collection[int]) -> Recall:
            return self._search.recall(wanted, tokens, when, hidden=shown, only=only)

        return assemble(
            steps,
            None,
            budget,
            sending,
            recall,
            self.shares,
            whole=WHOLE,
            partial=partial,
            scratchpad=scratchpad_block(self.scratchpad, self.long_term),
            given=history,
        )

    @traced("create_memory")
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
        """Archive what is new in a history that the caller keeps, as `fit` does, without a context.

        The last answer of a conversation is not handed to `fit` any more: call this with it.

        Args:
            messages: The whole history of the session, as for `fit`.
            session: The name of the conversation.
            now: When what is new was said.
            format: As for `fit`.
            metadata: Metadata of the steps that are archived.
            on_conflict: With `"add"`, the messages are not the whole history but come behind it, prompts too.

        Returns:
            How many steps are new.

        Raises:
            MessageError: A message is malformed; the error names its index. Nothing is archived then.

        >>> history = [{"role": "user", "content": "The staging server is at 10.0.0.7."}]
        >>> with HierarchicalMemory() as memory:
        ...     [memory.archive_messages(history, session="s1") for _ in range(2)]
        [1, 0]
        """
        with self._opened():
            one_of("on_conflict", on_conflict, "skip", "add")
            about = self._about(session, now, metadata)
            listed, beside, _ = read_items(messages, format, self.long_term.counter)
            if on_conflict == "add":
                added = self._fitting.add(listed, *about)
            else:
                history, added = self._fitting.take(listed, beside, *about)
                self._fitting.keep(history)
            self._settle(added)
        self._forgetting.finish()
        return added

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
        where: Mapping[str, Any] | None = None,
        ids: bool = False,
        diversity: float = DIVERSITY,
        k: int | None = None,
        min_relevance: float | None = None,
    ) -> Recall:
        """Return what bears on `query` from every step of the namespace, in the window or not.

        The budget is not filled at any price: where nothing fits a question well, what has nothing to do with it stays
        out. A question that names a rare identifier always brings back what holds it.

        Args:
            query: A question, a task, or a stretch of conversation.
            max_tokens: The most tokens of the block.
            now: When it is asked, and what dates in the query are reckoned from.
            since: Only steps of this moment or later.
            until: Only steps of this moment or earlier.
            session: Only steps of this session; `"team/*"` means all sessions that begin with `team/`.
            speaker: Only steps said by this speaker.
            tool: Only steps that call this tool.
            type: Only steps of this type, as in `"action"`.
            where: Only steps with these values in their metadata, as `{"user": "ann"}`.
            ids: Each excerpt begins with the number of its step (`#12`), by which `open` and `get` find it.
            diversity: With more of it, less of what repeats something better comes back: of two passages the worse is
                left out where their wordings resemble each other by 1 - `diversity` or more (Jaccard index); 0 keeps
                all.
            k: The most passages, the best ones; adjoining ones make one excerpt.
            min_relevance: The least `relevance` of a passage, 0 to 1; 0 leaves nothing out.

        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add_message("user", "The staging server is at 10.0.0.7.")
        ...     step = memory.add_message("user", "Lunch is at noon.")
        ...     [item.text for item in memory.recall("Where is the staging server?", k=1).items]
        ['The staging server is at 10.0.0.7.']
        """
        with self._opened():
            only = self._filter(
                since=since, until=until, session=session, speaker=speaker, tool=tool, type=type, where=where
            )
            when = an_aware_time("now", now) or utc_now()
            budget = some_tokens("max_tokens", max_tokens)
            if not isinstance(ids, bool):
                raise InputError(f"ids must be True or False, not {shown(ids)}")
            if k is not None and whole_number("k", k) < 1:
                raise InputError(f"k must be 1 or more, not {shown(k)}")
            least = None if min_relevance is None else a_number("min_relevance", min_relevance, 0, 1)
        limits: dict[str, Any] = {"diversity": diversity, "ids": ids, "k": k, "min_relevance": least}
        found = self._search.recall(a_text("query", query), budget, when, only=only, **limits)
        self._callbacks.recalled(found)
        return found

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
        budget, begin = some_tokens("max_tokens", max_tokens), whole_number("start", start)
        step = self.get(id)
        text = step.text
        if begin and begin >= len(text):
            raise InputError(f"start must be below {len(text)}, which is how many characters step {shown(id)} has")
        number = f"#{step.step_number}"
        return opened(
            text,
            begin,
            budget,
            head=f"[{number} {one_line(step.speaker or step.type)}, {step.timestamp:%Y-%m-%d %H:%M} UTC]",
            read_on=lambda end: f"open({number!r}, start={end})",
            key=self.long_term.key,
            counter=self.long_term.counter,
        )

    def tools(self, *, session: str | None = None, where: Mapping[str, Any] | None = None) -> list[MemoryTool]:
        """Return tools by which a model searches the memory: `search_memory` and `open_memory`.

        Each has a `schema` for the chat API, and a `call` that takes the arguments of the model's call; `acall` is the
        same for `await`. The answer is text, marked as data, and in words where the model made a mistake.

        Args:
            session: Only steps of this session; `"team/*"` means all sessions that begin with `team/`.
            where: Only steps with these values in their metadata, as `{"user": "ann"}`.

        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add_message("user", "The staging server is at 10.0.0.7.")
        ...     search, read = memory.tools()
        ...     "10.0.0.7" in search.call(query="Where is staging?"), "10.0.0.7" in read.call(id="#1")
        (True, True)
        """
        filters = {"session": session, "where": where}
        self._filter(**filters)
        return memory_tools(self, filters, lambda step: passes(step, self._filter(**filters)))

    def explain(self, query: str, max_tokens: int = 1_000, *, now: Time | None = None) -> Explanation:
        """Explain what `recall` brings back for the same arguments: tokens, scores and each feature's part in them.

        The next best passages follow, with the reason why each is left out. Print the result; rich shows it in colour.

        >>> import tempfile
        >>> with HierarchicalMemory(tempfile.mkdtemp()) as memory:
        ...     step = memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])[0]
        ...     memory.explain("Where is staging?").recalled.items[0].step == step
        True
        """
        with self._opened():
            when, budget = an_aware_time("now", now) or utc_now(), some_tokens("max_tokens", max_tokens)
        return self._search.explain(a_text("query", query), budget, when)
