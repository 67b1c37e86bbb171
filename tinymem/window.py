"""How the window of a HierarchicalMemory is pruned: what always stays, so that adding and asking go on."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tinymem.base import Step
from tinymem.errors import BudgetError
from tinymem.messages import groups
from tinymem.protocols import TokenCounter
from tinymem.pruning import PruneStrategy, keep_last_n_steps, token_budget

__all__ = ["default_strategy", "or_the_newest"]

logger = logging.getLogger(__name__)

LOW_WATER = 2 / 3  # of the window's tokens, to which a pruning goes, so that its start moves in jumps


def default_strategy(window_tokens: int, counter: TokenCounter) -> PruneStrategy:
    """`token_budget` in jumps; the newest group stays, however large it is: it is what the agent works on."""
    within = token_budget(window_tokens, low_water=int(window_tokens * LOW_WATER), counter=counter, tasks="current")

    def pruned(steps: Sequence[Step]) -> list[Step]:
        after = within(steps)
        if len(after) == len(steps):
            return after
        kept = {step.id for step in [*after, *groups(steps)[-1]]}
        return [step for step in steps if step.id in kept]

    return pruned


def or_the_newest(strategy: PruneStrategy) -> PruneStrategy:
    """`strategy`; where what must stay is over its budget, critical steps and the newest group, so that adding goes on
    and `context` says what is too much."""

    def pruned(steps: Sequence[Step]) -> list[Step]:
        try:
            return strategy(steps)
        except BudgetError as error:
            logger.warning("the window cannot be kept within its tokens: %s", error)
            return keep_last_n_steps(1)(steps)

    return pruned
