"""The simple strategies: which steps stay in the window, by count, by tokens, by age.

`tinymem.window.strategy` says what a strategy may do. Those here never split a group (a call and its results) and
never take
out a *critical* step: system prompts, tasks, pinned steps. `tinymem.window.semantic` has the one that reads the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.errors import InputError
from tinymem.messages.conversion import groups
from tinymem.messages.prices import Prices
from tinymem.messages.tokens import PER_REPLY, counter_from
from tinymem.protocols import TokenCounter
from tinymem.steps.checks import one_of, whole_number
from tinymem.steps.step import Step, Style
from tinymem.window.observations import prune_old_observations
from tinymem.window.outcome import Outcomes
from tinymem.window.strategy import (
    Prunes,
    PruneStrategy,
    Tasks,
    a_strategy,
    critical,
    in_order,
    low_mark,
    newest_groups,
    newest_within,
    split,
)

__all__ = ["PruneStrategy", "compose", "critical", "keep_last_n_steps", "keep_system_and_recent", "no_pruning",
           "prune_old_observations", "token_budget"]  # fmt: skip


def no_pruning() -> PruneStrategy:
    """Everything stays, unchanged."""
    return list


def keep_last_n_steps(n: int, *, low_water: int | None = None) -> PruneStrategy:
    """Critical steps, and the newest others up to `n` of them; `n=0` keeps no other.

    A group stays or goes whole: one that no longer fits goes, with everything older; but `n >= 1` always keeps the
    newest group, be it longer than `n`. What shares a group with a critical step stays too and is not counted.

    With `low_water` the window falls to that many others whenever it has grown over `n`: its start then moves in
    jumps, and prompt caches hold between them.

    >>> steps = [TaskStep("t"), *(MessageStep("user", str(i)) for i in range(5))]
    >>> [step.text for step in keep_last_n_steps(2)(steps)]
    ['t', '3', '4']

    Raises InputError if `n` or `low_water` is no whole number of 0 or more, or `low_water` is above `n`.
    """
    return _newest(n, low_water, "all")


def keep_system_and_recent(n: int, *, low_water: int | None = None) -> PruneStrategy:
    """The newest system prompt, the current task, pinned steps, and the newest others up to `n` of them.

    As `keep_last_n_steps`, but earlier tasks and system prompts are steps like any other, and go when they are old: for
    an agent that is given task after task.

    >>> steps = [TaskStep("old"), MessageStep("user", "a"), TaskStep("new"), *(MessageStep("user", x) for x in "bc")]
    >>> [step.text for step in keep_system_and_recent(1)(steps)]
    ['new', 'c']

    Raises InputError if `n` or `low_water` is no whole number of 0 or more, or `low_water` is above `n`.
    """
    return _newest(n, low_water, "current")


def _newest(n: int, low_water: int | None, tasks: Tasks) -> PruneStrategy:
    whole_number("n", n)
    target = low_mark(low_water, "n", n)

    def keep_newest(steps: Sequence[Step]) -> list[Step]:
        if len(steps) <= n:
            return list(steps)
        kept, others = split(groups(steps), critical(steps, tasks))
        if sum(map(len, others)) <= n:
            return list(steps)
        return in_order(steps, [*kept, *newest_groups(others, target, at_least=min(n, 1))])

    return keep_newest


def token_budget(
    max_tokens: int,
    *,
    low_water: int | None = None,
    counter: TokenCounter | str | None = None,
    tasks: Tasks = "all",
    style: Style = "auto",
) -> PruneStrategy:
    """A window of at most `max_tokens`, counted on the messages as sent in `style`, with all their overhead.

    As long as the whole is within `max_tokens` nothing changes. When it is over, critical steps stay and the newest
    groups fill the rest, whole, up to `low_water` tokens (default `max_tokens`): with a lower `low_water` the window's
    start moves in jumps, and prompt caches hold between them. The newest group may go up to `max_tokens`. A group that
    could not fit beside the critical steps at all goes alone; otherwise the window is cut at one point. If critical
    steps alone are over, the oldest tasks go first. `counter` is a TokenCounter, an encoding's or a model's name, or
    None for the default.

    >>> steps = [TaskStep("t"), *(MessageStep("user", str(i)) for i in range(5))]
    >>> [step.text for step in token_budget(20)(steps)]
    ['t', '3', '4']

    Raises InputError for arguments that make no sense; the strategy raises BudgetError when system prompts, the
    current task and pinned steps alone are over `max_tokens`.
    """
    whole_number("max_tokens", max_tokens)
    target = low_mark(low_water, "max_tokens", max_tokens)
    one_of("tasks", tasks, "all", "current")
    one_of("style", style, "auto", "tools", "observation")
    price = Prices(counter_from(counter), style)

    def within_budget(steps: Sequence[Step]) -> list[Step]:
        costs = price(steps)
        if PER_REPLY + sum(costs.values()) <= max_tokens:
            return list(steps)
        return newest_within(steps, costs, max_tokens, target, tasks)

    return within_budget


def compose(*strategies: Prunes) -> PruneStrategy:
    """One strategy of several, from left to right: each gets what the one before it left. Of none: `no_pruning`.

    Cheap cuts go first, and a budget last, so that its limit is what holds. What each returns is made into a window as
    a memory does it (`tinymem.window.outcome`), so plain functions may be among them.

    >>> strategy = compose(prune_old_observations(keep_last_n=2), token_budget(4_000))
    >>> strategy([TaskStep("Ship it")])[0].text
    'Ship it'

    Raises InputError for what is no callable; the strategy raises it, with the place of the one at fault, when one of
    them returns what are no steps.
    """
    for at, strategy in enumerate(strategies):
        a_strategy(f"strategy {at}", strategy)
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
