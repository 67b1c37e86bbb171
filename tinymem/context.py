"""The budgeted assembly of a prompt: what must be in, the window's newest groups, and what recall brings back.

    [system prompt, current task, pinned steps] [episodes] [window from its start] [scratchpad] [recalled]
    [newest group]

The window's start moves in jumps and does not depend on what is recalled, and episodes change when one is closed, so
everything before the scratchpad stays the same from call to call and prompt caches hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from tinymem.base import Message, Step
from tinymem.errors import BudgetError, InputError
from tinymem.fitting import most_characters
from tinymem.messages import groups, messages_from_steps, repair
from tinymem.protocols import TokenCounter
from tinymem.recall import Recall
from tinymem.steps import SummaryStep, SystemPromptStep, TaskStep
from tinymem.tokens import PER_MESSAGE, PER_REPLY, count_message, count_messages

__all__ = ["Block", "Context", "Item", "Shares", "assemble", "current_task", "default_query", "fixed_steps"]

QUERY_GROUPS = 2  # newest groups that a context without a query asks for
QUERY_LENGTH = 6_000  # characters of them, from the end
LEAST_BLOCK = 64  # tokens below which a block is not worth its fence
NOTE = {"role": "user", "content": "(Earlier messages are not shown.)"}  # opens what would begin with the assistant


@dataclass(frozen=True)
class Shares:
    """How much of a context, less the fixed steps, goes to each part at most; recall has what they leave.

    The defaults are measured: benchmarks/README.md. Raises InputError unless each is from 0 to 1, all together too.
    """

    window: float = 0.5
    episodes: float = 0.05
    scratchpad: float = 0.2

    def __post_init__(self) -> None:
        shares = (self.window, self.episodes, self.scratchpad)
        numbers = all(isinstance(share, (int, float)) and 0 <= share <= 1 for share in shares)
        if not numbers or sum(shares) > 1:
            raise InputError(f"shares must be from 0 to 1, and no more than 1 together: {self!r}")


@dataclass(frozen=True)
class Block:
    """A part of the context that is no step of the window: its fenced `text`, and the steps that stand for it."""

    text: str
    steps: Sequence[Step] = ()


@dataclass(frozen=True)
class Item:
    """One step's place in the context: its `tier` (`"fixed"`, `"episodes"`, `"window"`, `"scratchpad"`, `"recall"` or
    `"out"`), its tokens, why."""

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
            step = item.step.type if item.step.number is None else f"#{item.step.number} {item.step.type}"
            lines.append(f"{item.tier:<11}{step:<22}{item.tokens:>6} tokens {score:>6}  {item.why or what}")
        return "\n".join(lines)


def current_task(steps: Iterable[Step]) -> TaskStep | None:
    """The newest task, or None."""
    found: TaskStep | None = None
    for step in steps:
        found = step if isinstance(step, TaskStep) else found
    return found


def default_query(steps: Sequence[Step]) -> str:
    """What a context asks for unless told: the current task, and the newest steps."""
    task = current_task(steps)
    newest = [step.text for group in groups(steps)[-QUERY_GROUPS:] for step in group]
    return "\n".join([*([task.text[:QUERY_LENGTH]] if task else []), "\n".join(newest)[-QUERY_LENGTH:]])


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
    shares: Shares,
    complete: bool,
    shortened: Collection[str] = (),
    episodes: Callable[[int], Block] | None = None,
    scratchpad: Callable[[int], Block] | None = None,
) -> Context:
    """The context of at most `budget` tokens.

    `steps` are the window, `positions` how many tokens came before each since the memory began. `recall(tokens, shown
    numbers)` gives the block, `episodes(tokens)` and `scratchpad(tokens)` give theirs. A `complete` window (nothing was
    archived) that fits is shown whole. What the steps `shortened` (ids) lack in the window may be recalled. Raises
    BudgetError when the fixed steps alone do not fit.
    """
    fixed = fixed_steps(steps)
    held = {step.id for step in fixed}
    room = budget - _fixed_cost(fixed, budget, counter)
    window = _chosen(steps, held, positions, room, int(shares.window * room), complete, counter)
    before = _before(steps, fixed, window.earlier, window.whole)
    lead = list(takewhile(lambda step: step.id in held, before))
    start, rest, tail = (repair(messages_from_steps(some)) for some in (lead, before[len(lead) :], window.newest))
    head = _opened([*start, *rest], window.note, budget - count_messages([*start, *rest, *tail], counter))
    left = budget - count_messages([*head, *tail], counter)
    noted, pad = _block(scratchpad, min(left, int(shares.scratchpad * room)), counter)
    left -= sum(count_message(message, counter) for message in pad)
    told, history = _block(None if complete else episodes, min(left, int(shares.episodes * room)), counter)
    left -= sum(count_message(message, counter) for message in history)
    hidden = _all_there(before, window.newest, window.whole, shortened)
    recalled = recall(left - _overhead(counter), hidden) if left >= LEAST_BLOCK else Recall("", 0, ())
    messages = [*start, *history, *rest, *pad, *_as_message(recalled.text), *tail]
    messages = _opened(messages, window.note, budget - count_messages(messages, counter))
    visible = [step for group in [*window.earlier, window.newest] for step in group if step.id not in held]
    tiers = {"fixed": fixed, "episodes": told, "window": visible, "scratchpad": noted}
    items = _report(tiers, steps, recalled, counter)
    return Context(messages, count_messages(messages, counter), budget, recalled, items)


@dataclass(frozen=True)
class _Chosen:
    """What the window shows: groups, and the newest one, shortened if the `whole` does not fit. `note` is what it costs
    to say that something is missing, -1 where nothing is."""

    earlier: list[list[Step]]
    newest: list[Step]
    whole: list[Step]
    note: int


def _chosen(
    steps: Sequence[Step],
    held: Collection[str],
    positions: Mapping[str, int],
    room: int,
    share: int,
    complete: bool,
    counter: TokenCounter,
) -> _Chosen:
    """What the window shows in `room` tokens beside the steps `held` (ids): of what comes before the newest group no
    more than its `share`, unless all fits."""
    *earlier, whole = groups(steps) or [[]]
    shown = [group for group in earlier if group[0].id not in held]
    if complete and _cost([step for step in steps if step.id not in held], counter) <= room:
        return _Chosen(shown, whole, whole, -1)
    note, newest = count_message(NOTE, counter), whole
    if whole and whole[0].id not in held:
        newest = _fitted(whole, room - note, counter)
        room -= _cost(newest, counter)
    end = max((positions[step.id] for step in whole), default=0)
    return _Chosen(_from_start(shown, end, positions, room - note, share, counter), newest, whole, note)


def _block(
    make: Callable[[int], Block] | None, room: int, counter: TokenCounter
) -> tuple[Sequence[Step], list[Message]]:
    """What `make` tells in a message of at most `room` tokens: its steps, and the message, if there is one."""
    if make is None or room < LEAST_BLOCK:
        return (), []
    block = make(room - _overhead(counter))
    return (block.steps, _as_message(block.text)) if block.text else ((), [])


def _as_message(text: str) -> list[Message]:
    return [{"role": "user", "content": text}] if text else []


def _overhead(counter: TokenCounter) -> int:
    """Tokens of a user's message beyond its text."""
    return PER_MESSAGE + counter.count("user")


def _opened(messages: list[Message], note: int, room: int) -> list[Message]:
    """With a note of `note` tokens in front, if there is `room`, where they would begin with the assistant, which not
    every API takes."""
    at = next((i for i, m in enumerate(messages) if m["role"] not in ("system", "developer")), len(messages))
    if not 0 <= note <= room or not messages[at:] or messages[at]["role"] != "assistant":
        return messages
    return [*messages[:at], dict(NOTE), *messages[at:]]


def _all_there(
    before: Iterable[Step], newest: Sequence[Step], whole: Sequence[Step], shortened: Collection[str]
) -> set[int]:
    """Numbers of the steps that are shown with all that was said in them."""
    cut = {step.id for step, original in zip(newest, whole, strict=False) if step != original}
    shown = [step for step in [*before, *newest] if step.id not in cut and step.id not in shortened]
    return {step.number for step in shown if step.number is not None}


def _cost(steps: Iterable[Step], counter: TokenCounter) -> int:
    return sum(count_message(message, counter) for message in repair(messages_from_steps(steps)))


def _fixed_cost(fixed: Sequence[Step], budget: int, counter: TokenCounter) -> int:
    costs = {"reply": PER_REPLY}
    for group in groups(fixed):
        name = "pinned steps" if any(step.pinned for step in group) else "current task"
        name = "system prompt" if any(isinstance(step, SystemPromptStep) for step in group) else name
        if cost := _cost(group, counter):
            costs[name] = costs.get(name, 0) + cost
    if (needed := sum(costs.values())) > budget:
        raise BudgetError(needed, budget, costs)
    return needed


def _fitted(group: list[Step], room: int, counter: TokenCounter) -> list[Step]:
    """The group, whole if it fits `room`, else with its texts shortened to half of it, so that recall has the rest;
    nothing of it when even that does not fit."""
    if _cost(group, counter) <= room:
        return group
    room //= 2
    longest = most_characters(lambda most: _cost([step.truncate(most) for step in group], counter) <= room, room)
    return [step.truncate(longest) for step in group] if longest >= 0 else []


def _from_start(
    rest: list[list[Step]], end: int, positions: Mapping[str, int], room: int, share: int, counter: TokenCounter
) -> list[list[Step]]:
    """The groups that the window shows before the newest one, which is at `end`.

    The start is the first group behind a multiple of half the share: it stays while steps come in, until what is
    shown has grown over the share, and then jumps by half of it. Summaries stand for what is older than the window, so
    they do not go with its start.
    """
    summaries = [group for group in rest if isinstance(group[0], SummaryStep) and group[0].covers]
    taken = sum(_cost(group, counter) for group in summaries)
    if summaries and taken <= min(room, share):
        others = [group for group in rest if group not in summaries]
        return [*summaries, *_from_start(others, end, positions, room - taken, share - taken, counter)]
    costs = [_cost(group, counter) for group in rest]
    jump = max(1, share // 2)
    start = -(-(end - share) // jump) * jump
    first = next((i for i, group in enumerate(rest) if positions[group[0].id] >= start), len(rest))
    while first < len(rest) and sum(costs[first:]) > min(room, share):
        first += 1
    return rest[first:]


def _before(
    steps: Sequence[Step], fixed: Iterable[Step], shown: Iterable[Iterable[Step]], newest: Iterable[Step]
) -> list[Step]:
    """What stands before the newest group, in order."""
    wanted = {step.id for step in fixed} | {step.id for group in shown for step in group}
    wanted -= {step.id for step in newest}
    return [step for step in steps if step.id in wanted]


def _report(
    tiers: Mapping[str, Iterable[Step]], steps: Sequence[Step], found: Recall, counter: TokenCounter
) -> tuple[Item, ...]:
    items = [Item(tier, step, _cost([step], counter)) for tier, shown in tiers.items() for step in shown]
    for one in found.items:
        why = ", ".join(f"{name} {value:+.2f}" for name, value in list(one.why.items())[:3])
        items.append(Item("recall", one.step, one.tokens, one.score, why))
    seen = {item.step.id for item in items}
    items += [Item("out", step, 0, None, "over the window's share") for step in steps if step.id not in seen]
    return tuple(items)
