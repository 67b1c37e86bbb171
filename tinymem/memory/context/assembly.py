"""The budgeted assembly of a prompt: what must be in, the window's newest groups, and what recall brings back.

    [system prompt, current task, pinned steps] [episodes] [window from its start] [scratchpad] [recalled]
    [newest group]

The window's start moves in jumps and does not depend on what is recalled, and episodes change when one is closed, so
everything before the scratchpad stays the same from call to call and prompt caches hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TypeAlias

from tinymem.errors import BudgetError
from tinymem.memory.context.context import NOTE, Block, Context, Entry, Item, Kind, Shares
from tinymem.memory.context.window import Given, Window, least, shorten_group, shortened_ids, with_request
from tinymem.messages.chains import NATIVE
from tinymem.messages.tokens import PER_MESSAGE, PER_REPLY, count_message
from tinymem.recall import Recall
from tinymem.steps.content import to_mutable
from tinymem.steps.standins import covers_of
from tinymem.steps.step import Message, Step
from tinymem.steps.types import SystemPromptStep
from tinymem.window.sending import MessageRenderer, RenderedGroup

__all__ = ["assemble"]

LEAST_BLOCK = 64  # tokens below which a block is not worth its fence

Priced: TypeAlias = Sequence[tuple[Step, int]]  # steps, each with its tokens


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
    choice = choose(window, room, int(shares.window * room), whole)
    if window.request and window.request not in {one.first for one in [*fixed, *choice.earlier, *choice.newest]}:
        return assemble(with_request(window, room), budget, recall, shares, whole, episodes, scratchpad)
    if given is not None and window.groups and not choice.newest:
        needed = least(window.groups[-1], sending).tokens
        raise BudgetError(cost + needed, budget, {"reply, system prompt and task": cost, "newest messages": needed})
    wanted = {*window.fixed, *(one.first for one in choice.earlier)} - {one.first for one in choice.newest}
    before = [one for one in window.groups if one.first in wanted]
    lead = [*takewhile(lambda one: one.first in window.fixed, before)]
    cut = {*window.partial}
    for newest, original in zip(choice.newest, choice.whole, strict=False):
        cut |= shortened_ids(newest, original)
    start, middle = entries_of(lead, given, cut), entries_of(before[len(lead) :], given, cut)
    tail = entries_of(choice.newest, given, cut, choice.whole)
    used = PER_REPLY + sum(one.tokens for one in [*before, *choice.newest])
    opening = _note([*start, *middle], choice.note, budget - used)
    left = budget - used - opening
    noted, pad = _block(scratchpad, min(left, int(shares.scratchpad * room)), sending)
    left -= sum(count_message(message, counter) for message in pad)
    covered, history = _block(None if whole == 1 else episodes, min(left, int(shares.episodes * room)), sending)
    left -= sum(count_message(message, counter) for message in history)
    hidden = _numbers_shown([*before, *choice.newest], cut, given)
    recalled = recall(left - _overhead(sending), hidden) if left >= LEAST_BLOCK else Recall("", 0, ())
    block: list[Message] = [{"role": "user", "content": recalled.text}] if recalled.text else []
    used += sum(count_message(message, counter) for message in (*history, *pad, *block))
    found = {item.step.id: item.step for item in recalled.items}
    stable = [*start, *_block_entries("episodes", history, covered), *middle]
    changing = [
        *_block_entries("scratchpad", pad, noted),
        *_block_entries("recalled", block, found.values()),
        *tail,
    ]
    if opening := _note([*stable, *changing], choice.note, budget - used):
        stable[(at := _start_of_conversation(stable)) : at] = _block_entries("note", [dict(NOTE)])
    visible = [one for one in [*choice.earlier, *choice.newest] if one.first not in window.fixed]
    tiers = {
        "fixed": _priced(fixed),
        "episodes": _shared(covered, history, sending),
        "window": _priced(visible),
        "scratchpad": _shared(noted, pad, sending),
    }
    entries = (*stable, *changing)
    messages = [one.message for one in entries]
    items = partial(_report, tiers, window.steps, recalled)
    return Context(messages, used + opening, budget, recalled, entries, len(stable), report=items)


def _block(
    make: Callable[[int], Block] | None, room: int, sending: MessageRenderer
) -> tuple[Sequence[Step], list[Message]]:
    """Return the steps of a block of at most `room` tokens, and its message, if there is one."""
    if make is None or room < LEAST_BLOCK:
        return (), []
    block = make(room - _overhead(sending))
    return (block.steps, [{"role": "user", "content": block.text}]) if block.text else ((), [])


def _overhead(sending: MessageRenderer) -> int:
    """Tokens of a user's message beyond its text."""
    return PER_MESSAGE + sending.counter.count("user")


def _start_of_conversation(entries: Sequence[Entry]) -> int:
    """Return the place where the conversation begins, behind what the system says."""
    roles = (one.message["role"] for one in entries)
    return next((i for i, role in enumerate(roles) if role not in ("system", "developer")), len(entries))


def _note(entries: Sequence[Entry], note: int, room: int) -> int:
    """Return `note` if it fits `room` and the messages begin with the assistant, which not every API takes; else 0."""
    begun = entries[_start_of_conversation(entries) :]
    return note if 0 <= note <= room and begun and begun[0].message["role"] == "assistant" else 0


def _cut(window: Choice) -> set[str]:
    """Return the ids of the steps of the newest group that are not shown whole."""
    return {
        id for newest, whole in zip(window.newest, window.whole, strict=False) for id in shortened_ids(newest, whole)
    }


def _numbers_shown(sent: Iterable[RenderedGroup], cut: Collection[str], given: Given | None) -> set[int]:
    """Return the numbers of the steps that are shown with all that was said in them."""
    there = [step for one in sent for step in one.group if step.is_sent and step.id not in cut]
    if given is not None:
        return {number for step in there for number in given.numbers(step)}
    return {step.step_number for step in there if step.step_number is not None}


def _fixed_cost(fixed: Sequence[RenderedGroup], budget: int) -> int:
    costs = {"reply": PER_REPLY}
    for one in fixed:
        name = "pinned steps" if any(step.pinned for step in one.group) else "current task"
        name = "system prompt" if any(isinstance(step, SystemPromptStep) for step in one.group) else name
        if one.tokens:
            costs[name] = costs.get(name, 0) + one.tokens
    if (needed := sum(costs.values())) > budget:
        raise BudgetError(needed, budget, costs)
    return needed


# -- the groups of the window that are shown


@dataclass(frozen=True)
class Choice:
    """The window as it is shown: earlier groups, and the newest one, shortened if the `whole` does not fit.

    `newest` is empty if there is no window. `note` has the tokens of the note that steps are missing; -1 without it.
    """

    earlier: list[RenderedGroup]
    newest: list[RenderedGroup]
    whole: list[RenderedGroup]
    note: int


def choose(window: Window, room: int, share: int, whole_up_to: float) -> Choice:
    """Choose the groups of the window that fit `room` tokens beside the fixed ones.

    Unless all groups fit the share `whole_up_to` of it, those before the newest one have at most `share` tokens. A
    newest one that does not fit is cut to half of the room, so that recall has the rest, or as far as its files need.
    """
    others = [one for one in window.groups if one.first not in window.fixed]
    whole = [*window.groups[-1:]]
    is_free = bool(whole) and whole[0].first not in window.fixed
    earlier = others[:-1] if is_free else others
    total = sum(one.tokens for one in others)
    if whole_up_to == 1 and total <= room:
        return Choice(earlier, whole, whole, -1)
    note, newest = count_message(NOTE, window.sending.counter), whole
    if total <= int(whole_up_to * room) - note:
        return Choice(earlier, whole, whole, note)
    if is_free:
        left = room - note
        newest = whole if whole[0].tokens <= left else [shorten_group(whole[0], left // 2, left, window.sending)]
        newest = [one for one in newest if one.tokens <= left]
        room -= sum(one.tokens for one in newest)
    end = max((window.positions[step.id] for one in whole for step in one.group), default=0)
    return Choice(_from_start(earlier, end, window.positions, room - note, share), newest, whole, note)


def _from_start(
    rest: Sequence[RenderedGroup], end: int, positions: Mapping[str, int], room: int, share: int
) -> list[RenderedGroup]:
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


# -- the messages of the groups, and the report of their steps


def _block_entries(kind: Kind, messages: Iterable[Message], steps: Iterable[Step] = ()) -> list[Entry]:
    """Return the entries of messages that the memory adds."""
    return [Entry(message, kind, None, tuple(steps)) for message in messages]


def entries_of(
    groups: Iterable[RenderedGroup], given: Given | None, cut: Collection[str], whole: Sequence[RenderedGroup] = ()
) -> list[Entry]:
    """Return the entries of groups that are shown.

    Args:
        groups: The groups.
        given: The caller's own messages, where there are any.
        cut: Ids of steps that are not whole.
        whole: The groups as they would be sent whole, those that are shown shortened at least.
    """
    originals = {
        (one.group[source[0]].id, source[1]): message
        for one in whole
        for message, source in zip(one.messages, one.sources, strict=True)
        if source is not None
    }
    entries: list[Entry] = []
    for one in groups:
        for message, source in zip(one.messages, one.sources, strict=True):
            own: Message = to_mutable(message)
            if source is None:
                entries.append(Entry(own, "placeholder" if own["role"] == "tool" else "moved", None, tuple(one.group)))
                continue
            step, place = one.group[source[0]], source[1]
            inputs = given.inputs(step) if given else ()
            index = inputs[place] if place < len(inputs) else None
            is_cut = step.id in cut and message != originals.get((step.id, place))
            native = step.overlay[place].get("set", {}).get(NATIVE) if place < len(step.overlay) else None
            entries.append(Entry(own, "message", index, (step,), is_cut, native and to_mutable(native)))
    return entries


def _priced(shown: Iterable[RenderedGroup]) -> Priced:
    """Return the steps that are shown, with their tokens: the first of a group has all of the group's."""
    return [(step, 0 if at else one.tokens) for one in shown for at, step in enumerate(one.group)]


def _shared(steps: Sequence[Step], block: Iterable[Message], sending: MessageRenderer) -> Priced:
    """Return the steps of a block, which is one message: they share what that costs by their length."""
    total = sum(count_message(message, sending.counter) for message in block)
    length = sum(len(step.text) for step in steps) or 1
    return [(step, total * len(step.text) // length) for step in steps]


def _report(tiers: Mapping[str, Priced], steps: Sequence[Step], found: Recall) -> tuple[Item, ...]:
    """Return an item for every step that is shown or recalled, or is not."""
    items = [Item(tier, step, tokens) for tier, shown in tiers.items() for step, tokens in shown]
    for one in found.items:
        why = ", ".join(f"{name} {value:+.2f}" for name, value in list(one.why.items())[:3])
        items.append(Item("recall", one.step, one.tokens, one.score, why))
    seen = {item.step.id for item in items}
    items += [Item("out", step, 0, None, "over the window's share") for step in steps if step.id not in seen]
    return tuple(items)
