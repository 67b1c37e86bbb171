"""Contexts: the prompts that a memory builds, from its own window or from a history that its caller keeps.

The sessions of a memory share one window, and a strategy keeps that short. So that no session shows what was said in
another one, each has the steps of its own and those without a session. What others drove out of the window is recalled;
but a session always has its newest system prompt, task and request.

The last prompt of each session is held, so that the next one goes on from it and a provider's prompt cache holds: after
a restart a session's next one is built from scratch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.episodes import Episodes
from tinymem.archive.rows import CLEARED, has_archived
from tinymem.errors import BudgetError
from tinymem.memory.context.context import Block, Context, Shares
from tinymem.memory.context.history import History
from tinymem.memory.context.prompt import Prompt, PromptBuilder
from tinymem.memory.context.recaller import FENCE, Questions, Recaller
from tinymem.memory.context.window import positions_of, window_of, with_corrections
from tinymem.memory.scratchpad import AgentMemory
from tinymem.protocols.settings import REWRITES
from tinymem.recall.render import fenced, quoted
from tinymem.recall.search import Search
from tinymem.steps.standins import covered_ids, covers_of, is_from_user
from tinymem.steps.step import STYLES, Step, Style
from tinymem.steps.types import MessageStep, ScratchpadStep, SystemPromptStep, TaskStep
from tinymem.stores.filter import Filter
from tinymem.window.sending import MessageRenderer
from tinymem.window.window import steps_of_session

__all__ = ["Contexts", "episodes_block"]

WHOLE = 0.85  # share of a context up to which a history is shown whole; the rest is for recall
REMEMBERED = 256  # prompts that are held
LOOKED = 100  # messages of a session among which its newest request is looked for

Key: TypeAlias = tuple[str, str, str]  # of a prompt: its session, style and format


class _Last(NamedTuple):
    """The last prompt of a session, and what it was made under: the memory's rewrites, and the filter."""

    prompt: Prompt
    state: tuple[str | None, Filter | None]


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
        cache: The price of a token that a provider's cache serves, as a ratio to a fresh one.
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
        self._window, self._archive, self._while_open = window, archive, while_open
        self._search, self._cache = search, cache
        self._sending = {style: MessageRenderer(archive.counter, style, extra_keys) for style in STYLES}
        self._episodes = partial(episodes_block, episodes, archive)
        self._scratchpad = partial(scratchpad_block, scratchpad, archive)
        self._last: OrderedDict[Key, _Last] = OrderedDict()

    def begin_anew(self) -> None:
        """Let every session build its next prompt from scratch, after a change by hand or a forget."""
        self._last.clear()

    def of_window(
        self, query: str | None, budget: int, when: datetime, style: Style, shares: Shares, session: str | None = None
    ) -> Context:
        """Build the context of a session's window, the episodes and the scratchpad; of a given one, it goes on."""
        with self._while_open():
            self._window.catch_up()
            steps, has_others = session_steps(self._window.steps, self._archive, session)
            positions = {**self._window.positions}
            shortened = {*self._window.shortened}
            whole = 0 if has_others or has_archived(self._archive.journal) else 1
        questions = Questions.of(steps) if query is None else Questions(query, "")
        recall = Recaller(self._search, self._archive, questions, when)
        sending = self._sending[style]
        window = window_of(steps, sending, positions_of(sending(steps)) if has_others else positions, shortened)
        builder = PromptBuilder(
            window, budget, recall, shares, whole, query is not None, self._scratchpad, self._episodes
        )
        return self._build(None if session is None else (session, style, ""), builder)

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
        builder = PromptBuilder(window, budget, recall, shares, WHOLE, query is not None, self._scratchpad)
        context = self._build((history.session, style, window.sending.format or ""), builder)
        return replace(context, conversation=history.conversation)

    def _build(self, key: Key | None, builder: PromptBuilder) -> Context:
        """Build the context of a corrected window; of the plain one where that alone fits the budget."""
        plain, recall = builder.window, builder.recall
        corrected = replace(builder, window=with_corrections(plain, self._archive, recall.allows))
        try:
            return corrected.render(self._follow(key, corrected))
        except BudgetError:
            if corrected.window is plain:
                raise
            return builder.render(self._follow(key, builder))

    def _follow(self, key: Key | None, builder: PromptBuilder) -> Prompt:
        """Return the next prompt: one that goes on from the last one of its session where that can be.

        It cannot where there is no session or nothing is cached, where steps were forgotten since, or where others may
        be recalled now.
        """
        if key is None or self._cache >= 1:
            return builder.assemble(builder.budget)
        state = (self._archive.journal.setting(REWRITES), builder.recall.only)
        last = self._last.pop(key, None)
        prompt = builder.extend(last.prompt) if last and last.state == state else None
        if prompt is None:
            progress = partial(progress_block, self._archive, key[0], builder.recall.allows)
            prompt = builder.begin(self._cache, last and last.prompt, progress)
        self._last[key] = _Last(prompt, state)
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        return prompt


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


def progress_block(archive: Archive, session: str, allows: Callable[[Step], bool], tokens: int) -> Block:
    """Make the block of what a session did, of steps that a prompt `allows`, where the memory's tracker tells it."""
    tell = getattr(archive.tracking.tracker, "progress_of", None)
    return Block(tell(archive, session, tokens, allows=allows) if tell else "")


# -- sessions ----------------------------------------------------------------------------------------------------------


def session_steps(shown: Sequence[Step], archive: Archive, session: str | None) -> tuple[Sequence[Step], bool]:
    """Return what the prompt of a session shows of a window, and whether other sessions have steps there.

    Without a session it is that of the newest step that has one.
    """
    newest = (step.session for step in reversed(shown) if step.session is not None)
    name = next(newest, None) if session is None else session
    if name is None:
        return shown, False
    in_window = [step for step in steps_of_session(shown, name) if not _is_mixed(step, name, archive)]
    if len(in_window) == len(shown):
        return shown, False
    return sorted([*_driven_out(name, in_window, archive), *in_window], key=lambda step: step.step_number or 0), True


def _is_mixed(step: Step, session: str, archive: Archive) -> bool:
    """Return whether a step is a summary that tells of other sessions too."""
    ids = covers_of(step)
    if not ids:
        return False
    covered = [*archive.fetch([*archive.journal.numbers(ids).values()]).values()]
    return len(steps_of_session(covered, session)) < len(covered)


def _driven_out(session: str, in_window: Sequence[Step], archive: Archive) -> Iterator[Step]:
    """Yield a session's newest system prompt, task and request that left the window since it was cleared."""
    journal, covered = archive.journal, covered_ids(in_window)
    cleared = journal.setting(CLEARED) or ""
    begin = int(cleared) if cleared.isdecimal() else 1
    for kind in (SystemPromptStep, TaskStep, MessageStep):
        if not any(_is_wanted(step, kind) for step in in_window if step.session == session):
            rows = journal.rows(begin - 1, LOOKED, type=kind.type, session=session, newest=True)
            steps = (archive.load(row.record) for row in rows if row.id not in covered)
            yield from islice((step for step in steps if _is_wanted(step, kind)), 1)


def _is_wanted(step: Step, kind: type[Step]) -> bool:
    return isinstance(step, kind) and (kind is not MessageStep or is_from_user(step))
