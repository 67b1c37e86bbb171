"""Old tool output, cut short: by how many actions came since, and by age."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tinymem.actions import ActionStep
from tinymem.base import Step
from tinymem.checks import whole_number
from tinymem.content import Content, as_text, map_text, shorten
from tinymem.errors import InputError
from tinymem.ids import utc_now
from tinymem.steps import MessageStep
from tinymem.strategy import PruneStrategy

__all__ = ["prune_old_observations"]


def prune_old_observations(
    *,
    keep_last_n: int = 5,
    max_length: int = 500,
    max_age_seconds: float | None = None,
    now: datetime | Callable[[], datetime] = utc_now,
    batch: int = 1,
) -> PruneStrategy:
    """What came back from all but the last `keep_last_n` actions, cut to `max_length` characters; nothing is taken out.

    Observations, errors and late tool results keep head and tail, with a mark between that says how much is gone.
    Calls, thoughts and code stay whole, pinned steps and images too. "Old" is what stands before the oldest of the
    last `keep_last_n` actions, and with `max_age_seconds` also what happened, by its step's timestamp, longer ago than
    that; `now` is the time it is compared with, a datetime or a clock (default: the wall clock). By age alone:
    `keep_last_n=len(steps)` or any large number.

    With `batch` nothing changes until that many old steps are too long, and then all of them are cut: the prompt
    changes once in `batch` actions, and prompt caches hold between.

    >>> steps = [ActionStep(tool_name="ls", observation="x" * 900), ActionStep(tool_name="ls", observation="y" * 900)]
    >>> [len(step.observation) for step in prune_old_observations(keep_last_n=1, max_length=100)(steps)]
    [100, 900]

    Raises InputError if a number is none of 0 or more, or `now` is neither an aware datetime nor a clock.
    """
    whole_number("keep_last_n", keep_last_n)
    whole_number("max_length", max_length)
    whole_number("batch", batch)
    clock = _clock(now)
    age = None if max_age_seconds is None else _seconds(max_age_seconds)

    def prune_observations(steps: Sequence[Step]) -> list[Step]:
        actions = [at for at, step in enumerate(steps) if isinstance(step, ActionStep)]
        recent = actions[-keep_last_n:] if keep_last_n else []
        border = recent[0] if recent else len(steps)
        time = clock()

        def is_old(at: int, step: Step) -> bool:
            return at < border or (age is not None and time - step.timestamp > age)

        pruned = [_with_short_results(s, max_length) if is_old(at, s) else s for at, s in enumerate(steps)]
        changed = sum(new is not old for new, old in zip(pruned, steps, strict=True))
        return pruned if changed >= batch else list(steps)

    return prune_observations


def _clock(now: datetime | Callable[[], datetime]) -> Callable[[], datetime]:
    if callable(now):
        return now
    if not isinstance(now, datetime) or now.tzinfo is None:
        raise InputError(f"now must be an aware datetime (with a time zone) or a callable that gives one, not {now!r}")
    return lambda: now


def _seconds(value: float) -> timedelta:
    try:
        if isinstance(value, bool) or not value >= 0:
            raise ValueError
        return timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"max_age_seconds must be a number of 0 or more, not {value!r}") from None


def _with_short_results(step: Step, max_length: int) -> Step:
    """`step` with its results cut; the very same object when there is nothing to cut."""

    def cut(content: Content | None) -> Content | None:
        return map_text(content, lambda text: shorten(text, max_length))

    shorter: Step = step
    if step.pinned or all(len(as_text(result)) <= max_length for result in _results(step)):
        return step
    if isinstance(step, ActionStep):
        shorter = step.map_observations(cut)
    elif isinstance(step, MessageStep):
        shorter = step.evolve(content=cut(step.content))
    return step if shorter == step else shorter


def _results(step: Step) -> list[Content | None]:
    """What came back from outside in this step."""
    if isinstance(step, ActionStep):
        return [step.output, step.failure, *(r for call in step.tool_calls for r in (call.observation, call.error))]
    return [step.content] if isinstance(step, MessageStep) and step.role in ("tool", "function") else []
