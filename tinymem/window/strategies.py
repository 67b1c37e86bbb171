"""The simple strategies: which steps stay in the window, by count, by tokens, by age.

`tinymem.window.strategy` says what a strategy may do. These never split a group (a call and its results), and never
take out a *critical* step: system prompts, tasks, pinned steps. The strategy of `tinymem.window.semantic` reads the
steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.errors import InputError
from tinymem.messages.conversion import groups
from tinymem.messages.tokens import PER_REPLY, Prices, counter_from
from tinymem.protocols import TokenCounter
from tinymem.steps.checks import check_choice, check_non_negative_int
from tinymem.steps.step import Step, Style
from tinymem.window.observations import prune_old_observations
from tinymem.window.outcome import Outcomes
from tinymem.window.strategy import (
    LOW_WATER,
    Pruner,
    PruneStrategy,
    Tasks,
    check_strategy,
    critical,
    in_order,
    low_mark,
    newest_groups,
    newest_within,
    split,
    with_request,
)

__all__ = ["PruneStrategy", "compose", "critical", "keep_last_n_steps", "keep_system_and_recent", "no_pruning",
           "prune_old_observations", "token_budget"]  # fmt: skip


def no_pruning() -> PruneStrategy:
    """Keep everything, unchanged."""
    return list


def keep_last_n_steps(n: int, *, low_water: int | None = None) -> PruneStrategy:
    """Keep critical steps, and the newest others up to `n` of them; `n=0` keeps no other.

    A group stays or goes whole: one that no longer fits goes, with everything older; but `n >= 1` always keeps the
    newest group, even one longer than `n`, and what a user asked last. Steps in a group with a critical step stay too,
    and are not counted.

    >>> steps = [TaskStep("t"), *(MessageStep("user", str(i)) for i in range(5))]
    >>> [step.text for step in keep_last_n_steps(2)(steps)]
    ['t', '3', '4']

    Args:
        n: The most other steps.
        low_water: The number of others to which the window falls once it has grown over `n`; by default `n`. With
            fewer, the window's start moves in jumps, and prompt caches hold between them.

    Raises:
        InputError: `n` or `low_water` is no whole number of 0 or more, or `low_water` is above `n`.
    """
    return _newest(n, low_water, "all")


def keep_system_and_recent(n_recent: int, *, low_water: int | None = None) -> PruneStrategy:
    """Keep the newest system prompt, the current task, pinned steps, and the newest others up to `n_recent`.

    This is `keep_last_n_steps` for an agent with task after task: earlier tasks and system prompts are steps like any
    other, and go when they are old. Its arguments and errors are the same.

    >>> steps = [TaskStep("old"), MessageStep("user", "a"), TaskStep("new"), *(MessageStep("user", x) for x in "bc")]
    >>> [step.text for step in keep_system_and_recent(1)(steps)]
    ['new', 'c']
    """
    return _newest(n_recent, low_water, "current")


def _newest(n: int, low_water: int | None, tasks: Tasks) -> PruneStrategy:
    name = "n" if tasks == "all" else "n_recent"
    check_non_negative_int(name, n)
    target = low_mark(low_water, name, n)

    def keep_newest(steps: Sequence[Step]) -> list[Step]:
        if len(steps) <= n:
            return list(steps)
        kept, others = split(groups(steps), critical(steps, tasks))
        if sum(map(len, others)) <= n:
            return list(steps)
        kept += newest_groups(others, target, at_least=min(n, 1))
        return in_order(steps, with_request(steps, kept) if n else kept)

    return keep_newest


def token_budget(
    max_tokens: int,
    *,
    low_water: int | None = None,
    counter: TokenCounter | str | None = None,
    tasks: Tasks = "all",
    style: Style = "auto",
) -> PruneStrategy:
    """Keep the window within `max_tokens`, counted on the messages as sent, with all their overhead.

    As long as the whole is within `max_tokens` nothing changes. When it is over, critical steps stay, and the newest
    request if it takes at most half of what they leave, and not the place of the newest group. The newest groups fill
    the rest, whole, up to `low_water` tokens, and the newest one may go up to `max_tokens`. A group that could not fit
    beside the critical steps at all goes alone; otherwise the window is cut at one point. If critical steps alone are
    over, the oldest tasks go first.

    >>> steps = [TaskStep("t"), *(MessageStep("user", str(i)) for i in range(5))]
    >>> [step.text for step in token_budget(20, low_water=20)(steps)]
    ['t', '3', '4']

    Args:
        max_tokens: The most tokens of the window.
        low_water: The tokens to which a pruning goes; by default two thirds of `max_tokens`, so that the window's start
            moves in jumps, and prompt caches hold between them. `max_tokens` keeps as much as there is room for.
        counter: A TokenCounter, the name of an encoding or a model, or None for the default.
        tasks: `"all"` keeps every task while there is room; with `"current"` earlier ones count as any other step.
        style: The style in which steps are sent, and so counted; see `Step.to_messages`.

    Raises:
        InputError: An argument makes no sense.
        BudgetError: Raised by the strategy, when system prompts, the current task and pinned steps alone are over
            `max_tokens`.
    """
    check_non_negative_int("max_tokens", max_tokens)
    target = low_mark(low_water, "max_tokens", max_tokens, LOW_WATER)
    check_choice("tasks", tasks, "all", "current")
    check_choice("style", style, "auto", "tools", "observation")
    price = Prices(counter_from(counter), style)

    def within_budget(steps: Sequence[Step]) -> list[Step]:
        costs = price(steps)
        if PER_REPLY + sum(costs.values()) <= max_tokens:
            return list(steps)
        return newest_within(steps, costs, max_tokens, target, tasks)

    return within_budget


def compose(*strategies: Pruner) -> PruneStrategy:
    """Join several strategies to one, from left to right: each gets the window that the one before it left.

    Cheap cuts go first, and a budget last, so that its limit holds. The steps that each returns become a window as a
    memory makes it (`tinymem.window.outcome`), so plain functions may be among them. Without any strategy everything
    stays.

    >>> strategy = compose(prune_old_observations(keep_last_n=2), token_budget(4_000))
    >>> strategy([TaskStep("Ship it")])[0].text
    'Ship it'

    Raises:
        InputError: A strategy is not callable. The joint strategy raises it too, with the place of the one at fault,
            when one of them does not return steps.
    """
    for at, strategy in enumerate(strategies):
        check_strategy(f"strategy {at}", strategy)
    window_of = Outcomes()

    def composed(steps: Sequence[Step]) -> list[Step]:
        window = list(steps)
        for at, strategy in enumerate(strategies):
            returned = strategy(list(window))
            try:
                window = window_of(window, returned, strategy)
            except InputError as error:
                raise InputError(f"strategy {at} of {len(strategies)}: {error}") from error
        return window

    return composed
