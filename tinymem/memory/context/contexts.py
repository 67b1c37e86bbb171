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
from tinymem.errors import BudgetError
from tinymem.memory.context.assembly import LEAST_BLOCK, Blocks, assemble
from tinymem.memory.context.context import Block, Context, Shares
from tinymem.memory.context.corrected import with_corrections
from tinymem.memory.context.history import History
from tinymem.memory.context.prompts import Prompts
from tinymem.memory.context.questions import Questions
from tinymem.memory.context.sessions import Sessions
from tinymem.memory.context.window import RenderedWindow, positions_of, window_of
from tinymem.memory.scratchpad import AgentMemory
from tinymem.recall import Excerpt, Recall
from tinymem.recall.render import fenced, quoted
from tinymem.recall.results import block_of, in_order_of_time
from tinymem.recall.search import Search
from tinymem.steps.step import STYLES, Style
from tinymem.steps.types import ScratchpadStep
from tinymem.stores.filter import Filter
from tinymem.window.sending import MessageRenderer

__all__ = ["Contexts", "episodes_block"]


FENCE = 32  # tokens of a fence, about: what it really takes is counted
FIRST = 0.75  # share of what a new prompt recalls that the first of two questions has at most
WORTH = 0.02  # chance from which on a passage bears on what the window is about, where the prompt is to go on
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
        self._search, self._sessions = search, Sessions(window, archive)
        self.prompts = prompts
        self._sending = {style: MessageRenderer(archive.counter, style, extra_keys) for style in STYLES}
        self._episodes = partial(episodes_block, episodes, archive)
        self._scratchpad = partial(scratchpad_block, scratchpad, archive)

    def of_window(
        self, query: str | None, budget: int, when: datetime, style: Style, shares: Shares, session: str | None = None
    ) -> Context:
        """Build the context of a session's window, the episodes and the scratchpad; of a given one, it goes on."""
        with self._while_open():
            self._window.catch_up()
            steps, has_others = self._sessions.steps(session)
            positions, shortened = {**self._window.positions}, {*self._window.shortened}
            whole = 0 if has_others or self._archive.journal.any_archived() else 1
        recall = self._recall(Questions.of(steps) if query is None else Questions(query, ""), when, None)
        sending = self._sending[style]
        window = window_of(steps, sending, positions_of(sending(steps)) if has_others else positions, shortened)
        blocks = Blocks(recall, self._episodes, self._scratchpad, query is not None)

        def made(window: RenderedWindow) -> Context:
            if session is None or not self.prompts.goes_on:
                prompt = assemble(window, budget, blocks, shares, whole)
            else:
                prompt = self.prompts.follow((session, style, ""), window, budget, blocks, shares, whole)
            return prompt.context(window, budget)

        return _with_or_without(made, with_corrections(window, self._archive), window)

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
        recall = self._recall(questions, when, only, without)
        window = history.window(budget, self._sending[style])
        blocks = Blocks(recall, scratchpad=self._scratchpad, is_asked=query is not None)

        def made(window: RenderedWindow) -> Context:
            if self.prompts.goes_on:
                key = history.session, style, window.sending.format or ""
                prompt = self.prompts.follow(key, window, budget, blocks, shares, WHOLE, only)
            else:
                prompt = assemble(window, budget, blocks, shares, WHOLE)
            return prompt.context(window, budget)

        context = _with_or_without(made, with_corrections(window, self._archive, only, without), window)
        return replace(context, conversation=history.conversation)

    def _recall(
        self, questions: Questions, when: datetime, only: Filter | None, without: Collection[int] = ()
    ) -> Callable[[int, int, Collection[int], Sequence[Excerpt] | None], Recall]:
        """Return the search of a context, which gives nothing where that has nothing to do with its questions.

        What is asked comes first; a prompt that is not to go on has the rest of its room filled.
        """

        def recall(tokens: int, room: int, numbers: Collection[int], shown: Sequence[Excerpt] | None) -> Recall:
            hidden = {*numbers, *without} if without else numbers
            ask = partial(self._ask, when=when, hidden=hidden, only=only)
            is_new, known = shown is None, [*(shown or ())]
            found = Recall("", 0, ())
            if questions.asked:
                most = int(FIRST * tokens) if is_new and questions.about else tokens
                found = ask(questions.asked, most, least=None, shown=known)
            left = room - found.tokens
            if questions.about and left >= LEAST_BLOCK:
                least = None if is_new else WORTH
                more = ask(questions.about, left, least=least, shown=[*known, *found.items])
                found = self._united(found, more, room)
            return found

        return recall

    def _ask(
        self,
        question: str,
        left: int,
        *,
        least: float | None,
        shown: Sequence[Excerpt],
        when: datetime,
        hidden: Collection[int],
        only: Filter | None,
    ) -> Recall:
        """Return what bears on a question in `left` tokens: all with at `least` that chance to help."""
        found = self._search.recall(question, left, when, hidden=hidden, only=only, min_relevance=least, shown=shown)
        return found if found.is_relevant else replace(found, text="", tokens=0, items=())

    def _united(self, found: Recall, more: Recall, tokens: int) -> Recall:
        """Return what two searches found as one block, or what the first found where that has over `tokens`."""
        if not found.items or not more.items:
            return found if found.items else more
        items = in_order_of_time([*found.items, *more.items])
        text = block_of(items, self._archive.key)
        needed = self._archive.counter.count(text)
        return replace(found, text=text, tokens=needed, items=tuple(items)) if needed <= tokens else found


def _with_or_without(
    made: Callable[[RenderedWindow], Context], corrected: RenderedWindow, plain: RenderedWindow
) -> Context:
    """Make a context of a corrected window; of the plain one where that alone fits the budget."""
    try:
        return made(corrected)
    except BudgetError:
        if corrected is plain:
            raise
        return made(plain)


def episodes_block(episodes: Episodes, archive: Archive, tokens: int) -> Block:
    """Make the block of episodes: the whole history, what is old in outline."""
    old = archive.corrections
    shown = []
    for episode in episodes.within(tokens - FENCE):
        if not any(episode.first <= number <= episode.last for number in old):
            shown.append(episodes.current(episode))
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
