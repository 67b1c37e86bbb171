"""Policies: ways to make the next prompt of what was said so far, each as an agent would use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeAlias

from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.tokens import count_message
from tinymem.protocols import TokenCounter
from tinymem.runs.replays.billing import Piece
from tinymem.runs.replays.needles import text_of
from tinymem.steps.step import Message, Step
from tinymem.window.manager import MemoryManager
from tinymem.window.semantic import semantic_pruning
from tinymem.window.sending import MessageRenderer, RenderedGroup
from tinymem.window.strategies import keep_last_n_steps, no_pruning, prune_old_observations, token_budget
from tinymem.window.strategy import Pruner
from tinymem.window.summarize import summarize_strategy

__all__ = ["MAKERS", "USUAL", "WHOLE", "OfWindow", "Policy", "Setting", "messages_of", "pieces_of"]

WHOLE = "whole history"
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


class OfWindow:
    """A window that a strategy prunes at every step, as a MemoryManager does."""

    def __init__(self, strategy: Pruner, counter: TokenCounter) -> None:
        self._window = MemoryManager(prune_strategy=strategy, auto_prune_at=0)
        self._render = MessageRenderer(counter, "tools")
        self._known: dict[int, tuple[RenderedGroup, list[Piece]]] = {}  # a group is held: another has another id

    def add(self, steps: Sequence[Step]) -> None:
        """Take what was said."""
        for step in steps:
            self._window.add(step)

    def prompt(self) -> list[Piece]:
        """Make the next prompt."""
        prompt: list[Piece] = []
        for group in self._render(self._window.steps):
            if id(group) not in self._known:
                self._known[id(group)] = group, pieces_of(group.messages, self._render.counter)
            prompt += self._known[id(group)][1]
        return prompt

    def close(self) -> None:
        """Release what it has."""


class OfMemory:
    """A HierarchicalMemory whose `context` is sent; or whose `fit`, of a history that its framework keeps.

    It leaves nothing behind; its index is exact, so that no process is started.
    """

    def __init__(self, setting: Setting, *, fits: bool, sessions: str | None = None) -> None:
        self._counter, self._fits, self._sessions = setting.counter, fits, sessions
        self._history: list[Message] = []
        self._memory = HierarchicalMemory(
            max_tokens=setting.budget,
            counter=setting.counter,
            embedder=setting.embedder,
            store="exact",
            cache=min(setting.cache, 1),
        )

    def add(self, steps: Sequence[Step]) -> None:
        """Take what was said."""
        # only the prompts of a session go on
        self._now, self._session = steps[-1].timestamp, steps[-1].session or "run"
        if self._fits:
            self._history += messages_of(steps)
        else:
            self._memory.add_steps(steps)

    def prompt(self) -> list[Piece]:
        """Make the next prompt."""
        options: Any = {"session": self._session, "now": self._now, "style": "tools"}
        if self._fits:
            context = self._memory.fit(self._history, sessions=self._sessions, **options)
        else:
            context = self._memory.context(**options)
        return pieces_of(context.messages, self._counter)

    def close(self) -> None:
        """Release what it has."""
        self._memory.close()


Policy: TypeAlias = OfWindow | OfMemory  # one agent's memory


def messages_of(steps: Sequence[Step]) -> list[Message]:
    """Return the messages of steps, with calls and results as such."""
    return [*chain.from_iterable(step.to_messages(style="tools") for step in steps)]


def pieces_of(messages: Sequence[Message], counter: TokenCounter) -> list[Piece]:
    """Return messages as parts of a prompt."""
    return [
        Piece(json.dumps(message, ensure_ascii=False, default=str), text_of(message), count_message(message, counter))
        for message in messages
    ]


def _within(strategy: Callable[..., Pruner], **options: Any) -> Callable[[Setting], Policy]:
    """Return the policy of a strategy that gets its budget in tokens."""
    return lambda setting: OfWindow(
        strategy(max_tokens=setting.budget, counter=setting.counter, style="tools", **options), setting.counter
    )


# By name. The first has no budget; the others get one in tokens, or the number of steps that it holds.
MAKERS: Mapping[str, Callable[[Setting], Policy]] = MappingProxyType({
    WHOLE: lambda s: OfWindow(no_pruning(), s.counter),
    "keep_last_n_steps": lambda s: OfWindow(keep_last_n_steps(s.steps), s.counter),
    "prune_old_observations": lambda s: OfWindow(prune_old_observations(s.steps, batch=JUMP), s.counter),
    "token_budget": _within(token_budget),
    "summarize_strategy": _within(summarize_strategy),
    "semantic_pruning": lambda s: _within(semantic_pruning, embedder=s.embedder)(s),
    "context": partial(OfMemory, fits=False),
    "fit": partial(OfMemory, fits=True),
    "fit without recall": partial(OfMemory, fits=True, sessions=NOBODY),
})  # fmt: skip
USUAL = [name for name in MAKERS if not name.startswith("fit")]
