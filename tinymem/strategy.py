"""What a strategy may do to the window, and what all strategies share: groups, prices, checks.

A `PruneStrategy` gets the window and returns the new one, in the same order. A step that is missing from it was taken
out; a step that came back under its id but changed was shortened, or makes way for the summary that covers it. Any
callable of that shape will do; `check_window` says what is wrong with what it returned.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tinymem.actions import ActionStep
from tinymem.base import Step, Style
from tinymem.checks import one_of, whole_number
from tinymem.errors import BudgetError, InputError
from tinymem.messages import groups
from tinymem.protocols import TokenCounter
from tinymem.quiet import kind_of
from tinymem.steps import MessageStep, SummaryStep, SystemPromptStep, TaskStep
from tinymem.tokens import PER_REPLY, count_message

__all__ = ["Group", "Prices", "PruneReport", "PruneStrategy", "Tasks", "check_window", "critical"]

PruneStrategy: TypeAlias = Callable[[Sequence[Step]], list[Step]]
Tasks: TypeAlias = Literal["all", "current"]
Group: TypeAlias = list[Step]


@dataclass(frozen=True)
class PruneReport:
    """What left the window: steps `removed`, originals of steps `shortened`, and how many steps were `kept`."""

    removed: tuple[Step, ...] = ()
    shortened: tuple[Step, ...] = ()
    kept: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything was taken out or shortened."""
        return bool(self.removed or self.shortened)


def critical(steps: Sequence[Step], tasks: Tasks = "all") -> list[Step]:
    """The steps that no strategy here takes out: system prompts, tasks and pinned ones.

    With `tasks="current"` only the newest task and system prompt are; earlier ones are steps like any other.

    >>> [step.text for step in critical([TaskStep("a"), MessageStep("user", "b"), TaskStep("c")], tasks="current")]
    ['c']
    """
    one_of("tasks", tasks, "all", "current")
    kept: set[int] = set()
    for kind in (SystemPromptStep, TaskStep):
        found = [id(step) for step in steps if isinstance(step, kind)]
        kept.update(found if tasks == "all" else found[-1:])
    return [step for step in steps if step.pinned or id(step) in kept]


class Prices:
    """Tokens of each step, counted once as long as the step stays in the window.

    A shortened step has the id of its original, so what was counted is known by the object; the cache holds the steps
    of the newest window only.
    """

    def __init__(self, counter: TokenCounter, style: Style) -> None:
        self._counter, self._style = counter, style
        self._known: dict[str, tuple[Step, int]] = {}

    def __call__(self, steps: Sequence[Step]) -> dict[str, int]:
        """The tokens of each of `steps`, by id."""
        known = self._known
        fresh = {s.id: known[s.id] if s.id in known and known[s.id][0] is s else (s, self.count(s)) for s in steps}
        self._known = fresh  # one assignment: threads that share a strategy see the old or the new one
        return {key: cost for key, (_, cost) in fresh.items()}

    def count(self, step: Step) -> int:
        """The tokens of `step` as it is sent, overhead included."""
        return sum(count_message(message, self._counter) for message in step.to_messages(style=self._style))


def tokens_needed(
    kept: Sequence[Group], costs: Mapping[str, int], max_tokens: int, more: Mapping[str, int] | None = None
) -> int:
    """What the groups that must stay cost, with `more` by name; BudgetError if that is too much."""
    parts = {"reply": PER_REPLY, **(more or {})}
    for group in kept:
        name = "pinned steps" if any(step.pinned for step in group) else "current task"
        name = "system prompt" if any(isinstance(step, SystemPromptStep) for step in group) else name
        parts[name] = parts.get(name, 0) + sum(costs[step.id] for step in group)
    if (needed := sum(parts.values())) > max_tokens:
        raise BudgetError(needed, max_tokens, parts)
    return needed


def fill_with_newest(
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


def newest_within(
    steps: Sequence[Step], costs: Mapping[str, int], max_tokens: int, target: int, tasks: Tasks
) -> list[Step]:
    """Critical steps, and the newest groups up to `target` tokens, as `token_budget` has it; BudgetError if the former
    alone are over `max_tokens`. A group costs what its steps do in `costs`, by id."""
    kept, rest = split(groups(steps), critical(steps, "current"))
    older_tasks, others = split(rest, critical(steps, tasks))
    used = tokens_needed(kept, costs, max_tokens)
    used = fill_with_newest(kept, older_tasks, costs, used, max_tokens, max_tokens)
    fill_with_newest(kept, others, costs, used, target, max_tokens)
    return in_order(steps, kept)


def split(found: Iterable[Group], wanted: Iterable[Step]) -> tuple[list[Group], list[Group]]:
    """The groups that hold one of `wanted`, and the rest."""
    ids = {step.id for step in wanted}
    halves: tuple[list[Group], list[Group]] = ([], [])
    for group in found:
        halves[0 if any(step.id in ids for step in group) else 1].append(group)
    return halves


def in_order(steps: Sequence[Step], kept: Iterable[Group]) -> list[Step]:
    """The steps of `kept`, as they are there, in the order of `steps`."""
    held = {step.id: step for group in kept for step in group}
    return [held[step.id] for step in steps if step.id in held]


def low_mark(low_water: int | None, name: str, high: int) -> int:
    """The low-water mark, by default the high one; InputError if it is above that."""
    target = high if low_water is None else whole_number("low_water", low_water)
    if target > high:
        raise InputError(f"low_water must be at most {name} ({high}), not {target}")
    return target


def check_window(before: Sequence[Step], after: Sequence[Step]) -> None:
    """Raise InputError, with what is wrong, unless `after` is a window that a strategy may make of `before`.

    That is: a list of steps of `before`, each at most once, in their order, no group split; a shortened step is still
    of the same type and number, with the same calls answered. A SummaryStep may take the place of the last step that it
    covers, under its id and number, when all others that it covers are gone, with their groups, and none is critical.
    """
    if isinstance(after, (list, tuple)) and len(after) == len(before) and all(map(operator.is_, before, after)):
        return  # nothing changed, as on most adds
    if not isinstance(after, (list, tuple)) or not all(isinstance(step, Step) for step in after):
        raise InputError(f"a strategy must return a list of steps, not {kind_of(after)}")
    place = {step.id: at for at, step in enumerate(before)}
    last = -1
    summaries: list[SummaryStep] = []
    for step in after:
        at = place.get(step.id)
        if at is None:
            raise InputError(f"the strategy returned a step that was not in the window: {_named(step)}")
        if at <= last:
            raise InputError(f"the strategy returned step {step.id} twice, or after a step that came later")
        if step is not before[at] and _shape(step) != _shape(before[at]):
            if not isinstance(step, SummaryStep) or step.number != before[at].number:
                raise InputError(f"the strategy changed more of step {step.id} than its texts")
            summaries.append(step)
        last = at
    ids = {step.id for step in after} - {summary.id for summary in summaries}
    for summary in summaries:
        _check_summary(summary, before, ids)
    for group in groups(before):
        if 0 < sum(step.id in ids for step in group) < len(group):
            gone = next(step for step in group if step.id not in ids)
            raise InputError(f"the strategy split a call from its results: {_named(gone)} is gone, the rest is not")


def _check_summary(summary: SummaryStep, before: Sequence[Step], ids: Collection[str]) -> None:
    """InputError unless `summary` covers only what was in the window, and nothing that stays there, its `ids`."""
    covered = set(summary.covers)
    held = {step.id for step in before}
    unknown = covered - held - {id for step in before if isinstance(step, SummaryStep) for id in step.covers}
    stays = covered & ({step.id for step in critical(before, "current")} | set(ids))
    own = [group for group in groups(before) if any(step.id in covered for step in group)]
    partly = [group for group in own if not all(step.id in covered for step in group)]
    wrong = (
        (summary.id not in covered and f"does not cover the step {summary.id} whose place it takes")
        or (unknown and f"covers {min(unknown)}, which was not in the window")
        or (stays and f"covers {min(stays)}, which must stay, or did")
        or (partly and f"covers {partly[0][0].id} without its whole group")
        or (own[-1][-1].id != summary.id and "takes the place of another step than the last that it covers")
    )
    if wrong:
        raise InputError(f"the strategy returned a summary that {wrong}")


def _named(step: Step) -> str:
    return f"{type(step).__name__} {step.id}"


def _shape(step: Step) -> tuple[object, ...]:
    """What shortening must leave alone: else order, or the pairing of calls and results, would break."""
    calls = [(call.id, call.answered) for call in step.tool_calls] if isinstance(step, ActionStep) else []
    answers = (step.role, step.tool_call_id) if isinstance(step, MessageStep) else ()
    covers = step.covers if isinstance(step, SummaryStep) else ()
    return type(step), step.number, step.pinned, calls, answers, covers
