"""Contexts: the prompts that a memory builds, from its own window or from a history that its caller keeps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import sqrt
from typing import TypeAlias

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.episodes import Episodes
from tinymem.memory.context.assembly import Blocks, Prompt, assemble, extend
from tinymem.memory.context.context import Block, Context, Shares
from tinymem.memory.context.history import History
from tinymem.memory.context.window import Window, window_of
from tinymem.memory.scratchpad import AgentMemory
from tinymem.recall import Excerpt, Recall
from tinymem.recall.render import fenced
from tinymem.recall.search import Search
from tinymem.steps.step import STYLES, Style
from tinymem.steps.types import ScratchpadStep
from tinymem.stores.filter import Filter
from tinymem.window.semantic import default_query
from tinymem.window.sending import MessageRenderer

__all__ = ["Contexts", "episodes_block"]

Key: TypeAlias = tuple[str, str, str]  # of a prompt: its session, style and format

FENCE = 32  # tokens of a fence, about: what it really takes is counted
MORE = 0.05  # share of a budget that is recalled at most in a prompt that goes on
RELEVANT = 0.2  # the least relevance of a passage then
WRITTEN = 1.25  # what a token costs that is written to a provider's cache
LEAST_CACHE = 0.01
LOWEST, HIGHEST = 0.2, 0.8  # shares of a budget that a prompt has which is made anew
REMEMBERED = 256  # prompts that are held
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
        cache: What a token costs that a provider's cache serves, as a ratio to a fresh one.
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
        cache: float,
    ) -> None:
        self._window, self._archive, self._search, self._while_open = window, archive, search, while_open
        self._cache, self._prompts = cache, OrderedDict[Key, tuple[Prompt | None, str | None]]()
        self._sending = {style: MessageRenderer(archive.counter, style, extra_keys) for style in STYLES}
        self._episodes = partial(episodes_block, episodes, archive)
        self._scratchpad = partial(scratchpad_block, scratchpad, archive)

    def of_window(
        self, query: str | None, budget: int, when: datetime, style: Style, shares: Shares, session: str | None = None
    ) -> Context:
        """Build the context of the memory's own window, episodes and scratchpad; of a `session`, it goes on."""
        with self._while_open():
            self._window.catch_up()
            steps = self._window.steps
            positions, partial = {**self._window.positions}, {*self._window.shortened}
            whole = 0 if self._archive.journal.any_archived() else 1
        recall = self._recall(default_query(steps) if query is None else query, when, None)
        window = window_of(steps, self._sending[style], positions, partial)
        blocks = Blocks(recall, self._episodes, self._scratchpad)
        key = None if session is None else (session, style, "")
        return self._next(key, window, budget, blocks, shares, whole).context(window, budget)

    def of_history(
        self,
        history: History,
        query: str | None,
        budget: int,
        when: datetime,
        style: Style,
        shares: Shares,
        only: Filter,
    ) -> Context:
        """Build the context of a history, with what is recalled of the steps that `only` lets through."""
        recall = self._recall(history.query() if query is None else query, when, only)
        window = history.window(budget, self._sending[style])
        key = history.session, style, window.sending.format or ""
        prompt = self._next(key, window, budget, Blocks(recall, scratchpad=self._scratchpad), shares, WHOLE)
        return replace(prompt.context(window, budget), conversation=history.conversation)

    def forget_prompts(self) -> None:
        """Let every session begin anew with its next prompt, since its window was changed by hand."""
        self._prompts.clear()

    def _next(
        self, key: Key | None, window: Window, budget: int, blocks: Blocks, shares: Shares, whole: float
    ) -> Prompt:
        """Return the next prompt: one that goes on from the last one of its session where that can be."""
        if key is None or self._cache >= 1:
            return assemble(window, budget, blocks, shares, whole)
        rewrites, prompt = self._archive.rewrites, None
        last, before = self._prompts.pop(key, (None, rewrites))
        if last is not None and before == rewrites:
            prompt = extend(last, window, budget, blocks, shares, int(MORE * budget))
        if prompt is None:
            goal = self._goal(window, budget, whole, is_first=last is None)
            prompt = assemble(window, goal, blocks, shares, whole, moves_in_jumps=False)
        self._prompts[key] = prompt, rewrites
        while len(self._prompts) > REMEMBERED:
            self._prompts.popitem(last=False)
        return prompt

    def _goal(self, window: Window, budget: int, whole: float, is_first: bool) -> int:
        """Return the tokens of a prompt that is made anew, less than the budget, so that others can go on from it.

        A jump takes out as much as pays for what it writes anew until the next one: with n tokens a group on average,
        (1 - low)^2 / low = (written - cached) n / (cached budget). What is in anyway is added, and a history that was
        not sent yet is sent whole where it fits.
        """
        groups = window.groups
        total = sum(one.tokens for one in groups)
        fixed = sum(one.tokens for one in groups if one.first in window.fixed)
        newest = groups[-1].tokens if groups else 0
        ratio = (WRITTEN - self._cache) * total / max(len(groups), 1) / (max(self._cache, LEAST_CACHE) * budget)
        low = min(max(1 + ratio / 2 - sqrt(ratio + ratio * ratio / 4), LOWEST), HIGHEST)
        goal = max(low * budget, fixed + newest + low * budget / 2)
        if is_first and total + MORE * budget <= (whole or 1) * budget:
            goal = max(goal, total + MORE * budget)
        return min(budget, int(goal))

    def _recall(
        self, query: str, when: datetime, only: Filter | None
    ) -> Callable[[int, Collection[int], Sequence[Excerpt] | None], Recall]:
        """Return the search of a context, which gives nothing where that has nothing to do with the query."""

        def recall(tokens: int, numbers: Collection[int], shown: Sequence[Excerpt] | None) -> Recall:
            least = None if shown is None else RELEVANT
            found = self._search.recall(
                query, tokens, when, hidden=numbers, only=only, min_relevance=least, shown=shown or ()
            )
            return found if found.is_relevant else replace(found, text="", tokens=0, items=())

        return recall


def episodes_block(episodes: Episodes, archive: Archive, tokens: int) -> Block:
    """Make the block of episodes: the whole history, what is old in outline."""
    shown = episodes.within(tokens - FENCE)
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
        body = scratchpad.to_context(room)
        text = fenced("scratchpad", "of this agent", body, archive.key)
        needed = archive.counter.count(text)
        if not body or needed <= tokens:
            return Block(text, [ScratchpadStep(body)]) if body else Block("")
        room -= needed - tokens
    return Block("")
