"""Policies: ways to make the next prompt of what was said so far, each as an agent would use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.tokens import count_message
from tinymem.protocols import TokenCounter
from tinymem.runs.billing import Piece
from tinymem.runs.needles import text_of
from tinymem.steps.step import Message, Step
from tinymem.window.manager import MemoryManager
from tinymem.window.semantic import semantic_pruning
from tinymem.window.sending import MessageRenderer, RenderedGroup
from tinymem.window.strategies import keep_last_n_steps, no_pruning, prune_old_observations, token_budget
from tinymem.window.strategy import Pruner
from tinymem.window.summarize import summarize_strategy

__all__ = ["COMPACTED", "MAKERS", "WHOLE", "AsCompacted", "Policy", "Setting", "of_strategy"]

WHOLE = "whole history"
COMPACTED = "as it was compacted"  # only of a run that was
JUMP = 20  # outputs that are masked at once
NOBODY = "(nobody)"  # a session that nothing was said in


@dataclass(frozen=True)
class Setting:
    """The setting of a policy: its budget in tokens, the mean length of a step, and the price of a cached token."""

    budget: int
    mean: float
    counter: TokenCounter
    embedder: str
    cache: float = 0.1

    @property
    def steps(self) -> int:
        """The steps that the budget holds, about."""
        return max(1, int(self.budget / self.mean))


class Policy(Protocol):
    """One agent's memory."""

    def add(self, steps: Sequence[Step]) -> None:
        """Take what was said."""

    def prompt(self) -> list[Piece]:
        """Make the next prompt."""

    def close(self) -> None:
        """Release what it has."""


class OfWindow:
    """A window that a strategy prunes at every step, as a MemoryManager does."""

    def __init__(self, strategy: Pruner, counter: TokenCounter) -> None:
        self._window = MemoryManager(prune_strategy=strategy, auto_prune_at=0)
        self._render = MessageRenderer(counter, "tools")
        self._known: dict[int, tuple[RenderedGroup, list[Piece]]] = {}

    def add(self, steps: Sequence[Step]) -> None:
        """Take what was said."""
        for step in steps:
            self._window.add(step)

    def prompt(self) -> list[Piece]:
        """Make the next prompt."""
        groups = self._render(self._window.steps)
        self._known = {id(one): self._known.get(id(one)) or (one, self._pieces(one)) for one in groups}
        return [piece for one in groups for piece in self._known[id(one)][1]]

    def _pieces(self, group: RenderedGroup) -> list[Piece]:
        return [piece_of(message, self._render.counter) for message in group.messages]

    def close(self) -> None:
        """Release what it has."""


class AsCompacted:
    """The history as the agent's program sent it: all of it until the program put a summary in its place."""

    def __init__(self, setting: Setting) -> None:
        self._counter = setting.counter
        self._pieces: list[Piece] = []

    def add(self, steps: Sequence[Step]) -> None:
        """Take what was said."""
        self._pieces += [piece_of(one, self._counter) for step in steps for one in step.to_messages(style="tools")]

    def prompt(self) -> list[Piece]:
        """Make the next prompt."""
        return [*self._pieces]

    def compact(self, summary: str) -> None:
        """Put a summary in the place of all that was said."""
        self._pieces = [piece_of({"role": "user", "content": summary}, self._counter)]

    def close(self) -> None:
        """Release what it has."""


class OfContexts:
    """A HierarchicalMemory whose `context` is sent."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._memory = _memory(setting)

    def add(self, steps: Sequence[Step]) -> None:
        """Take what was said."""
        self._now = steps[-1].timestamp
        self._memory.add_steps(steps)

    def prompt(self) -> list[Piece]:
        """Make the next prompt."""
        context = self._memory.context(session="run", now=self._now, style="tools")
        return [piece_of(message, self._setting.counter) for message in context.messages]

    def close(self) -> None:
        """Release what it has."""
        self._memory.close()


class OfFits:
    """A history that its framework keeps, of which `fit` sends what fits, with what it recalls or without."""

    def __init__(self, setting: Setting, *, recalls: bool) -> None:
        self._setting, self._recalls = setting, recalls
        self._memory = _memory(setting)
        self._history: list[Message] = []

    def add(self, steps: Sequence[Step]) -> None:
        """Take what was said."""
        self._now = steps[-1].timestamp
        self._history += [message for step in steps for message in step.to_messages(style="tools")]

    def prompt(self) -> list[Piece]:
        """Make the next prompt."""
        sessions = None if self._recalls else NOBODY
        context = self._memory.fit(self._history, session="run", now=self._now, sessions=sessions, style="tools")
        return [piece_of(message, self._setting.counter) for message in context.messages]

    def close(self) -> None:
        """Release what it has."""
        self._memory.close()


def _memory(setting: Setting) -> HierarchicalMemory:
    """Make a memory that leaves nothing behind; its index is exact, so that no process is started."""
    cache = min(setting.cache, 1)
    return HierarchicalMemory(
        max_tokens=setting.budget, counter=setting.counter, embedder=setting.embedder, store="exact", cache=cache
    )


def piece_of(message: Message, counter: TokenCounter) -> Piece:
    """Return a message as a part of a prompt."""
    form = json.dumps(message, ensure_ascii=False, default=str)
    return Piece(form, text_of(message), count_message(message, counter))


def of_strategy(strategy: Pruner) -> Callable[[Setting], Policy]:
    """Return the policy of a strategy."""
    return lambda setting: OfWindow(strategy, setting.counter)


# By name. The first two have no budget; the others get one in tokens, or the number of steps that it holds.
MAKERS: Mapping[str, Callable[[Setting], Policy]] = MappingProxyType({
    WHOLE: of_strategy(no_pruning()),
    COMPACTED: AsCompacted,
    "keep_last_n_steps": lambda s: OfWindow(keep_last_n_steps(s.steps), s.counter),
    "prune_old_observations": lambda s: OfWindow(prune_old_observations(s.steps), s.counter),
    "prune_old_observations, in jumps": lambda s: OfWindow(prune_old_observations(s.steps, batch=JUMP), s.counter),
    "token_budget": lambda s: OfWindow(token_budget(s.budget, counter=s.counter, style="tools"), s.counter),
    "token_budget, at every call": lambda s: OfWindow(
        token_budget(s.budget, low_water=s.budget, counter=s.counter, style="tools"), s.counter
    ),
    "summarize_strategy": lambda s: OfWindow(
        summarize_strategy(max_tokens=s.budget, counter=s.counter, style="tools"), s.counter
    ),
    "semantic_pruning": lambda s: OfWindow(
        semantic_pruning(s.embedder, s.budget, counter=s.counter, style="tools"), s.counter
    ),
    "context": OfContexts,
    "fit": lambda s: OfFits(s, recalls=True),
    "fit without recall": lambda s: OfFits(s, recalls=False),
})  # fmt: skip
