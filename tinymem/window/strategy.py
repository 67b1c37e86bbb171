"""The type of a strategy, and the shared parts of all strategies: groups, prices, checks.

A `PruneStrategy` gets the window and returns the new one, in the same order. A step that is missing from it is removed;
a step that comes back changed under its id is shortened, or replaced by a stand-in. Any such callable is a strategy;
`tinymem.window.outcome` makes a window of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Literal, TypeAlias, TypeVar

from tinymem.errors import BudgetError, InputError, describe_callable, describe_type, safe_repr
from tinymem.messages.conversion import groups
from tinymem.messages.tokens import PER_REPLY
from tinymem.steps.checks import check_choice, check_non_negative_int
from tinymem.steps.standins import is_stand_in, newest_request
from tinymem.steps.step import Step, Style
from tinymem.steps.types import SystemPromptStep, TaskStep

__all__ = ["Group", "PruneReport", "PruneStrategy", "Pruner", "Tasks", "check_strategy", "critical"]

PruneStrategy: TypeAlias = Callable[[list[Step]], list[Step]]
Pruner: TypeAlias = Callable[[list[Step]], Iterable[Step]]  # the least that can be one: any function over a list
LOW_WATER = 2 / 3  # of a window's tokens, to which a pruning goes, so that its start moves in jumps
REQUEST = 0.5  # share of the tokens beside the critical steps that the newest request has at most, as in a context
PrunesT = TypeVar("PrunesT", bound=Pruner)
Tasks: TypeAlias = Literal["all", "current"]
Group: TypeAlias = list[Step]

MAKERS = ("compose", "keep_last_n_steps", "keep_system_and_recent", "no_pruning", "prune_old_observations",
          "semantic_pruning", "summarize_strategy", "token_budget")  # fmt: skip


@dataclass(frozen=True)
class PruneReport:
    """The outcome of a pruning: steps `removed`, originals of steps `shortened`, and how many steps were `kept`.

    `archived` steps are still in the memory, and recalled, after its window was cleared.
    """

    removed: tuple[Step, ...] = ()
    shortened: tuple[Step, ...] = ()
    kept: int = 0
    archived: int = 0

    def __repr__(self) -> str:
        gone = f"{len(self.removed)} removed, {len(self.shortened)} shortened"
        stay = f"; {self.archived} stay in the archive" if self.archived else ""
        return f"<PruneReport: {gone}, {self.kept} kept{stay}>"

    @property
    def changed(self) -> bool:
        """True if anything was taken out or shortened."""
        return bool(self.removed or self.shortened)


def critical(steps: Sequence[Step], tasks: Tasks = "all") -> list[Step]:
    """The steps that no strategy here takes out: system prompts, tasks and pinned ones, but no stand-ins for others.

    With `tasks="current"` only the newest task and system prompt are, and the newest prompt for all sessions; earlier
    ones are steps like any other.

    >>> [step.text for step in critical([TaskStep("a"), MessageStep("user", "b"), TaskStep("c")], tasks="current")]
    ['c']
    """
    check_choice("tasks", tasks, "all", "current")
    found = [step for step in steps if step.pinned or isinstance(step, (SystemPromptStep, TaskStep))]
    found = [step for step in found if not is_stand_in(step)]
    if tasks == "all":
        return found
    prompts = [step for step in found if isinstance(step, SystemPromptStep)]
    shared = [step for step in prompts if step.session is None]
    given_tasks = [step for step in found if isinstance(step, TaskStep)]
    ids = {step.id for step in (*prompts[-1:], *shared[-1:], *given_tasks[-1:])}
    return [step for step in found if step.pinned or step.id in ids]


def cost_of(group: Group, costs: Mapping[str, int]) -> int:
    """Sum up the tokens of a group, of which `costs` has those of each step by id."""
    return sum(costs[step.id] for step in group)


def sum_fixed(fixed: Iterable[tuple[Group, int]], budget: int, more: Mapping[str, int] | None = None) -> int:
    """Sum up the tokens of groups that must stay, of the reply, and of `more` by name; BudgetError over the budget."""
    parts = {"reply": PER_REPLY, **(more or {})}
    for group, tokens in fixed:
        name = "current task"
        if any(isinstance(step, SystemPromptStep) for step in group):
            name = "system prompt"
        elif any(step.pinned for step in group):
            name = "pinned steps"
        parts[name] = parts.get(name, 0) + tokens
    needed = sum(parts.values())
    if needed > budget:
        raise BudgetError(needed, budget, parts)
    return needed


def with_request(steps: Sequence[Step], kept: list[Group]) -> list[Group]:
    """Return `kept`, and the group of the newest request if that is not among them: what the agent works on stays.

    >>> asked, *done = MessageStep("user", "a"), MessageStep("assistant", "b"), MessageStep("assistant", "c")
    >>> [step.text for group in with_request([asked, *done], [done[1:]]) for step in group]
    ['c', 'a']
    """
    request = newest_request(steps)
    if request is None or request.id in {step.id for step in chain.from_iterable(kept)}:
        return kept
    return [*kept, *split(groups(steps), [request])[0]]


def newest_groups(found: Sequence[Group], most: int, at_least: int) -> list[Group]:
    """Return the newest groups up to `most` steps, newest first, without a gap.

    The first `at_least` groups are returned however long they are.
    """
    chosen: list[Group] = []
    for group in reversed(found):
        if len(group) > most and len(chosen) >= at_least:
            break
        chosen.append(group)
        most -= len(group)
    return chosen


def newest_that_fit(
    found: Sequence[Group], costs: Mapping[str, int], used: int, limits: Iterable[int]
) -> tuple[list[Group], int]:
    """Return the newest groups, oldest first and without a gap, and the tokens that are used with them.

    `limits` has the most tokens with the newest group, with the one before it, and so on, and ends where no more groups
    are wanted.
    """
    chosen: list[Group] = []
    for group, limit in zip(reversed(found), limits, strict=False):
        cost = cost_of(group, costs)
        if used + cost > limit:
            break
        chosen.append(group)
        used += cost
    return chosen[::-1], used


def newest_within(
    steps: Sequence[Step], costs: Mapping[str, int], max_tokens: int, target: int, tasks: Tasks
) -> list[Step]:
    """Return the critical steps, and the newest groups up to `target` tokens, as `token_budget` does.

    The newest group may go up to `max_tokens`; one that could never fit is passed over. BudgetError if the critical
    steps alone are over `max_tokens`.
    """
    kept, others, used = must_stay(steps, costs, max_tokens, max_tokens, tasks)
    recent = _newest_of_those_that_fit(others, costs, used, target, max_tokens)[0]
    return in_order(steps, kept + recent)


def must_stay(
    steps: Sequence[Step], costs: Mapping[str, int], max_tokens: int, limit: int, tasks: Tasks
) -> tuple[list[Group], list[Group], int]:
    """Return the groups of critical steps, earlier tasks only up to `limit`; all others; and the tokens used so far.

    The newest request is with the critical ones, unless it takes more than its share, or the place of the newest group.

    Raises BudgetError if critical steps, with the current task alone, are over `max_tokens`.
    """
    kept, rest = split(groups(steps), critical(steps, "current"))
    older_tasks, others = split(rest, critical(steps, tasks))
    used = sum_fixed([(group, cost_of(group, costs)) for group in kept], max_tokens)
    request = newest_request(steps)
    asked, rest = split(others, [request] if request else [])
    cost = sum(cost_of(group, costs) for group in asked)
    newest = sum(cost_of(group, costs) for group in rest[-1:])
    takes_its_place = max_tokens - cost < used + newest <= max_tokens
    if cost <= REQUEST * (max_tokens - used) and not takes_its_place:
        kept, others, used = [*kept, *asked], rest, used + cost
    earlier, used = _newest_of_those_that_fit(older_tasks, costs, used, limit, limit)
    return [*kept, *earlier], others, used


def _newest_of_those_that_fit(
    found: Sequence[Group], costs: Mapping[str, int], used: int, target: int, limit: int
) -> tuple[list[Group], int]:
    possible = [group for group in found if used + cost_of(group, costs) <= limit]
    return newest_that_fit(possible, costs, used, chain([limit], repeat(target)))


def split(found: Iterable[Group], wanted: Iterable[Step]) -> tuple[list[Group], list[Group]]:
    """Return the groups with one of `wanted`, and the rest."""
    ids = {step.id for step in wanted}
    having: list[Group] = []
    rest: list[Group] = []
    for group in found:
        has_wanted = any(step.id in ids for step in group)
        (having if has_wanted else rest).append(group)
    return having, rest


def in_order(steps: Sequence[Step], kept: Iterable[Group]) -> list[Step]:
    """Return the steps of `kept` in the order of `steps`."""
    by_id = {step.id: step for step in chain.from_iterable(kept)}
    return [by_id[step.id] for step in steps if step.id in by_id]


def low_mark(low_water: int | None, name: str, high: int, share: float = 1) -> int:
    """Return the low-water mark, by default this share of the high one; InputError if it is above that."""
    target = int(share * high) if low_water is None else check_non_negative_int("low_water", low_water)
    if target > high:
        raise InputError(f"low_water must be at most {name} ({high}), not {target}")
    return target


def check_tasks_and_style(tasks: Tasks, style: Style) -> None:
    """Raise InputError for anything but a way to keep tasks and a style of messages."""
    check_choice("tasks", tasks, "all", "current")
    check_choice("style", style, "auto", "tools", "observation")


def check_strategy(name: str, value: PrunesT) -> PrunesT:
    """`value`, if it can be a strategy; InputError, also for a function of tinymem that was not called to make one."""
    if not callable(value):
        raise InputError(f"{name} must be a callable, not {safe_repr(value)}")
    made_by = describe_callable(value)
    if made_by in MAKERS and str(getattr(value, "__module__", "")).startswith("tinymem."):
        raise InputError(f"{name} is {made_by}, which makes a strategy: call it, {name}={made_by}(...)")
    return value


def check_report(report: PruneReport) -> None:
    """Raise InputError for anything but a report."""
    if not isinstance(report, PruneReport):
        raise InputError(f"report must be the PruneReport of a pruning, not {describe_type(report)}")
