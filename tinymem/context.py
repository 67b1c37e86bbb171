"""The budgeted assembly of a prompt: what must be in, the window's newest groups, and what recall brings back.

    [system prompt, current task, pinned steps] [window from its start] [recalled block] [newest group]

The window's start moves in jumps and does not depend on what is recalled, so everything before the block stays the
same from call to call and prompt caches hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tinymem.base import Message, Step
from tinymem.errors import BudgetError
from tinymem.messages import groups, messages_from_steps, repair
from tinymem.protocols import TokenCounter
from tinymem.recall import Recall
from tinymem.steps import SystemPromptStep, TaskStep
from tinymem.tokens import PER_MESSAGE, PER_REPLY, count_message, count_messages

__all__ = ["Context", "Item", "assemble", "current_task", "fixed_steps"]

LEAST_RECALL = 64  # tokens below which a recalled block is not worth its fence
NOTE = "(Earlier messages are not shown.)"  # opens a sequence that would otherwise begin with the assistant


@dataclass(frozen=True)
class Item:
    """One step's place in the context: its `tier` (`"fixed"`, `"window"`, `"recall"` or `"out"`), its tokens, why."""

    tier: str
    step: Step
    tokens: int
    score: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Context:
    """The `messages` to send, their exact `tokens` (at most `budget`), and the report of what is in and out."""

    messages: list[Message]
    tokens: int
    budget: int
    recalled: Recall
    items: tuple[Item, ...] = field(repr=False)

    def explain(self) -> str:
        """A line for every item: tier, step, tokens, score and why."""
        lines = [f"{self.tokens} of {self.budget} tokens, {len(self.messages)} messages"]
        for item in self.items:
            score = "" if item.score is None else f"{item.score:+.2f}"
            what = " ".join(item.step.text.split())[:60]
            step = f"#{item.step.number} {item.step.type}"
            lines.append(f"{item.tier:<7}{step:<22}{item.tokens:>6} tokens {score:>6}  {item.why or what}")
        return "\n".join(lines)


def current_task(steps: Iterable[Step]) -> TaskStep | None:
    """The newest task, or None."""
    found: TaskStep | None = None
    for step in steps:
        found = step if isinstance(step, TaskStep) else found
    return found


def fixed_steps(steps: Sequence[Step]) -> list[Step]:
    """What every context holds: the newest system prompt, the current task and the pinned steps, with their groups."""
    prompts = [step.id for step in steps if isinstance(step, SystemPromptStep)]
    task = current_task(steps)
    wanted = {*prompts[-1:], *([task.id] if task else []), *(step.id for step in steps if step.pinned)}
    return [step for group in groups(steps) if any(s.id in wanted for s in group) for step in group]


def assemble(
    steps: Sequence[Step],
    positions: Mapping[str, int],
    budget: int,
    counter: TokenCounter,
    recall: Callable[[int, Collection[int]], Recall],
    window_share: float,
    complete: bool,
) -> Context:
    """The context of at most `budget` tokens.

    `steps` are the window, `positions` how many tokens came before each since the memory began. `recall(tokens, shown
    numbers)` gives the block. `window_share` is the window's part of what the fixed steps leave; a `complete` window
    (nothing was archived) that fits is shown whole. Raises BudgetError when the fixed steps alone do not fit.
    """
    fixed = fixed_steps(steps)
    held = {step.id for step in fixed}
    rest = [group for group in groups(steps) if group[0].id not in held]
    newest = rest.pop() if rest else []
    room = budget - _fixed_cost(fixed, budget, counter)
    newest, shortened = _fitted(newest, room, counter)
    room -= _cost(newest, counter)
    shown = _from_start(
        rest, newest, positions, room, int(window_share * (budget - _cost(fixed, counter))), complete, counter
    )
    before = _in_order(steps, fixed, shown)
    head = repair(messages_from_steps(before))
    if not complete and next((m["role"] for m in head if m["role"] not in ("system", "developer")), "") == "assistant":
        at = next(i for i, m in enumerate(head) if m["role"] == "assistant")
        head.insert(at, {"role": "user", "content": NOTE})
    tail = repair(messages_from_steps(newest))
    left = budget - count_messages([*head, *tail], counter)
    numbers = {s.number for s in [*before, *([] if shortened else newest)] if s.number is not None}
    found = recall(left - PER_MESSAGE - counter.count("user"), numbers) if left >= LEAST_RECALL else Recall("", 0, ())
    messages = [*head, *([{"role": "user", "content": found.text}] if found else []), *tail]
    items = _report(fixed, [s for group in [*shown, newest] for s in group], steps, found, counter)
    return Context(messages, count_messages(messages, counter), budget, found, items)


def _cost(steps: Iterable[Step], counter: TokenCounter) -> int:
    return sum(count_message(message, counter) for message in repair(messages_from_steps(steps)))


def _fixed_cost(fixed: Sequence[Step], budget: int, counter: TokenCounter) -> int:
    costs: dict[str, int] = {}
    for step in fixed:
        name = "pinned steps" if step.pinned else step.type.replace("_", " ")
        costs[name] = costs.get(name, 0) + _cost([step], counter)
    needed = PER_REPLY + _cost(fixed, counter)
    if needed > budget:
        raise BudgetError(needed, budget, costs)
    return needed


def _fitted(group: list[Step], room: int, counter: TokenCounter) -> tuple[list[Step], bool]:
    """The group, whole if it fits `room`, else with its texts shortened to half of it, so that recall has the rest;
    nothing of it when even that does not fit."""
    if _cost(group, counter) <= room:
        return group, False
    room //= 2
    low, high = -1, 4 * max(room, 0)  # the longest text, in characters
    while high - low > 8:
        middle = (low + high) // 2
        fits = _cost([step.truncate(middle) for step in group], counter) <= room
        low, high = (middle, high) if fits else (low, middle)
    return ([step.truncate(low) for step in group] if low >= 0 else []), True


def _from_start(
    rest: list[list[Step]],
    newest: Sequence[Step],
    positions: Mapping[str, int],
    room: int,
    share: int,
    complete: bool,
    counter: TokenCounter,
) -> list[list[Step]]:
    """The groups that the window shows before the newest one.

    The start is the first group behind a multiple of half the share: it stays while steps come in, until what is
    shown has grown over the share, and then jumps by half of it.
    """
    costs = [_cost(group, counter) for group in rest]
    if complete and sum(costs) <= room:
        return rest
    jump = max(1, share // 2)
    end = max((positions[step.id] for step in newest), default=0) if newest else _end(rest, positions, costs)
    start = -(-(end - share) // jump) * jump
    first = next((i for i, group in enumerate(rest) if positions[group[0].id] >= start), len(rest))
    while sum(costs[first:]) > min(room, share):
        first += 1
    return rest[first:]


def _end(rest: Sequence[Sequence[Step]], positions: Mapping[str, int], costs: Sequence[int]) -> int:
    return positions[rest[-1][0].id] + costs[-1] if rest else 0


def _in_order(steps: Sequence[Step], fixed: Iterable[Step], shown: Iterable[Iterable[Step]]) -> list[Step]:
    wanted = {step.id for step in fixed} | {step.id for group in shown for step in group}
    return [step for step in steps if step.id in wanted]


def _report(
    fixed: Sequence[Step], shown: Sequence[Step], steps: Sequence[Step], found: Recall, counter: TokenCounter
) -> tuple[Item, ...]:
    items = [Item("fixed", step, _cost([step], counter)) for step in fixed]
    items += [Item("window", step, _cost([step], counter)) for step in shown]
    items += [
        Item(
            "recall",
            e.step,
            e.tokens,
            e.score,
            ", ".join(f"{name} {value:+.2f}" for name, value in list(e.why.items())[:3]),
        )
        for e in found.items
    ]
    seen = {item.step.id for item in items}
    items += [Item("out", step, 0, None, "over the window's share") for step in steps if step.id not in seen]
    return tuple(items)
