"""Prompts: the last one of each session, from which the next one goes on, so that a provider's prompt cache holds.

A prompt only grows until it is over its budget: then it jumps, which is to say that it is built from scratch, in fewer
tokens. Prompts live in memory: after a restart a session's next one is built from scratch too.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

from tinymem.archive.archive import Archive
from tinymem.memory.context.assembly import Blocks, assemble, extend
from tinymem.memory.context.context import Shares
from tinymem.memory.context.prompt import Prompt
from tinymem.memory.context.recaller import FENCE
from tinymem.memory.context.window import RenderedWindow
from tinymem.protocols.settings import REWRITES
from tinymem.stores.filter import Filter
from tinymem.window.sending import tokens_of

__all__ = ["Key", "Prompts"]

Key: TypeAlias = tuple[str, str, str]  # of a prompt: its session, style and format
State: TypeAlias = tuple[str | None, Filter | None]  # under which it was made: the memory's rewrites, and the filter


class _Last(NamedTuple):
    """The last prompt of a session, and the state under which it was made."""

    prompt: Prompt
    state: State


AT_JUMPS = 0.4  # of the window's share in a prompt that has jumped: what comes behind it is mostly window
SPARE = 0.2  # share of it that recall may leave unused, before the window gets that too
MORE, MOST = 0.25, 1_200  # share of a budget, and tokens, that are recalled at most in a prompt that goes on
BEGUN = 0.4  # share of a budget that a prompt has after a jump, beside what is in anyway
REMEMBERED = 256  # prompts that are held


class Prompts:
    """The last prompts of a memory's sessions.

    Args:
        archive: The memory's archive.
        cache: The price of a token that a provider's cache serves, as a ratio to a fresh one.
    """

    def __init__(self, archive: Archive, cache: float) -> None:
        self._archive, self._cache = archive, cache
        self._last: OrderedDict[Key, _Last] = OrderedDict()

    def clear(self) -> None:
        """Let every session build its next prompt from scratch, after a change by hand or a forget."""
        self._last.clear()

    def follow(
        self, key: Key | None, window: RenderedWindow, budget: int, blocks: Blocks, shares: Shares, whole: float
    ) -> Prompt:
        """Return the next prompt: one that goes on from the last one of its session where that can be.

        It cannot where there is no session or nothing is cached, where steps were forgotten since, or where others may
        be recalled now.
        """
        if key is None or self._cache >= 1:
            return assemble(window, budget, budget, blocks, shares, whole)
        state = (self._archive.journal.setting(REWRITES), blocks.recall.only)
        last = self._last.pop(key, None)
        prompt = None
        if last and last.state == state:
            prompt = extend(last.prompt, window, budget, blocks, shares, min(MOST, int(MORE * budget)))
        if prompt is None:
            goal = self._goal(window, budget, whole, last)
            prompt = _begin(window, budget, goal, blocks, shares, whole)
        self._last[key] = _Last(prompt, state)
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        return prompt

    def _goal(self, window: RenderedWindow, budget: int, whole: float, last: _Last | None) -> int:
        """Return the tokens of a prompt after a jump, less than the budget, so that others can go on from it.

        The dearer a cached token is, the less it pays to leave room. What is in anyway is added. A window that has up
        to the share `whole` of the budget is sent whole, unless the `last` prompt was full.
        """
        groups = window.groups
        total = tokens_of(groups)
        newest = groups[-1].tokens if groups else 0
        must = newest + tokens_of(group for group in groups if group.first in window.fixed)
        # Of a tiny budget, the reply and a note need more than that share.
        goal = must + max(int(max(BEGUN, self._cache) * budget), FENCE)
        is_full = last is not None and last.prompt.tokens + newest > budget
        if 0 < total <= whole * budget and not is_full:
            goal = max(goal, int(total / whole) + FENCE)
        return min(budget, goal)


def _begin(window: RenderedWindow, budget: int, goal: int, blocks: Blocks, shares: Shares, whole: float) -> Prompt:
    """Return a prompt from which others can go on: the window has less of it, unless recall leaves that unused."""
    begin = partial(assemble, window, budget, goal, blocks, whole=whole, moves_in_jumps=False)
    less = replace(shares, window=AT_JUMPS * shares.window)
    prompt = begin(less)
    unused = (goal - prompt.tokens) / goal
    if unused > SPARE and len(prompt.groups) < len(window.groups):
        prompt = begin(replace(shares, window=min(less.window + unused, 1 - shares.episodes - shares.scratchpad)))
    return replace(prompt, stable=len(prompt.parts))
