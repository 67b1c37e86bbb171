"""The default pruning of a HierarchicalMemory, and a guard that keeps adding possible when a strategy fails."""

from __future__ import annotations

import logging

from tinymem.embedders.resting import Backoff
from tinymem.errors import BudgetError, EmbedderError, describe_callable, warn_hourly
from tinymem.messages.conversion import groups
from tinymem.protocols import TokenCounter
from tinymem.steps.step import Step
from tinymem.window.outcome import steps_of
from tinymem.window.strategies import PruneStrategy, keep_last_n_steps, token_budget
from tinymem.window.strategy import Pruner, with_request

__all__ = ["default_strategy", "with_fallback"]

logger = logging.getLogger(__name__)


def default_strategy(window_tokens: int, counter: TokenCounter) -> PruneStrategy:
    """Make a `token_budget` in jumps; the newest group stays, however large, since the agent works on it."""
    within = token_budget(window_tokens, counter=counter, tasks="current")

    def pruned(steps: list[Step]) -> list[Step]:
        after = within(steps)
        if len(after) == len(steps):
            return after
        kept = {step.id for group in with_request(steps, [after, groups(steps)[-1]]) for step in group}
        return [step for step in steps if step.id in kept]

    return pruned


def with_fallback(strategy: Pruner, window_tokens: int, counter: TokenCounter, where: object) -> Pruner:
    """Guard `strategy` for the memory `where`, so that adding goes on when it fails.

    Where the steps that must stay are over the budget, critical steps and the newest group stay, and `context` names
    the parts that are too large. While its embedder fails (as that of `semantic_pruning` can), the default strategy
    takes over.
    """
    otherwise, rest = default_strategy(window_tokens, counter), Backoff()

    def pruned(steps: list[Step]) -> list[Step]:
        try:
            if rest.is_on:
                return otherwise(steps)
            try:
                with rest.trying():
                    return steps_of(strategy(steps))
            except EmbedderError as error:
                warn_hourly(logger, where, "the window is pruned by tokens alone, since its embedder fails: %s", error)
                return otherwise(steps)
        except BudgetError as error:
            warn_hourly(logger, where, "the window cannot be kept within its tokens: %s", error)
            return keep_last_n_steps(1)(steps)

    pruned.__qualname__ = describe_callable(strategy)  # the name in its log messages
    return pruned
