"""Contexts: the prompts that a memory builds, from its own window or from a history that its caller keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.episodes import Episodes
from tinymem.archive.rows import has_archived
from tinymem.errors import BudgetError
from tinymem.memory.context.assembly import Blocks
from tinymem.memory.context.context import Block, Context, Shares
from tinymem.memory.context.corrected import with_corrections
from tinymem.memory.context.history import History
from tinymem.memory.context.prompts import Key, Prompts
from tinymem.memory.context.questions import Questions
from tinymem.memory.context.recaller import FENCE, Recaller
from tinymem.memory.context.sessions import session_steps
from tinymem.memory.context.window import RenderedWindow, positions_of, window_of
from tinymem.memory.scratchpad import AgentMemory
from tinymem.recall.render import fenced, quoted
from tinymem.recall.search import Search
from tinymem.steps.step import STYLES, Style
from tinymem.steps.types import ScratchpadStep
from tinymem.stores.filter import Filter
from tinymem.window.sending import MessageRenderer

__all__ = ["Contexts", "episodes_block"]

WHOLE = 0.85  # share of a context up to which a history is shown whole; the rest is for recall


class Contexts:
    """Builds contexts of the window, the episodes, the scratchpad and what a search finds.

    Args:
        window: The window of the memory.
        episodes: Its episodes.
        archive: Its archive.
        scratchpad: Its scratchpad.
        search: Finds what bears on a query.
        extra_keys: Keys of messages that the provider wants back.
        while_open: Holds the lock of a memory that is open.
        prompts: The last prompts of its sessions.
    """

    def __init__(
        self,
        window: DurableWindow,
        episodes: Episodes,
        archive: Archive,
        scratchpad: AgentMemory,
        search: Search,
        extra_keys: Sequence[str],
        while_open: Callable[[], AbstractContextManager[None]],
        prompts: Prompts,
    ) -> None:
        self._window, self._archive, self._while_open = window, archive, while_open
        self._search, self.prompts = search, prompts
        self._sending = {style: MessageRenderer(archive.counter, style, extra_keys) for style in STYLES}
        self._episodes = partial(episodes_block, episodes, archive)
        self._scratchpad = partial(scratchpad_block, scratchpad, archive)

    def of_window(
        self, query: str | None, budget: int, when: datetime, style: Style, shares: Shares, session: str | None = None
    ) -> Context:
        """Build the context of a session's window, the episodes and the scratchpad; of a given one, it goes on."""
        with self._while_open():
            self._window.catch_up()
            steps, has_others = session_steps(self._window.steps, self._archive, session)
            positions, shortened = {**self._window.positions}, {*self._window.shortened}
            whole = 0 if has_others or has_archived(self._archive.journal) else 1
        questions = Questions.of(steps) if query is None else Questions(query, "")
        recall = Recaller(self._search, self._archive, questions, when)
        sending = self._sending[style]
        window = window_of(steps, sending, positions_of(sending(steps)) if has_others else positions, shortened)
        blocks = Blocks(recall, self._episodes, self._scratchpad, query is not None)
        key = None if session is None else (session, style, "")
        return self._build(key, window, budget, blocks, shares, whole)

    def of_history(
        self,
        history: History,
        query: str | None,
        budget: int,
        when: datetime,
        style: Style,
        shares: Shares,
        only: Filter,
        without: Collection[int] = (),
    ) -> Context:
        """Build the context of a history; recalled are the steps that `only` lets through, but those `without`."""
        questions = history.questions() if query is None else Questions(query, "")
        recall = Recaller(self._search, self._archive, questions, when, only, without)
        window = history.window(budget, self._sending[style])
        blocks = Blocks(recall, scratchpad=self._scratchpad, is_asked=query is not None)
        key = history.session, style, window.sending.format or ""
        context = self._build(key, window, budget, blocks, shares, WHOLE)
        return replace(context, conversation=history.conversation)

    def _build(
        self, key: Key | None, window: RenderedWindow, budget: int, blocks: Blocks, shares: Shares, whole: float
    ) -> Context:
        """Build the context of a corrected window; of the plain one where that alone fits the budget."""
        corrected = with_corrections(window, self._archive, blocks.recall.only, blocks.recall.without)
        try:
            return self.prompts.follow(key, corrected, budget, blocks, shares, whole).context(corrected, budget)
        except BudgetError:
            if corrected is window:
                raise
            return self.prompts.follow(key, window, budget, blocks, shares, whole).context(window, budget)


def episodes_block(episodes: Episodes, archive: Archive, tokens: int) -> Block:
    """Make the block of episodes: the newest that fit and of which no step was corrected."""
    old = archive.corrections
    shown = []
    for episode in episodes.within(tokens - FENCE):
        if not any(episode.first <= number <= episode.last for number in old):
            shown.append(episode)
    while shown:
        body = "\n".join(map(str, shown))
        text = fenced("episodes", "summaries of earlier steps, by their numbers", body, archive.key)
        if archive.counter.count(text) <= tokens:
            return Block(text, [episodes.as_step(episode) for episode in shown])
        shown = shown[1:]
    return Block("")


def scratchpad_block(scratchpad: AgentMemory, archive: Archive, tokens: int) -> Block:
    """Make the block of the scratchpad."""
    room = tokens - FENCE
    while scratchpad and room > 0:
        body = quoted("", scratchpad.to_context(room))
        text = fenced("scratchpad", "of this agent", body, archive.key)
        needed = archive.counter.count(text)
        if not body or needed <= tokens:
            return Block(text, [ScratchpadStep(body)]) if body else Block("")
        room -= needed - tokens
    return Block("")
