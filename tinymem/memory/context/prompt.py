"""A prompt, built within its budget: what must be in, the window's newest groups, and what recall brings back.

    [system prompt, current task, pinned steps] [episodes] [window from its start] [scratchpad] [recalled]
    [what the session did, behind a jump] [newest group]

The window's start moves in jumps, and gives way only to what is asked; episodes change when one is closed. So what
stands before the scratchpad stays the same from call to call and prompt caches hold. A prompt that goes on from the one
before leaves all of that as it was sent (`extend`), until it is over the budget: then it jumps, which is to say that it
is begun anew, in fewer tokens (`begin`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, takewhile
from typing import NamedTuple

from tinymem.errors import BudgetError
from tinymem.memory.context.context import NOTE, Block, Context, Kind, Shares
from tinymem.memory.context.parts import (
    PROMPTS,
    AddedMessage,
    Part,
    SentGroup,
    corrections_of,
    groups_of,
    is_begun_by_assistant,
    numbers_of,
    report_of,
    sum_tokens,
)
from tinymem.memory.context.recaller import FENCE, LEAST_BLOCK, NOTHING, WORTH, Recaller
from tinymem.memory.context.window import Choice, RenderedWindow, choose, least, with_request
from tinymem.messages.tokens import PER_REPLY, count_message
from tinymem.recall import Excerpt, Recall
from tinymem.steps.step import Message, Step
from tinymem.window.sending import RenderedGroup, tokens_of
from tinymem.window.strategy import sum_fixed

__all__ = ["Prompt", "PromptBuilder"]

AT_JUMPS = 0.4  # of the window's share in a prompt that has jumped: what comes behind it is mostly window
SPARE = 0.2  # share of it that recall may leave unused, before the window gets that too
MORE, MOST = 0.25, 1_200  # share of a budget, and tokens, that are recalled at most in a prompt that goes on
DID, DID_MOST = 12, 400  # one of so many tokens, and so many at most, say behind a jump what the session did
BEGUN = 0.4  # share of a budget that a prompt has after a jump, beside what is in anyway


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
        return PER_REPLY + sum_tokens(self.parts)


class _Draft(NamedTuple):
    """A prompt without blocks: its groups, and what recall found of what is asked.

    Attributes:
        earlier: The groups before the newest one.
        newest: The newest one.
        note: The tokens of the note that steps are missing; -1 without it.
        left: The tokens that are left of the budget.
        hidden: The numbers of the steps that the groups show whole.
        found: What recall found.
        needed: The tokens that are needed of that.
    """

    earlier: list[SentGroup]
    newest: list[SentGroup]
    note: int
    left: int
    hidden: set[int]
    found: Recall
    needed: int


@dataclass(frozen=True)
class PromptBuilder:
    """Builds the prompts of a window.

    Attributes:
        window: What may be shown of the steps.
        budget: The most tokens of a prompt.
        recall: Finds what is recalled.
        shares: The shares of the parts.
        whole: The share up to which a window is shown whole that fits; 1 where there is nothing else.
        is_asked: The caller asks for something, and not the newest steps.
        scratchpad: Makes the block of the scratchpad in so many tokens.
        episodes: Makes the block of episodes in so many tokens.
    """

    window: RenderedWindow
    budget: int
    recall: Recaller
    shares: Shares
    whole: float
    is_asked: bool
    scratchpad: Callable[[int], Block]
    episodes: Callable[[int], Block] | None = None

    # -- from scratch

    def begin(self, cache: float, last: Prompt | None, progress: Callable[[int], Block]) -> Prompt:
        """Build a prompt from which others can go on: the window has less of it, unless recall leaves that unused.

        Args:
            cache: The price of a cached token: the dearer it is, the less it pays to leave room.
            last: The prompt before, which could not go on.
            progress: Makes the block of what the session did in so many tokens.
        """
        goal, room = self._goal(cache, last)
        did = self._block("recalled", progress, min(DID_MOST, room // DID))
        goal -= sum_tokens(did)
        builder = replace(self, budget=self.budget - sum_tokens(did))
        less = AT_JUMPS * self.shares.window
        prompt = builder._assemble_less(goal, less)
        unused = 1 - prompt.tokens / goal
        if unused > SPARE and len(groups_of(prompt.parts)) < len(self.window.groups):
            prompt = builder._assemble_less(goal, min(less + unused, 1 - self.shares.episodes - self.shares.scratchpad))
        parts = (*prompt.parts[:-1], *did, *prompt.parts[-1:])
        return replace(prompt, parts=parts, stable=len(parts))

    def _assemble_less(self, goal: int, window: float) -> Prompt:
        """Return the prompt with another share for the window, whose start is where that share ends."""
        return replace(self, shares=replace(self.shares, window=window)).assemble(goal, moves_in_jumps=False)

    def _goal(self, cache: float, last: Prompt | None) -> tuple[int, int]:
        """Return the tokens of a prompt after a jump, less than the budget, so that others can go on from it.

        With them is the room of which some is for what the session did; 0 where its steps do not leave the prompt.
        What is in anyway is added. A window that has up to the share `whole` of the budget is sent whole, unless the
        last prompt was full.
        """
        groups, budget = self.window.groups, self.budget
        total = tokens_of(groups)
        newest = groups[-1].tokens if groups else 0
        must = newest + tokens_of([group for group in groups if group.first in self.window.fixed])
        # Of a tiny budget, the reply and a note need more than that share.
        goal = must + max(int(max(BEGUN, cache) * budget), FENCE)
        is_full = last is not None and last.tokens + newest > budget
        if 0 < total <= self.whole * budget and not is_full:
            return min(budget, max(goal, int(total / self.whole) + FENCE)), 0
        return min(budget, goal), budget - must if last else 0

    def assemble(self, goal: int, moves_in_jumps: bool = True) -> Prompt:
        """Build a prompt from scratch.

        What is asked and what must be in may have the whole budget, and the window gives way; it and the rest are for
        `goal`. The newest request is one of the fixed groups where it would not be shown else.

        Args:
            goal: The tokens that it is to have.
            moves_in_jumps: The window's start moves in jumps, so that prompts begin alike that do not go on from each
                other; else it has as much of its share as there is.

        Raises:
            BudgetError: The fixed groups do not fit, or the newest messages that the caller gave do not.
        """
        window = self.window
        fixed = [(sent.group, sent.tokens) for sent in window.groups if sent.first in window.fixed and sent.tokens]
        cost = sum_fixed(fixed, goal)
        room = goal - cost
        choice = choose(window, room, int(self.shares.window * room), self.whole, moves_in_jumps)
        shown = {group.first for group in (*choice.earlier, *choice.newest)}
        if window.request and window.request not in shown.union(window.fixed):
            return replace(self, window=with_request(window, room)).assemble(goal, moves_in_jumps)
        if window.inputs and window.groups and not choice.newest:
            newest = least(window.groups[-1], window.sending).tokens
            parts = {"reply, system prompt and task": cost, "newest messages": newest, "note before them": choice.note}
            raise BudgetError(sum(parts.values()), goal, parts)
        return self._fill(choice, goal, room)

    def _fill(self, choice: Choice, goal: int, room: int) -> Prompt:
        """Return the prompt with these groups, and of what else its shares of the `room` tokens allow."""
        draft, shares = self._draft(choice), self.shares
        spare = draft.left - draft.needed
        pad = self._block("scratchpad", self.scratchpad, min(spare, int(shares.scratchpad * room)))
        spare -= sum_tokens(pad)
        make_episodes = None if self.whole == 1 else self.episodes
        history = self._block("episodes", make_episodes, min(spare, int(shares.episodes * room)))
        most = spare + draft.needed - sum_tokens(history) - (self.budget - goal)
        recalled = self.recall.filled(draft.found, most, draft.hidden, ())
        lead = [*takewhile(lambda part: part.tier == "fixed", draft.earlier)]
        stable: list[Part] = [*lead, *history, *draft.earlier[len(lead) :]]
        return self._finish(stable, [*pad, *self._recalled(recalled), *draft.newest], draft.note, recalled)

    def _draft(self, choice: Choice) -> _Draft:
        """Return the draft of a prompt with these groups, of which the oldest give way to what is asked."""
        window, recall = self.window, self.recall
        earlier, newest = _place_groups(window, choice)
        left = self.budget - PER_REPLY - sum_tokens((*earlier, *newest)) - window.sending.overhead
        left -= _note_tokens(earlier, choice.note, left)
        can_go = tokens_of([group for group in choice.earlier if group.first != window.request])
        hidden = numbers_of((*earlier, *newest), window)
        found = recall.asked(left, left + can_go, hidden)
        needed = recall.needed(found).tokens
        if needed > left and can_go:
            note = count_message(NOTE, window.sending.counter)
            return self._draft(choice.without_oldest(needed - left, note, window.request))
        return _Draft(earlier, newest, choice.note, left, hidden, found, needed)

    def _finish(self, stable: list[Part], changing: list[Part], note: int, recalled: Recall) -> Prompt:
        """Return the prompt of these parts, with a note where it would begin with the assistant."""
        parts = [*stable, *changing]
        tokens = _note_tokens(parts, note, self.budget - PER_REPLY - sum_tokens(parts))
        if tokens:
            behind = [*takewhile(lambda part: part.role in PROMPTS, stable)]
            stable.insert(len(behind), AddedMessage("note", tokens, dict(NOTE)))
        sent = (*stable, *changing)
        return Prompt(sent, len(stable), recalled, corrections_of(sent))

    # -- behind the last one

    def extend(self, last: Prompt) -> Prompt | None:
        """Return the prompt that goes on from the last one: all of that as it was sent, and what is new behind it.

        What is new are the groups that came since, the scratchpad if it says something else now, and what recall finds
        that does not stand in front of the model yet, in so many tokens at most, before the newest group. Where nothing
        came and nothing is asked, the prompt is the same.

        Returns:
            None where it cannot go on: over the budget, or without room for recall in it, or steps changed that were
            sent, or must be shown and were not.
        """
        followed: list[Part | None] = [part.follow(self.window) for part in last.parts]
        kept = [part for part in followed if part is not None]
        new = _groups_since(groups_of(kept), self.window) if len(kept) == len(followed) else None
        added = [_send(group, group, self.window) for group in new or ()]
        return None if new is None else self._go_on(kept, added, last)

    def _go_on(self, kept: list[Part], added: list[SentGroup], last: Prompt) -> Prompt | None:
        """Return the prompt with what is kept of the last one, and new groups behind it; None where it cannot be."""
        left = self.budget - PER_REPLY - sum_tokens((*kept, *added))
        if not (added or self.is_asked):
            pad = self._new_scratchpad(kept, left)
            return None if left < 0 or pad is None else _following(last, (*kept, *pad), NOTHING)
        left -= self.window.sending.overhead
        if left < LEAST_BLOCK:  # the next prompt would be over the budget anyway
            return None
        return self._with_news(kept, added, left, last)

    def _with_news(self, kept: list[Part], added: list[SentGroup], left: int, last: Prompt) -> Prompt | None:
        hidden = numbers_of((*kept, *added), self.window)
        shown = [*chain.from_iterable(part.recalled for part in kept if isinstance(part, AddedMessage))]
        found = self._asked_in_all(hidden, shown)
        spare = left - self.recall.needed(found).tokens
        pad = self._new_scratchpad(kept, spare)
        if spare < 0 or pad is None:
            return None
        most = min(MOST, int(MORE * self.budget)) - self.window.sending.overhead
        recalled = self.recall.filled(found, min(most, left - sum_tokens(pad)), hidden, shown, WORTH)
        return _following(last, (*kept, *added[:-1], *pad, *self._recalled(recalled), *added[-1:]), recalled)

    def _new_scratchpad(self, kept: Iterable[Part], room: int) -> list[AddedMessage] | None:
        """Return the block of the scratchpad, if it says something else than the last one; None where that is gone."""
        block = self._block("scratchpad", self.scratchpad, min(room, int(self.shares.scratchpad * self.budget)))
        sent = [part.message for part in kept if isinstance(part, AddedMessage) and part.kind == "scratchpad"]
        if sent and not block:
            return None
        return block if [part.message for part in block] != sent[-1:] else []

    def _asked_in_all(self, hidden: set[int], shown: Sequence[Excerpt]) -> Recall:
        """Return what bears on what is asked, in all that what must be shown leaves of the budget."""
        groups, sending = self.window.groups, self.window.sending
        must = {*self.window.fixed, groups[-1].first}
        room = self.budget - PER_REPLY - sending.overhead
        room -= tokens_of([group for group in groups if group.first in must])
        return self.recall.asked(room, room, hidden, shown)

    # -- messages that are added, and the report

    def _block(self, kind: Kind, make: Callable[[int], Block] | None, room: int) -> list[AddedMessage]:
        """Return the part that is a block of at most `room` tokens, if there is one."""
        if make is None or room < LEAST_BLOCK:
            return []
        block = make(room - self.window.sending.overhead)
        return self._added(kind, block.text, block.steps)

    def _recalled(self, recalled: Recall) -> list[AddedMessage]:
        steps = {item.step.id: item.step for item in recalled.items}
        return self._added("recalled", recalled.text, steps.values(), recalled.items)

    def _added(
        self, kind: Kind, text: str, steps: Iterable[Step], recalled: tuple[Excerpt, ...] = ()
    ) -> list[AddedMessage]:
        if not text:
            return []
        message: Message = {"role": "user", "content": text}
        return [AddedMessage(kind, count_message(message, self.window.sending.counter), message, (*steps,), recalled)]

    def render(self, prompt: Prompt) -> Context:
        """Return the messages of a prompt, and the report of them."""
        each = [part.entries(self.window) for part in prompt.parts]
        entries = tuple(chain.from_iterable(each))
        return Context(
            [entry.message for entry in entries],
            prompt.tokens,
            self.budget,
            prompt.recalled,
            entries,
            sum(map(len, each[: prompt.stable])),
            report=partial(report_of, prompt.parts, self.window.steps),
            corrections=prompt.corrections,
        )


def _following(last: Prompt, parts: tuple[Part, ...], recalled: Recall) -> Prompt:
    return Prompt(parts, len(parts), recalled, corrections_of(parts, last.parts))


def _place_groups(window: RenderedWindow, choice: Choice) -> tuple[list[SentGroup], list[SentGroup]]:
    """Return the groups before the newest one in the order of the window, and the newest one."""
    newest = {group.first for group in choice.newest}
    wanted = {group.first for group in choice.earlier}.union(window.fixed) - newest
    earlier = [_send(group, group, window) for group in window.groups if group.first in wanted]
    pairs = zip(choice.newest, choice.whole, strict=False)
    return earlier, [_send(shown, whole, window) for shown, whole in pairs]


def _send(shown: RenderedGroup, whole: RenderedGroup, window: RenderedWindow) -> SentGroup:
    return SentGroup(shown, whole, "fixed" if shown.first in window.fixed else "window")


def _groups_since(last: Iterable[SentGroup], window: RenderedWindow) -> Sequence[RenderedGroup] | None:
    """Return the groups that came since these ones were sent.

    Returns:
        None where it cannot go on: steps changed that were sent, or must be shown and were not.
    """
    sent = {part.whole.first: part.whole for part in last}
    places = [place for place, group in enumerate(window.groups) if group.first in sent]
    if not places or (window.inputs and sent.keys() - window.by_first.keys()):
        return None
    known = [window.groups[place] for place in places]
    if any(sent[group.first].step_ids != group.step_ids for group in known):  # a call may have got a result since
        return None
    end = places[-1] + 1
    must_show = {*window.fixed, window.request}
    if any(group.first in must_show and group.first not in sent for group in window.groups[:end]):
        return None
    return window.groups[end:]


def _note_tokens(parts: Sequence[Part], note: int, room: int) -> int:
    """Return `note` if it fits `room` and the messages begin with the assistant, which not every API takes; else 0."""
    return note if 0 <= note <= room and is_begun_by_assistant(parts) else 0
