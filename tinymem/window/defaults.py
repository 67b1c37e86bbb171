"""The default pruning of a HierarchicalMemory, and a guard that keeps adding possible when a strategy fails."""

from __future__ import annotations

import logging

from tinymem.embedders.resting import Backoff
from tinymem.errors import BudgetError, EmbedderError, describe_callable, warn_hourly
from tinymem.messages.conversion import groups
from tinymem.messages.tokens import PER_REPLY, Prices
from tinymem.steps.step import Step
from tinymem.window.outcome import steps_of
from tinymem.window.strategies import keep_last_n_steps
from tinymem.window.strategy import LOW_WATER, Pruner, PruneStrategy, in_order, low_mark, newest_within, with_request

__all__ = ["default_strategy", "with_fallback"]

logger = logging.getLogger(__name__)


def default_strategy(window_tokens: int, prices: Prices, where: object) -> PruneStrategy:
    """Make the strategy of the memory `where`: a `token_budget` in jumps, with the tokens of steps by `prices`.

    The newest group stays, however large, since the agent works on it. Where the steps that must stay are over the
    budget, they and the newest group stay, and `context` names the parts that are too large.
    """
    low_water = low_mark(None, "window_tokens", window_tokens, LOW_WATER)

    def within_window(steps: list[Step]) -> list[Step]:
        costs = prices(steps)
        if PER_REPLY + sum(costs.values()) <= window_tokens:
            return steps
        try:
            newest = newest_within(steps, costs, window_tokens, low_water, "current")
        except BudgetError as error:
            return _newest_group(steps, where, error)
        return in_order(steps, with_request(steps, [newest, groups(steps)[-1]]))

    return within_window


def with_fallback(strategy: Pruner | None, otherwise: PruneStrategy, where: object) -> Pruner:
    """Guard a user's `strategy` for the memory `where`, so that its window stays short when it fails.

    Where the steps that must stay are over its budget, they and the newest group stay. While its embedder fails (as
    that of `semantic_pruning` can), `otherwise`, the default strategy, takes over, as it does where none is given.
    """
    if strategy is None:
        return otherwise
    rest = Backoff()

    def pruned(steps: list[Step]) -> list[Step]:
        if rest.is_on:
            return otherwise(steps)
        try:
            with rest.trying():
                return steps_of(strategy(steps))
        except EmbedderError as error:
            warn_hourly(logger, where, "the window is pruned by tokens alone, since its embedder fails: %s", error)
            return otherwise(steps)
        except BudgetError as error:
            return _newest_group(steps, where, error)

    pruned.__qualname__ = describe_callable(strategy)  # the name in its log messages
    return pruned


def _newest_group(steps: list[Step], where: object, error: BudgetError) -> list[Step]:
    warn_hourly(logger, where, "the window cannot be kept within its tokens: %s", error)
    return keep_last_n_steps(1)(steps)
