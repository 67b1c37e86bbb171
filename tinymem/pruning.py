"""Strategies: which steps stay in the window.

A `PruneStrategy` gets the window and returns the new one, in the same order. A step that is missing from it was taken
out; a step that came back under its id but changed was shortened. Any callable of that shape will do; `check_window`
says what is wrong with what it returned. The strategies here never split a group (a call and its results) and never
take out a *critical* step: system prompts, tasks, pinned steps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from tinymem.base import Step, Style
from tinymem.content import Content, as_text, map_text, shorten
from tinymem.errors import BudgetError, InputError
from tinymem.messages import groups
from tinymem.protocols import TokenCounter
from tinymem.steps import ActionStep, MessageStep, SystemPromptStep, TaskStep
from tinymem.tokens import PER_REPLY, count_message, counter_from

__all__ = ["PruneStrategy", "check_window", "critical", "keep_last_n_steps", "no_pruning", "prune_old_observations",
           "token_budget"]  # fmt: skip

PruneStrategy: TypeAlias = Callable[[Sequence[Step]], list[Step]]
Tasks: TypeAlias = Literal["all", "current"]
Group: TypeAlias = list[Step]


def critical(steps: Sequence[Step], tasks: Tasks = "all") -> list[Step]:
    """The steps that no strategy here takes out: system prompts, tasks and pinned ones.

    With `tasks="current"` only the newest task and system prompt are; earlier ones are steps like any other.

    >>> [step.text for step in critical([TaskStep("a"), MessageStep("user", "b"), TaskStep("c")], tasks="current")]
    ['c']
    """
    _one_of("tasks", tasks, "all", "current")
    kept: set[int] = set()
    for kind in (SystemPromptStep, TaskStep):
        found = [id(step) for step in steps if isinstance(step, kind)]
        kept.update(found if tasks == "all" else found[-1:])
    return [step for step in steps if step.pinned or id(step) in kept]


def no_pruning() -> PruneStrategy:
    """Everything stays, unchanged."""
    return list


def keep_last_n_steps(n: int) -> PruneStrategy:
    """Critical steps, and the newest others up to `n` of them; `n=0` keeps no other.

    A group stays or goes whole: one that no longer fits goes, with everything older; but `n >= 1` always keeps the
    newest group, be it longer than `n`. What shares a group with a critical step stays too and is not counted.

    >>> steps = [TaskStep("t"), *(MessageStep("user", str(i)) for i in range(5))]
    >>> [step.text for step in keep_last_n_steps(2)(steps)]
    ['t', '3', '4']

    Raises InputError if `n` is no whole number of 0 or more.
    """
    whole_number("n", n)

    def keep_last(steps: Sequence[Step]) -> list[Step]:
        if len(steps) <= n:
            return list(steps)
        kept, others = _split(groups(steps), critical(steps))
        room = n
        for age, group in enumerate(reversed(others)):
            if len(group) > room and (age or not n):
                break
            kept.append(group)
            room -= len(group)
        return _in_order(steps, kept)

    return keep_last


def prune_old_observations(*, keep_last_n: int = 5, max_length: int = 500) -> PruneStrategy:
    """What came back from all but the last `keep_last_n` actions, cut to `max_length` characters; nothing is taken out.

    Observations, errors and late tool results keep head and tail, with a mark between that says how much is gone.
    Calls, thoughts and code stay whole, pinned steps and images too. "Old" is what stands before the oldest of the
    last `keep_last_n` actions.

    >>> steps = [ActionStep(tool_name="ls", observation="x" * 900), ActionStep(tool_name="ls", observation="y" * 900)]
    >>> [len(step.observation) for step in prune_old_observations(keep_last_n=1, max_length=100)(steps)]
    [100, 900]

    Raises InputError if either is no whole number of 0 or more.
    """
    whole_number("keep_last_n", keep_last_n)
    whole_number("max_length", max_length)

    def prune_observations(steps: Sequence[Step]) -> list[Step]:
        actions = [at for at, step in enumerate(steps) if isinstance(step, ActionStep)]
        recent = actions[-keep_last_n:] if keep_last_n else []
        border = recent[0] if recent else len(steps)
        return [_with_short_results(step, max_length) for step in steps[:border]] + list(steps[border:])

    return prune_observations


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


def token_budget(
    max_tokens: int,
    *,
    low_water: int | None = None,
    counter: TokenCounter | str | None = None,
    tasks: Tasks = "all",
    style: Style = "tools",
) -> PruneStrategy:
    """A window of at most `max_tokens`, counted on the messages as sent in `style`, with all their overhead.

    As long as the whole is within `max_tokens` nothing changes. When it is over, critical steps stay and the newest
    groups fill the rest, whole, up to `low_water` tokens (default `max_tokens`): with a lower `low_water` the window's
    start moves in jumps, and prompt caches hold between them. The newest group may go up to `max_tokens`. A group that
    could not fit beside the critical steps at all goes alone; otherwise the window is cut at one point. If critical
    steps alone are over, the oldest tasks go first. `counter` is a TokenCounter, a tiktoken encoding's name, or None
    for the default.

    >>> steps = [TaskStep("t"), *(MessageStep("user", str(i)) for i in range(5))]
    >>> [step.text for step in token_budget(20)(steps)]
    ['t', '3', '4']

    Raises InputError for arguments that make no sense; the strategy raises BudgetError when system prompts, the
    current task and pinned steps alone are over `max_tokens`.
    """
    whole_number("max_tokens", max_tokens)
    target = max_tokens if low_water is None else whole_number("low_water", low_water)
    if target > max_tokens:
        raise InputError(f"low_water must be at most max_tokens ({max_tokens}), not {target}")
    _one_of("tasks", tasks, "all", "current")
    _one_of("style", style, "tools", "observation")
    price = _Prices(counter_from(counter), style)

    def within_budget(steps: Sequence[Step]) -> list[Step]:
        costs = price(steps)
        if PER_REPLY + sum(costs.values()) <= max_tokens:
            return list(steps)
        kept, rest = _split(groups(steps), critical(steps, "current"))
        older_tasks, others = _split(rest, critical(steps, tasks))
        used = _needed(kept, costs, max_tokens)
        used = _fill(kept, older_tasks, costs, used, max_tokens, max_tokens)
        _fill(kept, others, costs, used, target, max_tokens)
        return _in_order(steps, kept)

    return within_budget


def _needed(kept: Sequence[Group], costs: Mapping[str, int], max_tokens: int) -> int:
    """What the groups that must stay cost; BudgetError if that is too much."""
    parts = {"reply": PER_REPLY}
    for group in kept:
        name = "pinned steps" if any(step.pinned for step in group) else "current task"
        name = "system prompt" if any(isinstance(step, SystemPromptStep) for step in group) else name
        parts[name] = parts.get(name, 0) + sum(costs[step.id] for step in group)
    if (needed := sum(parts.values())) > max_tokens:
        raise BudgetError(needed, max_tokens, parts)
    return needed


def _fill(
    kept: list[Group], more: Sequence[Group], costs: Mapping[str, int], used: int, target: int, limit: int
) -> int:
    """Put the newest of `more` into `kept`, the first up to `limit` and more up to `target`; the tokens used then."""
    base = used
    for group in reversed(more):
        cost = sum(costs[step.id] for step in group)
        if used + cost <= (limit if used == base else target):
            kept.append(group)
            used += cost
        elif base + cost <= limit:
            break  # the cut; a group that could never fit is passed over instead
    return used


class _Prices:
    """Tokens of each step, counted once as long as the step stays in the window.

    A shortened step has the id of its original, so what was counted is known by the object; the cache holds the steps
    of the newest window only.
    """

    def __init__(self, counter: TokenCounter, style: Style) -> None:
        self._counter, self._style = counter, style
        self._known: dict[str, tuple[Step, int]] = {}

    def __call__(self, steps: Sequence[Step]) -> dict[str, int]:
        known = self._known
        fresh = {s.id: known[s.id] if s.id in known and known[s.id][0] is s else (s, self._count(s)) for s in steps}
        self._known = fresh  # one assignment: threads that share a strategy see the old or the new one
        return {key: cost for key, (_, cost) in fresh.items()}

    def _count(self, step: Step) -> int:
        return sum(count_message(message, self._counter) for message in step.to_messages(style=self._style))


def _split(found: Iterable[Group], wanted: Iterable[Step]) -> tuple[list[Group], list[Group]]:
    """The groups that hold one of `wanted`, and the rest."""
    ids = {step.id for step in wanted}
    halves: tuple[list[Group], list[Group]] = ([], [])
    for group in found:
        halves[0 if any(step.id in ids for step in group) else 1].append(group)
    return halves


def _in_order(steps: Sequence[Step], kept: Iterable[Group]) -> list[Step]:
    ids = {step.id for group in kept for step in group}
    return [step for step in steps if step.id in ids]


def whole_number(name: str, value: int) -> int:
    """`value`, if it is an int of 0 or more; InputError names the argument otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{name} must be a whole number of 0 or more, not {value!r}")
    return value


def _one_of(name: str, value: str, *choices: str) -> None:
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def check_window(before: Sequence[Step], after: Sequence[Step]) -> None:
    """Raise InputError, with what is wrong, unless `after` is a window that a strategy may make of `before`.

    That is: a list of steps of `before`, each at most once, in their order, no group split; a shortened step is still
    of the same type and number, with the same calls answered.
    """
    if isinstance(after, (list, tuple)) and len(after) == len(before) and all(map(operator.is_, before, after)):
        return  # nothing changed, as on most adds
    if not isinstance(after, (list, tuple)) or not all(isinstance(step, Step) for step in after):
        raise InputError(f"a strategy must return a list of steps, not {after!r:.80}")
    place = {step.id: at for at, step in enumerate(before)}
    last = -1
    for step in after:
        at = place.get(step.id)
        if at is None:
            raise InputError(f"the strategy returned a step that was not in the window: {step!r:.120}")
        if at <= last:
            raise InputError(f"the strategy returned step {step.id} twice, or after a step that came later")
        if step is not before[at] and _shape(step) != _shape(before[at]):
            raise InputError(f"the strategy changed more of step {step.id} than its texts")
        last = at
    ids = {step.id for step in after}
    for group in groups(before):
        if 0 < sum(step.id in ids for step in group) < len(group):
            gone = next(step for step in group if step.id not in ids)
            raise InputError(f"the strategy split a call from its results: {gone!r:.120} is gone, the rest is not")


def _shape(step: Step) -> tuple[object, ...]:
    """What shortening must leave alone: else order, or the pairing of calls and results, would break."""
    calls = [(call.id, call.answered) for call in step.tool_calls] if isinstance(step, ActionStep) else []
    answers = (step.role, step.tool_call_id) if isinstance(step, MessageStep) else ()
    return type(step), step.number, step.pinned, calls, answers
