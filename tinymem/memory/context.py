"""The budgeted assembly of a prompt: what must be in, the window's newest groups, and what recall brings back.

    [system prompt, current task, pinned steps] [episodes] [window from its start] [scratchpad] [recalled]
    [newest group]

The window's start moves in jumps and does not depend on what is recalled, and episodes change when one is closed, so
everything before the scratchpad stays the same from call to call and prompt caches hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile

from tinymem.errors import BudgetError, InputError
from tinymem.messages.conversion import groups
from tinymem.messages.fitting import most_characters
from tinymem.messages.tokens import PER_MESSAGE, PER_REPLY, count_message
from tinymem.recall import Recall
from tinymem.steps.standins import covers_of, newest_of
from tinymem.steps.step import Message, Step
from tinymem.steps.terminal import many
from tinymem.steps.types import SystemPromptStep, TaskStep
from tinymem.window.sending import Sending, SentGroup, copies
from tinymem.window.strategy import critical

__all__ = [
    "Block",
    "Context",
    "Item",
    "Shares",
    "assemble",
    "current_task",
    "default_query",
    "fixed_steps",
]

QUERY_GROUPS = 2  # newest groups that a context without a query asks for
QUERY_LENGTH = 6_000  # characters of them, from the end
LEAST_BLOCK = 64  # tokens below which a block is not worth its fence
NOTE = {"role": "user", "content": "(Earlier messages are not shown.)"}  # opens what would begin with the assistant


@dataclass(frozen=True)
class Shares:
    """The share of a context, less the fixed steps, that each part has at most; recall has what they leave.

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
    """The place of a step in the context, its tokens, and the reason.

    `tier` is `"fixed"`, `"episodes"`, `"window"`, `"scratchpad"`, `"recall"` or `"out"`.
    """

    tier: str
    step: Step
    tokens: int
    score: float | None = None
    why: str = ""

    def __repr__(self) -> str:
        return f"<Item {self.tier}: {self.tokens} tokens: {self.step!r}>"


@dataclass(frozen=True)
class Context:
    """The `messages` to send, their exact `tokens` (at most `budget`), and the report of what is in and out."""

    messages: list[Message]
    tokens: int
    budget: int
    recalled: Recall
    items: tuple[Item, ...] = field(repr=False)

    def __repr__(self) -> str:
        parts = many(len(self.messages), "message"), f"{self.tokens:,} of {self.budget:,} tokens"
        return f"<Context: {', '.join(parts)}, {many(len(self.recalled.items), 'excerpt')} recalled>"

    def explain(self) -> str:
        """A line for every item: tier, step, tokens, score and why; before them, what recall had to do without."""
        lines = [f"{self.tokens} of {self.budget} tokens, {len(self.messages)} messages"]
        lines += [self.recalled.note] if self.recalled.note else []
        for item in self.items:
            score = "" if item.score is None else f"{item.score:+.2f}"
            what = " ".join(item.step.text.split())[:60]
            step = item.step.type if item.step.step_number is None else f"#{item.step.step_number} {item.step.type}"
            lines.append(f"{item.tier:<11}{step:<22}{item.tokens:>6} tokens {score:>6}  {item.why or what}")
        return "\n".join(lines)


def current_task(steps: Iterable[Step]) -> TaskStep | None:
    """The newest task, or None."""
    return newest_of(steps, TaskStep)


def default_query(steps: Sequence[Step]) -> str:
    """Return the query of a context that is given none: the current task, and the newest steps."""
    task = current_task(steps)
    newest = [step.text for group in groups(steps)[-QUERY_GROUPS:] for step in group]
    return "\n".join([*([task.text[:QUERY_LENGTH]] if task else []), "\n".join(newest)[-QUERY_LENGTH:]])


def fixed_steps(steps: Sequence[Step]) -> list[Step]:
    """Return what every context holds: newest system prompt, current task and pinned steps, with their groups."""
    wanted = _wanted(steps)
    return [step for group in groups(steps) if not wanted.isdisjoint(s.id for s in group) for step in group]


def _wanted(steps: Sequence[Step]) -> set[str]:
    return {step.id for step in critical(steps, "current")}


def assemble(
    steps: Sequence[Step],
    positions: Mapping[str, int],
    budget: int,
    sending: Sending,
    recall: Callable[[int, Collection[int]], Recall],
    shares: Shares,
    complete: bool,
    shortened: Collection[str] = (),
    episodes: Callable[[int], Block] | None = None,
    scratchpad: Callable[[int], Block] | None = None,
) -> Context:
    """Assemble the context of at most `budget` tokens.

    Args:
        steps: The window.
        positions: How many tokens came before each step since the memory began, by id.
        budget: The most tokens of the context.
        sending: Renders and counts the steps.
        recall: Gives the block of recall, of so many tokens, without the steps of the numbers that are shown.
        shares: The shares of the parts.
        complete: True if nothing was archived: a window that fits is then shown whole.
        shortened: Ids of steps that the window does not show whole; what it lacks of them may be recalled.
        episodes: Gives the block of episodes, of so many tokens.
        scratchpad: Gives the block of the scratchpad, of so many tokens.

    Raises:
        BudgetError: The fixed steps alone do not fit.
    """
    wanted, counter = _wanted(steps), sending.counter
    sent = sending(steps)
    fixed = [one for one in sent if not wanted.isdisjoint(step.id for step in one.group)]
    held = {one.first for one in fixed}
    room = budget - _fixed_cost(fixed, budget)
    window = _chosen(sent, held, positions, room, int(shares.window * room), complete, sending)
    before = _before(sent, held, window)
    lead = [*takewhile(lambda one: one.first in held, before)]
    rest = [*dropwhile(lambda one: one.first in held, before)]
    start, middle, tail = copies(lead), copies(rest), copies(window.newest)
    used = PER_REPLY + sum(one.tokens for one in [*before, *window.newest])
    opening = _note([*start, *middle], window.note, budget - used)
    left = budget - used - opening
    noted, pad = _block(scratchpad, min(left, int(shares.scratchpad * room)), sending)
    left -= sum(count_message(message, counter) for message in pad)
    covered, history = _block(None if complete else episodes, min(left, int(shares.episodes * room)), sending)
    left -= sum(count_message(message, counter) for message in history)
    hidden = _all_there(before, window, shortened)
    recalled = recall(left - _overhead(sending), hidden) if left >= LEAST_BLOCK else Recall("", 0, ())
    block = _as_message(recalled.text)
    used += sum(count_message(message, counter) for message in (*history, *pad, *block))
    messages = [*start, *history, *middle, *pad, *block, *tail]
    if opening := _note(messages, window.note, budget - used):
        at = _beginning(messages)
        messages[at:at] = [dict(NOTE)]
    visible = [one for one in [*window.earlier, *window.newest] if one.first not in held]
    tiers = {
        "fixed": _priced(fixed),
        "episodes": _shared(covered, history, sending),
        "window": _priced(visible),
        "scratchpad": _shared(noted, pad, sending),
    }
    items = _report(tiers, steps, recalled)
    return Context(messages, used + opening, budget, recalled, items)


@dataclass(frozen=True)
class _Chosen:
    """The window as it is shown: earlier groups, and the newest one, shortened if the `whole` does not fit.

    `newest` is empty if there is no window. `note` has the tokens of the note that steps are missing; -1 without it.
    """

    earlier: list[SentGroup]
    newest: list[SentGroup]
    whole: list[SentGroup]
    note: int


def _chosen(
    sent: Sequence[SentGroup],
    held: Collection[str],
    positions: Mapping[str, int],
    room: int,
    share: int,
    complete: bool,
    sending: Sending,
) -> _Chosen:
    """Choose the groups of the window that fit `room` tokens beside the groups `held` (ids).

    Unless all groups fit, those before the newest one have at most `share` tokens.
    """
    shown, whole = [one for one in sent[:-1] if one.first not in held], [*sent[-1:]]
    if complete and sum(one.tokens for one in sent if one.first not in held) <= room:
        return _Chosen(shown, whole, whole, -1)
    note, newest = count_message(NOTE, sending.counter), whole
    if whole and whole[0].first not in held:
        newest = _fitted(whole[0], room - note, sending)
        room -= sum(one.tokens for one in newest)
    end = max((positions[step.id] for one in whole for step in one.group), default=0)
    return _Chosen(_from_start(shown, end, positions, room - note, share), newest, whole, note)


def _block(make: Callable[[int], Block] | None, room: int, sending: Sending) -> tuple[Sequence[Step], list[Message]]:
    """Return the steps of a block of at most `room` tokens, and its message, if there is one."""
    if make is None or room < LEAST_BLOCK:
        return (), []
    block = make(room - _overhead(sending))
    return (block.steps, _as_message(block.text)) if block.text else ((), [])


def _as_message(text: str) -> list[Message]:
    return [{"role": "user", "content": text}] if text else []


def _overhead(sending: Sending) -> int:
    """Tokens of a user's message beyond its text."""
    return PER_MESSAGE + sending.counter.count("user")


def _beginning(messages: Sequence[Message]) -> int:
    """Return the place where the conversation begins, behind what the system says."""
    return next((i for i, m in enumerate(messages) if m["role"] not in ("system", "developer")), len(messages))


def _note(messages: Sequence[Message], note: int, room: int) -> int:
    """Return `note` if it fits `room` and `messages` begin with the assistant, which not every API takes; else 0."""
    begun = messages[_beginning(messages) :]
    return note if 0 <= note <= room and begun and begun[0]["role"] == "assistant" else 0


def _all_there(before: Iterable[SentGroup], window: _Chosen, shortened: Collection[str]) -> set[int]:
    """Numbers of the steps that are shown with all that was said in them."""
    newest, whole = ([step for one in some for step in one.group] for some in (window.newest, window.whole))
    cut = {step.id for step, original in zip(newest, whole, strict=False) if step != original}
    shown = [step for one in [*before, *window.newest] for step in one.group]
    shown = [step for step in shown if step.is_sent and step.id not in cut and step.id not in shortened]
    return {step.step_number for step in shown if step.step_number is not None}


def _fixed_cost(fixed: Sequence[SentGroup], budget: int) -> int:
    costs = {"reply": PER_REPLY}
    for one in fixed:
        name = "pinned steps" if any(step.pinned for step in one.group) else "current task"
        name = "system prompt" if any(isinstance(step, SystemPromptStep) for step in one.group) else name
        if one.tokens:
            costs[name] = costs.get(name, 0) + one.tokens
    if (needed := sum(costs.values())) > budget:
        raise BudgetError(needed, budget, costs)
    return needed


def _fitted(whole: SentGroup, room: int, sending: Sending) -> list[SentGroup]:
    """Return the group whole if it fits `room`, else with its texts cut to half of `room`, so that recall has the rest.

    Returns nothing if even the shortened group does not fit.
    """
    if whole.tokens <= room:
        return [whole]
    room //= 2

    def cut(most: int) -> SentGroup:
        return sending.instead(whole, [step.shortened(most) for step in whole.group])

    longest = most_characters(lambda most: cut(most).tokens <= room, room)
    return [cut(longest)] if longest >= 0 else []


def _from_start(
    rest: Sequence[SentGroup], end: int, positions: Mapping[str, int], room: int, share: int
) -> list[SentGroup]:
    """The groups that the window shows before the newest one, which is at `end`.

    The start is the first group behind a multiple of half the share: it stays while steps come in, until what is
    shown has grown over the share, and then jumps by half of it. Summaries stand for what is older than the window, so
    they do not go with its start.
    """
    summaries = [one for one in rest if covers_of(one.group[0])]
    taken = sum(one.tokens for one in summaries)
    if summaries and taken <= min(room, share):
        others = [one for one in rest if one not in summaries]
        return [*summaries, *_from_start(others, end, positions, room - taken, share - taken)]
    jump = max(1, share // 2)
    start = -(-(end - share) // jump) * jump
    first = next((i for i, one in enumerate(rest) if positions[one.first] >= start), len(rest))
    shown = sum(one.tokens for one in rest[first:])
    while first < len(rest) and shown > min(room, share):
        shown -= rest[first].tokens
        first += 1
    return [*rest[first:]]


def _before(sent: Sequence[SentGroup], held: Collection[str], window: _Chosen) -> list[SentGroup]:
    """Return what stands before the newest group, in order."""
    wanted = {*held, *(one.first for one in window.earlier)} - {one.first for one in window.newest}
    return [one for one in sent if one.first in wanted]


def _priced(shown: Iterable[SentGroup]) -> Iterable[tuple[Step, int]]:
    """The steps that are shown, with their tokens: the first of a group has all of the group's."""
    return ((step, 0 if at else one.tokens) for one in shown for at, step in enumerate(one.group))


def _shared(steps: Sequence[Step], block: Iterable[Message], sending: Sending) -> Iterable[tuple[Step, int]]:
    """The steps of a block, which is one message: they share what that costs by their length."""
    total = sum(count_message(message, sending.counter) for message in block)
    length = sum(len(step.text) for step in steps) or 1
    return ((step, total * len(step.text) // length) for step in steps)


def _report(tiers: Mapping[str, Iterable[tuple[Step, int]]], steps: Sequence[Step], found: Recall) -> tuple[Item, ...]:
    items = [Item(tier, step, tokens) for tier, shown in tiers.items() for step, tokens in shown]
    for one in found.items:
        why = ", ".join(f"{name} {value:+.2f}" for name, value in list(one.why.items())[:3])
        items.append(Item("recall", one.step, one.tokens, one.score, why))
    seen = {item.step.id for item in items}
    items += [Item("out", step, 0, None, "over the window's share") for step in steps if step.id not in seen]
    return tuple(items)
