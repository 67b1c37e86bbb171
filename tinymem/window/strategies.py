"""The simple strategies: which steps stay in the window, by count, by tokens, by age.

`tinymem.window.strategy` says what a strategy may do. These never split a group (a call and its results), and never
take out a *critical* step: system prompts, tasks, pinned steps. The strategy of `tinymem.window.semantic` reads the
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tinymem.errors import InputError
from tinymem.messages.conversion import groups
from tinymem.messages.tokens import PER_REPLY, Prices, counter_from
from tinymem.protocols import TokenCounter
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import Time, check_non_negative_int, check_number, to_utc
from tinymem.steps.content import Content, as_text, map_text, shorten
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Step, Style
from tinymem.steps.types import MessageStep
from tinymem.window.excerpts import results_of
from tinymem.window.outcome import Outcomes
from tinymem.window.strategy import (
    LOW_WATER,
    Pruner,
    PruneStrategy,
    Tasks,
    check_strategy,
    check_tasks_and_style,
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


LAST_ACTIONS = 5  # actions whose results stay whole, unless said otherwise
LONGEST_AGE = timedelta.max.total_seconds() // 2


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
    check_tasks_and_style(tasks, style)
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
    for place, strategy in enumerate(strategies):
        check_strategy(f"strategy {place}", strategy)
    window_of = Outcomes()

    def composed(steps: Sequence[Step]) -> list[Step]:
        window = list(steps)
        for place, strategy in enumerate(strategies):
            returned = strategy(list(window))
            try:
                window = window_of(window, returned, strategy)
            except InputError as error:
                raise InputError(f"strategy {place} of {len(strategies)}: {error}") from error
        return window

    return composed


def prune_old_observations(
    keep_last_n: int | None = None,
    max_length: int = 100,
    max_age_seconds: float | None = None,
    *,
    now: Time | Callable[[], Time] | None = None,
    batch: int = 1,
) -> PruneStrategy:
    """Cut old results to `max_length` characters; nothing is taken out.

    Results are old when they came before the last `keep_last_n` actions, or longer than `max_age_seconds` ago by their
    step's timestamp. With an age alone, fresh results stay whole, however many.

    Observations and late tool results keep head and tail, with a mark between that says how much is gone; errors keep
    their end, which says what went wrong.
    Calls, thoughts and code stay whole, pinned steps and images too.

    >>> steps = [ActionStep(tool_name="ls", observation="x" * 900), ActionStep(tool_name="ls", observation="y" * 900)]
    >>> [len(step.observation) for step in prune_old_observations(1, max_length=100)(steps)]
    [100, 900]
    >>> [len(step.observation) for step in prune_old_observations(max_age_seconds=3600)(steps)]
    [900, 900]

    Args:
        keep_last_n: The newest actions whose results stay whole; 5 if no age is given either.
        max_length: The most characters of an old result.
        max_age_seconds: The age from which on a result is old.
        now: The time by which age is reckoned: seconds since 1970, a datetime, or a clock that gives one of
            them; by default the wall clock.
        batch: The number of old steps that must be too long before all of them are cut: the prompt changes once in
            `batch` actions, and prompt caches hold between.

    Raises:
        InputError: A number is negative, or `now` is neither a time nor a clock.
    """
    if keep_last_n is None and max_age_seconds is None:
        keep_last_n = LAST_ACTIONS
    if keep_last_n is not None:
        check_non_negative_int("keep_last_n", keep_last_n)
    check_non_negative_int("max_length", max_length)
    check_non_negative_int("batch", batch)
    clock = _clock(now)
    age = None
    if max_age_seconds is not None:
        age = timedelta(seconds=min(check_number("max_age_seconds", max_age_seconds), LONGEST_AGE))

    def prune_observations(steps: Sequence[Step]) -> list[Step]:
        border = 0 if keep_last_n is None else _border(steps, keep_last_n)
        time = clock()

        pruned: list[Step] = []
        changed = 0
        for place, step in enumerate(steps):
            is_old = place < border or (age is not None and time - step.timestamp > age)
            pruned.append(_with_short_results(step, max_length) if is_old else step)
            changed += pruned[-1] is not step
        return pruned if changed >= batch else list(steps)

    return prune_observations


def _border(steps: Sequence[Step], last: int) -> int:
    """Return the place of the first of the `last` actions: the steps before it are old."""
    actions = [place for place, step in enumerate(steps) if isinstance(step, ActionStep)]
    return actions[-last:][0] if last and actions else len(steps)


def _clock(now: Time | Callable[[], Time] | None) -> Callable[[], datetime]:
    if callable(now):
        return lambda: to_utc("what now() gives", now()) or utc_now()
    time = to_utc("now", now)
    return lambda: time or utc_now()


def _with_short_results(step: Step, max_length: int) -> Step:
    """Cut the results of `step`; return the very same object when there is nothing to cut."""

    def cut(content: Content | None) -> Content | None:
        return map_text(content, lambda text: shorten(text, max_length))

    def cut_error(error: Content | None) -> Content | None:
        return map_text(error, lambda text: shorten(text.rstrip(), max_length, ends=True))

    if step.pinned or all(len(as_text(result)) <= max_length for result in _results(step)):
        return step
    shorter = step.map_observations(cut, cut_error) if isinstance(step, ActionStep) else step.shortened(max_length)
    return step if shorter == step else shorter


def _results(step: Step) -> list[Content | None]:
    """Return the contents of this step that came from outside."""
    return [] if isinstance(step, MessageStep) and step.role not in ("tool", "function") else results_of(step)
