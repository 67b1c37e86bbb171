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
from typing import Any, Protocol

from tinymem.errors import BudgetError, InputError
from tinymem.memory.context.choice import NOTE, Chosen, chosen, shortened
from tinymem.memory.context.entries import Entry, added, shown
from tinymem.memory.context.items import Item, priced, report, shared
from tinymem.messages.conversion import groups
from tinymem.messages.formats import Conversation, write_messages
from tinymem.messages.tokens import PER_MESSAGE, PER_REPLY, count_message
from tinymem.recall import Recall
from tinymem.steps.standins import newest_of
from tinymem.steps.step import Message, Step
from tinymem.steps.terminal import many
from tinymem.steps.types import SystemPromptStep, TaskStep
from tinymem.window.sending import Sending, SentGroup
from tinymem.window.strategy import critical

__all__ = [
    "Block",
    "Context",
    "Given",
    "Item",
    "Shares",
    "assemble",
    "current_task",
    "default_query",
    "fixed_steps",
]

QUERY_GROUPS = 2  # newest groups that a context without a query asks for
QUERY_STEPS = 200  # newest steps that these are looked for in
QUERY_LENGTH = 6_000  # characters of them, from the end
LEAST_BLOCK = 64  # tokens below which a block is not worth its fence


@dataclass(frozen=True)
class Shares:
    """The share of a context, less the fixed steps, that each part has at most; recall has what they leave.

    The defaults are measured: benchmarks/README.md. Episodes have no share unless they are given one: recall finds more
    in the same tokens, and they are for a model that is to see what its history was about. Raises InputError unless
    each is from 0 to 1, all together too.
    """

    window: float = 0.5
    episodes: float = 0.0
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
class Context:
    """The messages to send, and the report of what is in and out.

    Attributes:
        messages: The messages.
        tokens: Their exact tokens, at most `budget`, with those of thinking and reasoning that `to` sends with them.
        budget: The most tokens.
        recalled: The block of what was recalled.
        items: The place of every step, its tokens, and the reason.
        entries: For each message, where it comes from.
        stable: The number of messages at the beginning that stay the same from call to call, until the window jumps.
        read: Reads the conversation that `fit` was given, for `to`.
    """

    messages: list[Message]
    tokens: int
    budget: int
    recalled: Recall
    items: tuple[Item, ...] = field(repr=False)
    entries: tuple[Entry, ...] = field(default=(), repr=False)
    stable: int = 0
    read: Callable[[], Conversation] | None = field(default=None, repr=False, compare=False)

    def to(self, format: str | None = None, *, cache_control: Mapping[str, Any] | None = None) -> Any:
        """Return the messages in the format of a provider.

        Items that `fit` was given go back as they came, with all that is their provider's own, unless they were
        shortened.

        Args:
            format: `"openai"`, `"responses"` or `"anthropic"`; that of the items that `fit` was given unless said, else
                `"openai"`.
            cache_control: The mark at the end of the stable messages, as `{"type": "ephemeral"}`; Anthropic only.

        Returns:
            A list of items; for Anthropic a dict with `system`, if there is one, and `messages`.

        Raises:
            InputError: There is no such format, or it has no cache_control.

        >>> from tinymem import HierarchicalMemory
        >>> with HierarchicalMemory() as memory:
        ...     memory.fit([{"role": "user", "content": "Hi."}], session="s1").to("anthropic")
        {'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hi.'}]}]}
        """
        own = None if self.read is None else self.read()
        if own is not None and format in (None, own.format):
            return own.write(self.entries, stable=self.stable, cache_control=cache_control)
        return write_messages(self.messages, format or "openai", stable=self.stable, cache_control=cache_control)

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
    newest = [step.text for group in groups(steps[-QUERY_STEPS:])[-QUERY_GROUPS:] for step in group]
    return "\n".join([*([task.text[:QUERY_LENGTH]] if task else []), "\n".join(newest)[-QUERY_LENGTH:]])


def fixed_steps(steps: Sequence[Step]) -> list[Step]:
    """Return what every context holds: newest system prompt, current task and pinned steps, with their groups."""
    wanted = _wanted(steps)
    return [step for group in groups(steps) if not wanted.isdisjoint(s.id for s in group) for step in group]


def _wanted(steps: Sequence[Step]) -> set[str]:
    return {step.id for step in critical(steps, "current")}


def assemble(
    steps: Sequence[Step],
    positions: Mapping[str, int] | None,
    budget: int,
    sending: Sending,
    recall: Callable[[int, Collection[int]], Recall],
    shares: Shares,
    whole: float,
    partial: Collection[str] = (),
    episodes: Callable[[int], Block] | None = None,
    scratchpad: Callable[[int], Block] | None = None,
    given: Given | None = None,
) -> Context:
    """Assemble the context of at most `budget` tokens.

    Args:
        steps: The window.
        positions: How many tokens came before each step since the memory began, by id; by default in `steps`.
        budget: The most tokens of the context.
        sending: Renders and counts the steps.
        recall: Gives the block of recall, of so many tokens, without the steps of the numbers that are shown.
        shares: The shares of the parts.
        whole: The share up to which a window is shown whole that fits; 1 where there is nothing else.
        partial: Ids of steps that the window does not show whole; what it lacks of them may be recalled.
        episodes: Gives the block of episodes, of so many tokens.
        scratchpad: Gives the block of the scratchpad, of so many tokens.
        given: The messages that the window was made of, where the caller has them. The newest group is then in every
            context.

    Raises:
        BudgetError: The fixed steps alone do not fit.
    """
    wanted, counter = _wanted(steps), sending.counter
    sent = sending(steps)
    positions = _positions(sent) if positions is None else positions
    fixed = [one for one in sent if not wanted.isdisjoint(step.id for step in one.group)]
    held = {one.first for one in fixed}
    room = budget - (cost := _fixed_cost(fixed, budget))
    window = chosen(sent, held, positions, room, int(shares.window * room), whole, sending)
    if given is not None and sent and not window.newest:
        raise _too_long(sent[-1], cost, budget, sending)
    before = _before(sent, held, window)
    lead = [*takewhile(lambda one: one.first in held, before)]
    rest = [*dropwhile(lambda one: one.first in held, before)]
    cut = {*partial, *_cut(window)}
    inputs = given.inputs if given else _no_inputs
    start, middle = [*shown(lead, inputs, cut)], [*shown(rest, inputs, cut)]
    tail = [*shown(window.newest, inputs, cut, window.whole)]
    used = PER_REPLY + sum(one.tokens for one in [*before, *window.newest])
    opening = _note([*start, *middle], window.note, budget - used)
    left = budget - used - opening
    noted, pad = _block(scratchpad, min(left, int(shares.scratchpad * room)), sending)
    left -= sum(count_message(message, counter) for message in pad)
    covered, history = _block(None if whole == 1 else episodes, min(left, int(shares.episodes * room)), sending)
    left -= sum(count_message(message, counter) for message in history)
    hidden = _all_there([*before, *window.newest], cut, given)
    recalled = recall(left - _overhead(sending), hidden) if left >= LEAST_BLOCK else Recall("", 0, ())
    block = _as_message(recalled.text)
    used += sum(count_message(message, counter) for message in (*history, *pad, *block))
    stable = [*start, *added("episodes", history, covered), *middle]
    changing = [
        *added("scratchpad", pad, noted),
        *added("recalled", block, dict.fromkeys(item.step for item in recalled.items)),
        *tail,
    ]
    if opening := _note([*stable, *changing], window.note, budget - used):
        stable[(at := _beginning(stable)) : at] = added("note", [dict(NOTE)])
    visible = [one for one in [*window.earlier, *window.newest] if one.first not in held]
    tiers = {
        "fixed": priced(fixed),
        "episodes": shared(covered, history, sending),
        "window": priced(visible),
        "scratchpad": shared(noted, pad, sending),
    }
    items = report(tiers, steps, recalled)
    entries = (*stable, *changing)
    return Context([one.message for one in entries], used + opening, budget, recalled, items, entries, len(stable))


class Given(Protocol):
    """The messages that a window was made of, where the caller has them."""

    def inputs(self, step: Step) -> Sequence[int]:
        """Return the indices of a step's messages in the caller's list."""

    def numbers(self, step: Step) -> Collection[int]:
        """Return the numbers of the steps that stand whole in the messages of a step."""


def _no_inputs(step: Step) -> Sequence[int]:
    return ()


def _positions(sent: Iterable[SentGroup]) -> dict[str, int]:
    positions, before = {}, 0
    for one in sent:
        for step in one.group:
            positions[step.id] = before
        before += one.tokens
    return positions


def _too_long(newest: SentGroup, cost: int, budget: int, sending: Sending) -> BudgetError:
    least = shortened(newest, 0, True, sending).tokens
    return BudgetError(cost + least, budget, {"reply, system prompt and task": cost, "newest messages": least})


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


def _beginning(entries: Sequence[Entry]) -> int:
    """Return the place where the conversation begins, behind what the system says."""
    roles = (one.message["role"] for one in entries)
    return next((i for i, role in enumerate(roles) if role not in ("system", "developer")), len(entries))


def _note(entries: Sequence[Entry], note: int, room: int) -> int:
    """Return `note` if it fits `room` and the messages begin with the assistant, which not every API takes; else 0."""
    begun = entries[_beginning(entries) :]
    return note if 0 <= note <= room and begun and begun[0].message["role"] == "assistant" else 0


def _cut(window: Chosen) -> set[str]:
    """Return the ids of the steps of the newest group that are not shown whole."""
    newest, whole = ([step for one in some for step in one.group] for some in (window.newest, window.whole))
    return {step.id for step, original in zip(newest, whole, strict=False) if step != original}


def _all_there(sent: Iterable[SentGroup], cut: Collection[str], given: Given | None) -> set[int]:
    """Return the numbers of the steps that are shown with all that was said in them."""
    there = [step for one in sent for step in one.group if step.is_sent and step.id not in cut]
    if given is not None:
        return {number for step in there for number in given.numbers(step)}
    return {step.step_number for step in there if step.step_number is not None}


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


def _before(sent: Sequence[SentGroup], held: Collection[str], window: Chosen) -> list[SentGroup]:
    """Return what stands before the newest group, in order."""
    wanted = {*held, *(one.first for one in window.earlier)} - {one.first for one in window.newest}
    return [one for one in sent if one.first in wanted]
