"""ContextMemory: the prompts that a memory builds, from its own window or from a history that its caller keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from types import NoneType
from typing import Any

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.errors import InputError, shown
from tinymem.memory.context.assembly import assemble
from tinymem.memory.context.blocks import episodes_block, scratchpad_block
from tinymem.memory.context.context import Context, Shares
from tinymem.memory.context.fitting import About, Fitting
from tinymem.memory.context.history import History
from tinymem.memory.context.window import window_of
from tinymem.memory.reading import ReadingMemory
from tinymem.memory.scratchpad.scratchpad import AgentMemory
from tinymem.memory.tracing import traced
from tinymem.recall import Recall
from tinymem.recall.fusion import Filter
from tinymem.recall.search import Search
from tinymem.steps.checks import Time, a_text, an_aware_time, one_of, some_tokens
from tinymem.steps.ids import utc_now
from tinymem.steps.step import STYLES, Style
from tinymem.window.manager import OnConflict
from tinymem.window.query import default_query
from tinymem.window.sending import Sending

__all__ = ["ContextMemory"]

WHOLE = 0.85  # share of a context up to which a history is shown whole; the rest is for recall


class ContextMemory(ReadingMemory):
    """A memory that contexts are built from."""

    shares: Shares
    _sending: dict[Style, Sending]

    def _read_from(self, archive: Archive, window: DurableWindow) -> None:
        self._search = Search(archive, held=self._opened)
        self._fitting = Fitting(window, archive.key, archive.counter)

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

        System prompt, current task, the newest request and pinned steps are always in, then summaries of earlier
        episodes if `shares` gives them room, the window's newest groups, the scratchpad, and in one block before the
        newest group what of the rest bears on the query. A request gets at most half of the budget once something was
        done for it: a longer one is shortened.

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
            return _relevant(self._search.recall(asked, tokens, when, hidden=shown))

        budget = some_tokens("max_tokens", self.max_tokens if max_tokens is None else max_tokens)
        context = assemble(
            window_of(steps, self._sending[style], positions, partial),
            budget,
            recall,
            self.shares,
            whole=whole,
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
        style: Style = "auto",
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
            style: How calls and their results are rendered; see `Step.to_messages`.
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
            one_of("style", style, *STYLES)
            about = self._about(session, now, metadata)
            history, added = self._fitting.take(messages, format, about)
            self._settle(added)
        try:
            context = self._fitted(history, asked, budget, self._sending[style], about.when, only)
        finally:
            with self._lock:
                self._fitting.keep(history)
        self._callbacks.recalled(context.recalled)
        self._forgetting.finish()
        return context

    def _about(self, session: str, now: Time | None, metadata: Mapping[str, Any] | None) -> About:
        """Check what stands beside the messages of a history."""
        if not isinstance(metadata, (Mapping, NoneType)):
            raise InputError(f"metadata must be a mapping, not {shown(metadata)}")
        named = (self._redact or str)(a_text("session", session))
        return About(named, an_aware_time("now", now) or utc_now(), metadata or {})

    def _fitted(
        self, history: History, asked: str | None, budget: int, sending: Sending, when: datetime, only: Filter
    ) -> Context:
        wanted = history.query() if asked is None else asked

        def recall(tokens: int, shown: Collection[int]) -> Recall:
            return _relevant(self._search.recall(wanted, tokens, when, hidden=shown, only=only))

        scratchpad = scratchpad_block(self.scratchpad, self.long_term)
        window = history.window(budget, sending)
        context = assemble(window, budget, recall, self.shares, whole=WHOLE, scratchpad=scratchpad)
        return replace(context, conversation=history.conversation)

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
            if on_conflict == "add":
                added = self._fitting.add(messages, format, about)
            else:
                history, added = self._fitting.take(messages, format, about)
                self._fitting.keep(history)
            self._settle(added)
        self._forgetting.finish()
        return added


def _relevant(found: Recall) -> Recall:
    """Return what was recalled; nothing where it has nothing to do with the question."""
    return found if found.is_relevant else replace(found, text="", tokens=0, items=())
