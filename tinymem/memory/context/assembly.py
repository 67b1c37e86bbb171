"""The budgeted assembly of a prompt: what must be in, the window's newest groups, and what recall brings back.

    [system prompt, current task, pinned steps] [episodes] [window from its start] [scratchpad] [recalled]
    [newest group]

The window's start moves in jumps and does not depend on what is recalled, and episodes change when one is closed, so
everything before the scratchpad stays the same from call to call and prompt caches hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import takewhile

from tinymem.errors import BudgetError
from tinymem.memory.context.choice import NOTE, Chosen, choose
from tinymem.memory.context.context import Block, Context, Shares
from tinymem.memory.context.entries import Entry, added, shown
from tinymem.memory.context.items import priced, report, shared
from tinymem.memory.context.shortening import changed, least
from tinymem.memory.context.window import Given, Window, with_request
from tinymem.messages.tokens import PER_MESSAGE, PER_REPLY, count_message
from tinymem.recall import Recall
from tinymem.steps.step import Message, Step
from tinymem.steps.types import SystemPromptStep
from tinymem.window.sending import Sending, SentGroup

__all__ = ["assemble"]

LEAST_BLOCK = 64  # tokens below which a block is not worth its fence


def assemble(
    window: Window,
    budget: int,
    recall: Callable[[int, Collection[int]], Recall],
    shares: Shares,
    whole: float,
    episodes: Callable[[int], Block] | None = None,
    scratchpad: Callable[[int], Block] | None = None,
) -> Context:
    """Assemble the context of at most `budget` tokens.

    Args:
        window: What may be shown of the steps.
        budget: The most tokens of the context.
        recall: Gives the block of recall, of so many tokens, without the steps of the numbers that are shown.
        shares: The shares of the parts.
        whole: The share up to which a window is shown whole that fits; 1 where there is nothing else.
        episodes: Gives the block of episodes, of so many tokens.
        scratchpad: Gives the block of the scratchpad, of so many tokens.

    Raises:
        BudgetError: The fixed steps alone do not fit.
    """
    sending, given = window.sending, window.given
    counter = sending.counter
    fixed = [one for one in window.groups if one.first in window.fixed]
    room = budget - (cost := _fixed_cost(fixed, budget))
    chosen = choose(window, room, int(shares.window * room), whole)
    if window.request and window.request not in {one.first for one in [*fixed, *chosen.earlier, *chosen.newest]}:
        return assemble(with_request(window, room), budget, recall, shares, whole, episodes, scratchpad)
    if given is not None and window.groups and not chosen.newest:
        raise _too_long(window.groups[-1], cost, budget, sending)
    before = _before(window, chosen)
    lead = [*takewhile(lambda one: one.first in window.fixed, before)]
    cut = {*window.partial, *_cut(chosen)}
    inputs = given.inputs if given else _no_inputs
    start, middle = [*shown(lead, inputs, cut)], [*shown(before[len(lead) :], inputs, cut)]
    tail = [*shown(chosen.newest, inputs, cut, chosen.whole)]
    used = PER_REPLY + sum(one.tokens for one in [*before, *chosen.newest])
    opening = _note([*start, *middle], chosen.note, budget - used)
    left = budget - used - opening
    noted, pad = _block(scratchpad, min(left, int(shares.scratchpad * room)), sending)
    left -= sum(count_message(message, counter) for message in pad)
    covered, history = _block(None if whole == 1 else episodes, min(left, int(shares.episodes * room)), sending)
    left -= sum(count_message(message, counter) for message in history)
    hidden = _all_there([*before, *chosen.newest], cut, given)
    recalled = recall(left - _overhead(sending), hidden) if left >= LEAST_BLOCK else Recall("", 0, ())
    block = _as_message(recalled.text)
    used += sum(count_message(message, counter) for message in (*history, *pad, *block))
    stable = [*start, *added("episodes", history, covered), *middle]
    changing = [
        *added("scratchpad", pad, noted),
        *added("recalled", block, dict.fromkeys(item.step for item in recalled.items)),
        *tail,
    ]
    if opening := _note([*stable, *changing], chosen.note, budget - used):
        stable[(at := _beginning(stable)) : at] = added("note", [dict(NOTE)])
    visible = [one for one in [*chosen.earlier, *chosen.newest] if one.first not in window.fixed]
    tiers = {
        "fixed": priced(fixed),
        "episodes": shared(covered, history, sending),
        "window": priced(visible),
        "scratchpad": shared(noted, pad, sending),
    }
    entries = (*stable, *changing)
    messages = [one.message for one in entries]
    items = partial(report, tiers, window.steps, recalled)
    return Context(messages, used + opening, budget, recalled, entries, len(stable), report=items)


def _no_inputs(step: Step) -> Sequence[int]:
    return ()


def _too_long(newest: SentGroup, cost: int, budget: int, sending: Sending) -> BudgetError:
    needed = least(newest, sending).tokens
    return BudgetError(cost + needed, budget, {"reply, system prompt and task": cost, "newest messages": needed})


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
    return {id for newest, whole in zip(window.newest, window.whole, strict=False) for id in changed(newest, whole)}


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


def _before(window: Window, chosen: Chosen) -> list[SentGroup]:
    """Return what stands before the newest group, in order."""
    wanted = {*window.fixed, *(one.first for one in chosen.earlier)} - {one.first for one in chosen.newest}
    return [one for one in window.groups if one.first in wanted]
