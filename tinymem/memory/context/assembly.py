"""The budgeted assembly of a prompt: what must be in, the window's newest groups, and what recall brings back.

    [system prompt, current task, pinned steps] [episodes] [window from its start] [scratchpad] [recalled]
    [newest group]

The window's start moves in jumps and does not depend on what is recalled, and episodes change when one is closed, so
everything before the scratchpad stays the same from call to call and prompt caches hold. A prompt that goes on from the
one before leaves all of that as it was sent (`extend`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

from tinymem.errors import BudgetError
from tinymem.memory.context.context import NOTE, Block, Context, Entry, Item, Kind, Shares
from tinymem.memory.context.window import Given, Window, choose, least, shortened_ids, with_request
from tinymem.messages.chains import NATIVE
from tinymem.messages.tokens import PER_MESSAGE, PER_REPLY, count_message
from tinymem.recall import Excerpt, Recall
from tinymem.steps.content import to_mutable
from tinymem.steps.step import Message, Step
from tinymem.steps.types import SystemPromptStep
from tinymem.window.sending import MessageRenderer, RenderedGroup

__all__ = ["Blocks", "Part", "Prompt", "assemble", "extend"]

TIERS = ("fixed", "episodes", "window", "scratchpad", "recall")  # as a report lists them
PROMPTS = ("system", "developer")  # roles of what stands before the conversation
LEAST_BLOCK = 64  # tokens below which a block is not worth its fence


@dataclass(frozen=True)
class Blocks:
    """The blocks of a prompt, each made in so many tokens.

    Attributes:
        recall: Makes the block of recall: what is asked for in so many tokens, the rest in as many as there is room. It
            is without the steps of the numbers that are shown, and in a prompt that goes on without the excerpts that
            stand in it, else given as None.
        episodes: Makes the block of episodes.
        scratchpad: Makes the block of the scratchpad.
        is_asked: True if the caller asks for something, and not the newest steps.
    """

    recall: Callable[[int, int, Collection[int], Sequence[Excerpt] | None], Recall]
    episodes: Callable[[int], Block] | None = None
    scratchpad: Callable[[int], Block] | None = None
    is_asked: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a prompt: a group of the window, or a message that the memory adds.

    Attributes:
        kind: The kind of its messages.
        tokens: What it costs.
        tier: The tier of its steps.
        group: The group as it is sent.
        whole: The same as the window has it; another one where it is shortened.
        message: The message that the memory adds.
        steps: The steps that this stands for.
        recalled: The excerpts in it.
    """

    kind: Kind
    tokens: int
    tier: str
    group: RenderedGroup | None = None
    whole: RenderedGroup | None = None
    message: Message | None = None
    steps: tuple[Step, ...] = ()
    recalled: tuple[Excerpt, ...] = ()

    @property
    def role(self) -> str:
        """The role of its first message; "" where it has none."""
        messages = self.group.messages if self.group else [self.message] if self.message else []
        return str(messages[0]["role"]) if messages else ""

    @property
    def cut(self) -> set[str]:
        """The ids of the steps that are shortened here."""
        if self.group is None or self.whole is None or self.group is self.whole:  # nearly all
            return set()
        return shortened_ids(self.group, self.whole)

    def follow(self, groups: Mapping[str, RenderedGroup]) -> Part:
        """Return the part with the group as the window has it now, by its first step, where it is sent the same.

        One of which a step was corrected since gets a note behind it.
        """
        now = groups.get(self.group.first) if self.group else None
        if now is None or self.group is None or now is self.group or self.cut:
            return self
        if now.note != self.group.note:
            return replace(self, group=now, whole=now, tokens=now.tokens)
        return replace(self, group=now, whole=now) if now.messages == self.group.messages else self

    def is_outdated(self, window: Window, groups: Mapping[str, RenderedGroup]) -> bool:
        """Return whether it cannot be sent as it was, since a step of it was corrected."""
        if any(one.step.step_number in window.corrections for one in self.recalled):
            return True
        now = groups.get(self.group.first) if self.group and self.cut else None
        return now is not None and self.group is not None and now.note != self.group.note

    def entries(self, given: Given | None, partial: Collection[str]) -> list[Entry]:
        """Return its messages as entries; those of the steps in `partial` are not whole."""
        if self.group is None or self.whole is None:
            return [Entry(dict(self.message or {}), self.kind, None, self.steps)]
        whole = () if self.whole is self.group else (self.whole,)
        return entries_of(self.group, given, {*partial, *self.cut}, whole)

    def items(self) -> Iterator[Item]:
        """Yield the place of each of its steps; the first of a group has all of the group's tokens."""
        for one in self.recalled:
            why = ", ".join(f"{name} {value:+.2f}" for name, value in list(one.why.items())[:3])
            yield Item("recall", one.step, one.tokens, one.score, why)
        if self.group is not None:
            for at, step in enumerate(self.group.group):
                yield Item(self.tier, step, 0 if at else self.tokens, why=_corrected_by(self.group, step))
        elif not self.recalled:  # the steps share what the block costs by their length
            length = sum(len(step.text) for step in self.steps) or 1
            yield from (Item(self.tier, step, self.tokens * len(step.text) // length) for step in self.steps)


@dataclass(frozen=True)
class Prompt:
    """A prompt as it is sent: its parts, of which the first `stable` do not depend on what is asked.

    `recalled` is what recall gave when it was made, `corrections` what corrects its steps and did not stand in the
    prompt before.
    """

    parts: tuple[Part, ...]
    stable: int
    recalled: Recall
    corrections: tuple[Excerpt, ...] = ()

    @property
    def tokens(self) -> int:
        """The tokens of all."""
        return PER_REPLY + sum(part.tokens for part in self.parts)

    def numbers(self, partial: Collection[str], given: Given | None) -> set[int]:
        """Return the numbers of the steps that are shown with all that was said in them."""
        groups = [part.group for part in self.parts if part.group]
        return _numbers_shown(groups, {id for part in self.parts for id in part.cut} | {*partial}, given)

    def context(self, window: Window, budget: int) -> Context:
        """Return the messages, and the report of them."""
        each = [part.entries(window.given, window.partial) for part in self.parts]
        entries = tuple(entry for some in each for entry in some)
        stable = sum(map(len, each[: self.stable]))
        messages = [one.message for one in entries]
        items = partial(_report, self.parts, window.steps)
        about = self.recalled, entries, stable
        return Context(messages, self.tokens, budget, *about, report=items, corrections=self.corrections)


def assemble(
    window: Window, budget: int, blocks: Blocks, shares: Shares, whole: float, *, moves_in_jumps: bool = True
) -> Prompt:
    """Assemble a prompt of at most `budget` tokens.

    Args:
        window: What may be shown of the steps.
        budget: The most tokens of the prompt.
        blocks: The parts that are no steps of the window.
        shares: The shares of the parts.
        whole: The share up to which a window is shown whole that fits; 1 where there is nothing else.
        moves_in_jumps: The window's start moves in jumps, so that prompts begin alike that do not go on from each
            other; else it has as much of its share as there is.

    Raises:
        BudgetError: The fixed steps alone do not fit.
    """
    sending, given = window.sending, window.given
    fixed = [one for one in window.groups if one.first in window.fixed]
    room = budget - (cost := _fixed_cost(fixed, budget))
    choice = choose(window, room, int(shares.window * room), whole, moves_in_jumps)
    if window.request and window.request not in {one.first for one in [*fixed, *choice.earlier, *choice.newest]}:
        window = with_request(window, room)
        return assemble(window, budget, blocks, shares, whole, moves_in_jumps=moves_in_jumps)
    if given is not None and window.groups and not choice.newest:
        needed = least(window.groups[-1], sending).tokens
        raise BudgetError(cost + needed, budget, {"reply, system prompt and task": cost, "newest messages": needed})
    newest = {one.first for one in choice.newest}
    wanted = {*window.fixed, *(one.first for one in choice.earlier)} - newest
    before = [_group(one, one, window.fixed) for one in window.groups if one.first in wanted]
    lead = [*takewhile(lambda part: part.tier == "fixed", before)]
    pairs = zip(choice.newest, choice.whole, strict=False)
    prompt = Prompt((*before, *(_group(one, other, window.fixed) for one, other in pairs)), 0, Recall("", 0, ()))
    left = budget - prompt.tokens - _note(before, choice.note, budget - prompt.tokens)
    pad = _block("scratchpad", blocks.scratchpad, min(left, int(shares.scratchpad * room)), sending)
    left -= sum(part.tokens for part in pad)
    history = _block(
        "episodes", None if whole == 1 else blocks.episodes, min(left, int(shares.episodes * room)), sending
    )
    left -= sum(part.tokens for part in history)
    recalled = Recall("", 0, ())
    if left >= LEAST_BLOCK:
        room = left - _overhead(sending)
        recalled = blocks.recall(room, room, prompt.numbers(window.partial, given), None)
    tail = prompt.parts[len(before) :]
    stable = [*lead, *history, *before[len(lead) :]]
    changing = [*pad, *_recalled(recalled, sending), *tail]
    opening = _note([*stable, *changing], choice.note, budget - PER_REPLY - _tokens([*stable, *changing]))
    if opening:
        at = next((i for i, part in enumerate(stable) if part.role not in PROMPTS), len(stable))
        stable.insert(at, Part("note", opening, "", message=dict(NOTE)))
    return Prompt((*stable, *changing), len(stable), recalled, _corrections((*stable, *changing)))


def extend(last: Prompt, window: Window, budget: int, blocks: Blocks, shares: Shares, most: int) -> Prompt | None:
    """Return the prompt that goes on from the `last` one: all of that as it was sent, and what is new behind it.

    What is new are the groups that came since, the scratchpad if it says something else now, and what recall finds that
    does not stand in front of the model yet, in at most `most` tokens, before the newest group. Where nothing came and
    nothing is asked, the prompt is the same.

    Returns:
        None where it cannot go on: over the budget, or without room for recall in it, or steps changed that were sent,
        or must be shown and were not.
    """
    groups = {one.first: one for one in window.groups}
    if any(part.is_outdated(window, groups) for part in last.parts):
        return None
    before = last.parts
    last = replace(last, parts=(*(part.follow(groups) for part in before),))
    sent = {part.whole.first: part.whole for part in last.parts if part.whole}
    stays = [at for at, one in enumerate(window.groups) if one.first in sent]
    if not stays or (window.given is not None and sent.keys() - groups.keys()):
        return None
    if any(not _are_same(sent[first], one) for first, one in groups.items() if first in sent):
        return None
    old, new = window.groups[: stays[-1] + 1], window.groups[stays[-1] + 1 :]
    if any(one.first in {*window.fixed, window.request} and one.first not in sent for one in old):
        return None
    added = [_group(one, one, window.fixed) for one in new]
    left = budget - last.tokens - _tokens(added)
    pad = _block("scratchpad", blocks.scratchpad, min(left, int(shares.scratchpad * budget)), window.sending)
    padded = [part.message for part in last.parts if part.kind == "scratchpad"]
    if left < 0 or (padded and not pad):
        return None
    has_news = bool(added) or blocks.is_asked
    if has_news and left < LEAST_BLOCK <= most:  # the next prompt would be over the budget anyway
        return None
    pad = pad if [part.message for part in pad] != padded[-1:] else []
    left -= _tokens(pad)
    recalled = Recall("", 0, ())
    if has_news and most >= LEAST_BLOCK:
        shown = Prompt((*last.parts, *added), 0, recalled).numbers(window.partial, window.given)
        excerpts = [one for part in last.parts for one in part.recalled]
        overhead, most = _overhead(window.sending), min(most, max(left, most // 2))
        recalled = blocks.recall(most - overhead, min(left, most) - overhead, shown, excerpts)
        if recalled.tokens > left - overhead:  # it has no room here
            return None
    block = _recalled(recalled, window.sending)
    parts = (*last.parts, *added[:-1], *pad, *block, *added[-1:])
    return Prompt(parts, len(parts), recalled, _corrections(parts, before))


def _are_same(sent: RenderedGroup, group: RenderedGroup) -> bool:
    """Return whether a group is the one that was sent; a call may have got a result since."""
    return [step.id for step in sent.group] == [step.id for step in group.group]


def _group(shown: RenderedGroup, whole: RenderedGroup, fixed: Collection[str]) -> Part:
    return Part("message", shown.tokens, "fixed" if shown.first in fixed else "window", shown, whole)


def _recalled(recalled: Recall, sending: MessageRenderer) -> list[Part]:
    if not recalled.text:
        return []
    message: Message = {"role": "user", "content": recalled.text}
    steps = {item.step.id: item.step for item in recalled.items}
    tokens = count_message(message, sending.counter)
    return [Part("recalled", tokens, "recall", message=message, steps=(*steps.values(),), recalled=recalled.items)]


def _corrections(parts: Iterable[Part], before: Iterable[Part] = ()) -> tuple[Excerpt, ...]:
    """Return what stands in the notes of these parts, and not in those of the parts before."""
    sent = [part.group.note for part in before if part.group]
    notes = [part.group.note for part in parts if part.group]
    return tuple(excerpt for note in notes if note and note not in sent for excerpt in note.excerpts)


def _tokens(parts: Iterable[Part]) -> int:
    return sum(part.tokens for part in parts)


def _block(kind: Kind, make: Callable[[int], Block] | None, room: int, sending: MessageRenderer) -> list[Part]:
    """Return the part that is a block of at most `room` tokens, if there is one."""
    if make is None or room < LEAST_BLOCK:
        return []
    block = make(room - _overhead(sending))
    if not block.text:
        return []
    message: Message = {"role": "user", "content": block.text}
    return [Part(kind, count_message(message, sending.counter), kind, message=message, steps=tuple(block.steps))]


def _overhead(sending: MessageRenderer) -> int:
    """Tokens of a user's message beyond its text."""
    return PER_MESSAGE + sending.counter.count("user")


def _note(parts: Sequence[Part], note: int, room: int) -> int:
    """Return `note` if it fits `room` and the messages begin with the assistant, which not every API takes; else 0."""
    begun = next((part.role for part in parts if part.role and part.role not in PROMPTS), "")
    return note if 0 <= note <= room and begun == "assistant" else 0


def _numbers_shown(sent: Iterable[RenderedGroup], cut: Collection[str], given: Given | None) -> set[int]:
    """Return the numbers of the steps that are shown with all that was said in them."""
    noted = {number for one in sent if one.note for number in one.note.numbers}
    there = [step for one in sent for step in one.group if step.is_sent and step.id not in cut]
    if given is not None:
        return noted | {number for step in there for number in given.numbers(step)}
    return noted | {step.step_number for step in there if step.step_number is not None}


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


# -- the messages of the groups, and the report of their steps


def entries_of(
    one: RenderedGroup, given: Given | None, cut: Collection[str], whole: Sequence[RenderedGroup] = ()
) -> list[Entry]:
    """Return the entries of a group that is shown.

    Args:
        one: The group.
        given: The caller's own messages, where there are any.
        cut: Ids of steps that are not whole.
        whole: The groups as they would be sent whole, those that are shown shortened at least.
    """
    originals = {
        (each.group[source[0]].id, source[1]): message
        for each in whole
        for message, source in zip(each.messages, each.sources, strict=True)
        if source is not None
    }
    entries: list[Entry] = []
    for message, own, source in zip(one.messages, to_mutable(one.messages), one.sources, strict=True):
        if source is None:
            if one.note is not None and message is one.note.message:
                entries.append(Entry(own, "recalled", None, tuple(excerpt.step for excerpt in one.note.excerpts)))
                continue
            entries.append(Entry(own, "placeholder" if own["role"] == "tool" else "moved", None, tuple(one.group)))
            continue
        step, place = one.group[source[0]], source[1]
        inputs = given.inputs(step) if given else ()
        index = inputs[place] if place < len(inputs) else None
        is_cut = step.id in cut and message != originals.get((step.id, place))
        native = step.overlay[place].get("set", {}).get(NATIVE) if place < len(step.overlay) else None
        entries.append(Entry(own, "message", index, (step,), is_cut, native and to_mutable(native)))
    return entries


def _corrected_by(one: RenderedGroup, step: Step) -> str:
    """Return what says by which step one of a group was corrected, if a note behind it does."""
    excerpts = one.note.excerpts if one.note else ()
    newer = [excerpt.step.step_number for excerpt in excerpts if step.step_number in excerpt.corrects]
    return f"corrected by #{newer[0]}" if newer else ""


def _report(parts: Iterable[Part], steps: Sequence[Step]) -> tuple[Item, ...]:
    """Return an item for every step that is shown or recalled, or is not."""
    items = [item for part in parts for item in part.items()]
    items.sort(key=lambda item: TIERS.index(item.tier))
    seen = {item.step.id for item in items}
    items += [Item("out", step, 0, None, "over the window's share") for step in steps if step.id not in seen]
    return tuple(items)
