"""The strategy prune_old_observations: old tool output, cut short by number of actions or by age."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import Time, check_non_negative_int, check_number, to_utc
from tinymem.steps.content import Content, as_text, map_text, shorten
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep
from tinymem.window.strategy import PruneStrategy

__all__ = ["prune_old_observations"]

LAST = 5  # actions whose results stay whole, unless said otherwise
LONGEST_AGE = timedelta.max.total_seconds() // 2


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
        keep_last_n = LAST
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

        def is_old(at: int, step: Step) -> bool:
            return at < border or (age is not None and time - step.timestamp > age)

        pruned = [_with_short_results(s, max_length) if is_old(at, s) else s for at, s in enumerate(steps)]
        changed = sum(new is not old for new, old in zip(pruned, steps, strict=True))
        return pruned if changed >= batch else list(steps)

    return prune_observations


def _border(steps: Sequence[Step], last: int) -> int:
    """Return the place of the first of the `last` actions: the steps before it are old."""
    actions = [at for at, step in enumerate(steps) if isinstance(step, ActionStep)]
    recent = actions[-last:] if last else []
    return recent[0] if recent else len(steps)


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

    shorter: Step = step
    if step.pinned or all(len(as_text(result)) <= max_length for result in _results(step)):
        return step
    if isinstance(step, ActionStep):
        shorter = step.map_observations(cut, cut_error)
    elif isinstance(step, MessageStep):
        shorter = step.evolve(content=cut(step.content))
    return step if shorter == step else shorter


def _results(step: Step) -> list[Content | None]:
    """Return the contents of this step that came from outside."""
    if isinstance(step, ActionStep):
        return [step.output, step.failure, *(r for call in step.tool_calls for r in (call.observation, call.error))]
    return [step.content] if isinstance(step, MessageStep) and step.role in ("tool", "function") else []
