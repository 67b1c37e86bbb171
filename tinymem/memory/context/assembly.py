"""The budgeted assembly of a prompt: what must be in, the window's newest groups, and what recall brings back.

    [system prompt, current task, pinned steps] [episodes] [window from its start] [scratchpad] [recalled]
    [newest group]

The window's start moves in jumps, and gives way only to what is asked; episodes change when one is closed. So what
stands before the scratchpad stays the same from call to call and prompt caches hold. A prompt that goes on from the one
before leaves all of that as it was sent (`extend`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tinymem.errors import BudgetError
from tinymem.memory.context.context import NOTE, Block, Kind, Shares
from tinymem.memory.context.prompt import AddedMessage, Part, Prompt, SentGroup
from tinymem.memory.context.recaller import LEAST_BLOCK, NOTHING, WORTH, Recaller
from tinymem.memory.context.window import Choice, RenderedWindow, choose, least, with_request
from tinymem.messages.tokens import PER_MESSAGE, PER_REPLY, count_message
from tinymem.recall import Excerpt, Recall
from tinymem.steps.step import Message
from tinymem.window.sending import MessageRenderer, RenderedGroup, tokens_of
from tinymem.window.strategy import sum_fixed

__all__ = ["Blocks", "assemble", "extend"]

PROMPTS = ("system", "developer")  # roles of what stands before the conversation


@dataclass(frozen=True)
class Blocks:
    """The blocks of a prompt, each made in so many tokens.

    Attributes:
        recall: Finds what is recalled.
        episodes: Makes the block of episodes.
        scratchpad: Makes the block of the scratchpad.
        is_asked: True if the caller asks for something, and not the newest steps.
    """

    recall: Recaller
    episodes: Callable[[int], Block] | None = None
    scratchpad: Callable[[int], Block] | None = None
    is_asked: bool = False


def assemble(
    window: RenderedWindow,
    budget: int,
    goal: int,
    blocks: Blocks,
    shares: Shares,
    whole: float,
    *,
    moves_in_jumps: bool = True,
) -> Prompt:
    """Assemble a prompt of at most `budget` tokens.

    What is asked and what must be in may have all of them, and the window gives way; it and the rest are for `goal`.

    Args:
        window: What may be shown of the steps.
        budget: The most tokens of the prompt.
        goal: The tokens that it is to have.
        blocks: The parts that are no steps of the window.
        shares: The shares of the parts.
        whole: The share up to which a window is shown whole that fits; 1 where there is nothing else.
        moves_in_jumps: The window's start moves in jumps, so that prompts begin alike that do not go on from each
            other; else it has as much of its share as there is.

    Raises:
        BudgetError: The fixed steps alone do not fit.
    """
    window, choice, room = _choose_groups(window, goal, shares, whole, moves_in_jumps)
    sending, recall = window.sending, blocks.recall
    while True:
        earlier, newest = _place_groups(window, choice)
        shown = Prompt((*earlier, *newest), 0, NOTHING)
        numbers = shown.numbers(window.partial, window.given)
        left = budget - shown.tokens - _overhead(sending)
        left -= _note_tokens(earlier, choice.note, left)
        can_go = tokens_of(group for group in choice.earlier if group.first != window.request)
        found = recall.asked(left, left + can_go, numbers)
        needed = recall.needed(found).tokens
        if needed <= left or not can_go:
            break
        choice = choice.without_oldest(needed - left, count_message(NOTE, sending.counter), window.request)
    pad = _block("scratchpad", blocks.scratchpad, min(left - needed, int(shares.scratchpad * room)), sending)
    left -= _tokens(pad)
    make_episodes = None if whole == 1 else blocks.episodes
    history = _block("episodes", make_episodes, min(left - needed, int(shares.episodes * room)), sending)
    most = left - _tokens(history) - (budget - goal)
    recalled = recall.filled(found, most, numbers, ())
    lead = [*takewhile(lambda part: part.tier == "fixed", earlier)]
    stable: list[Part] = [*lead, *history, *earlier[len(lead) :]]
    changing: list[Part] = [*pad, *_recalled(recalled, sending), *newest]
    parts = [*stable, *changing]
    note = _note_tokens(parts, choice.note, budget - PER_REPLY - _tokens(parts))
    if note:
        behind = [*takewhile(lambda part: part.role in PROMPTS, stable)]
        stable.insert(len(behind), AddedMessage("note", note, dict(NOTE)))
    sent = (*stable, *changing)
    return Prompt(sent, len(stable), recalled, _corrections(sent))


def _choose_groups(
    window: RenderedWindow, budget: int, shares: Shares, whole: float, moves_in_jumps: bool
) -> tuple[RenderedWindow, Choice, int]:
    """Choose the groups of a prompt; its newest request is one of the fixed ones where it would not be shown else.

    Returns:
        The window with its fixed groups, what is shown of it, and the room beside the fixed groups, in tokens.

    Raises:
        BudgetError: The fixed groups do not fit, or the newest messages that the caller gave do not.
    """
    fixed = [(sent.group, sent.tokens) for sent in window.groups if sent.first in window.fixed and sent.tokens]
    cost = sum_fixed(fixed, budget)
    room = budget - cost
    choice = choose(window, room, int(shares.window * room), whole, moves_in_jumps)
    shown = {group.first for group in (*choice.earlier, *choice.newest)}
    if window.request and window.request not in shown.union(window.fixed):
        window = with_request(window, room)
        return _choose_groups(window, budget, shares, whole, moves_in_jumps)
    if window.given is not None and window.groups and not choice.newest:
        newest = least(window.groups[-1], window.sending).tokens
        parts = {"reply, system prompt and task": cost, "newest messages": newest, "note before them": choice.note}
        raise BudgetError(sum(parts.values()), budget, parts)
    return window, choice, room


def _place_groups(window: RenderedWindow, choice: Choice) -> tuple[list[SentGroup], list[SentGroup]]:
    """Return the groups before the newest one in the order of the window, and the newest one."""
    newest = {group.first for group in choice.newest}
    wanted = {group.first for group in choice.earlier}.union(window.fixed) - newest
    earlier = [_send(group, group, window.fixed) for group in window.groups if group.first in wanted]
    pairs = zip(choice.newest, choice.whole, strict=False)
    return earlier, [_send(shown, whole, window.fixed) for shown, whole in pairs]


def extend(
    last: Prompt, window: RenderedWindow, budget: int, blocks: Blocks, shares: Shares, most: int
) -> Prompt | None:
    """Return the prompt that goes on from the `last` one: all of that as it was sent, and what is new behind it.

    What is new are the groups that came since, the scratchpad if it says something else now, and what recall finds that
    does not stand in front of the model yet, in at most `most` tokens, before the newest group. Where nothing came and
    nothing is asked, the prompt is the same.

    Returns:
        None where it cannot go on: over the budget, or without room for recall in it, or steps changed that were sent,
        or must be shown and were not.
    """
    groups = {group.first: group for group in window.groups}
    if any(part.is_outdated(window, groups) for part in last.parts):
        return None
    before = last.parts
    last = replace(last, parts=tuple(part.follow(groups) for part in before))
    new = _groups_since(last, window, groups)
    if new is None:
        return None
    added = [_send(group, group, window.fixed) for group in new]
    has_news = bool(added) or blocks.is_asked
    overhead = _overhead(window.sending) if has_news else 0
    left = budget - last.tokens - _tokens(added) - overhead
    if left < (LEAST_BLOCK if has_news else 0):  # the next prompt would be over the budget anyway
        return None
    recall, found = blocks.recall, NOTHING
    numbers = replace(last, parts=(*last.parts, *added)).numbers(window.partial, window.given)
    if has_news:
        must = {*window.fixed, window.groups[-1].first}
        room = budget - PER_REPLY - overhead - tokens_of(group for group in window.groups if group.first in must)
        found = recall.asked(room, room, numbers, last.excerpts)
    needed = recall.needed(found).tokens
    pad = _block("scratchpad", blocks.scratchpad, min(left - needed, int(shares.scratchpad * budget)), window.sending)
    padded = [part.message for part in last.parts if isinstance(part, AddedMessage) and part.kind == "scratchpad"]
    if needed > left or (padded and not pad):
        return None
    pad = pad if [part.message for part in pad] != padded[-1:] else []
    most = min(most - overhead, left - _tokens(pad))
    recalled = recall.filled(found, most, numbers, last.excerpts, WORTH) if has_news else NOTHING
    parts = (*last.parts, *added[:-1], *pad, *_recalled(recalled, window.sending), *added[-1:])
    return Prompt(parts, len(parts), recalled, _corrections(parts, before))


def _groups_since(
    last: Prompt, window: RenderedWindow, groups: Mapping[str, RenderedGroup]
) -> Sequence[RenderedGroup] | None:
    """Return the groups that came since a prompt.

    Returns:
        None where it cannot go on: steps changed that were sent, or must be shown and were not.
    """
    sent = {part.whole.first: part.whole for part in last.groups}
    places = [place for place, group in enumerate(window.groups) if group.first in sent]
    if not places or (window.given is not None and sent.keys() - groups.keys()):
        return None
    known = [(sent[first], group) for first, group in groups.items() if first in sent]
    if any(before.step_ids != now.step_ids for before, now in known):  # a call may have got a result since
        return None
    end = places[-1] + 1
    must_show = {*window.fixed, window.request}
    if any(group.first in must_show and group.first not in sent for group in window.groups[:end]):
        return None
    return window.groups[end:]


def _send(shown: RenderedGroup, whole: RenderedGroup, fixed: Collection[str]) -> SentGroup:
    return SentGroup(shown, whole, "fixed" if shown.first in fixed else "window")


def _recalled(recalled: Recall, sending: MessageRenderer) -> list[AddedMessage]:
    if not recalled.text:
        return []
    message: Message = {"role": "user", "content": recalled.text}
    steps = {item.step.id: item.step for item in recalled.items}
    tokens = count_message(message, sending.counter)
    return [AddedMessage("recalled", tokens, message, (*steps.values(),), recalled.items)]


def _corrections(parts: Iterable[Part], before: Iterable[Part] = ()) -> tuple[Excerpt, ...]:
    """Return what stands in the notes of these parts, and not in those of the parts before."""
    sent = [part.shown.note for part in before if isinstance(part, SentGroup)]
    found: list[Excerpt] = []
    for part in parts:
        note = part.shown.note if isinstance(part, SentGroup) else None
        if note and note not in sent:
            found += note.excerpts
    return tuple(found)


def _tokens(parts: Iterable[Part]) -> int:
    return sum(part.tokens for part in parts)


def _block(kind: Kind, make: Callable[[int], Block] | None, room: int, sending: MessageRenderer) -> list[AddedMessage]:
    """Return the part that is a block of at most `room` tokens, if there is one."""
    if make is None or room < LEAST_BLOCK:
        return []
    block = make(room - _overhead(sending))
    if not block.text:
        return []
    message: Message = {"role": "user", "content": block.text}
    return [AddedMessage(kind, count_message(message, sending.counter), message, tuple(block.steps))]


def _overhead(sending: MessageRenderer) -> int:
    """Tokens of a user's message beyond its text."""
    return PER_MESSAGE + sending.counter.count("user")


def _note_tokens(parts: Sequence[Part], note: int, room: int) -> int:
    """Return `note` if it fits `room` and the messages begin with the assistant, which not every API takes; else 0."""
    begun = next((part.role for part in parts if part.role and part.role not in PROMPTS), "")
    return note if 0 <= note <= room and begun == "assistant" else 0
