"""Sending: steps as the valid messages that are sent, rendered and counted once, group by group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from tinymem.messages.calls import CallIds, raw_calls
from tinymem.messages.conversion import grouped, messages_of_each
from tinymem.messages.tokens import PER_MESSAGE, PER_REPLY, count_messages
from tinymem.messages.validity import valid
from tinymem.protocols import TokenCounter
from tinymem.recall.results import Excerpt
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_strings
from tinymem.steps.content import to_mutable
from tinymem.steps.step import Message, Step, Style, are_same
from tinymem.steps.types import MessageStep
from tinymem.window.strategy import Group

__all__ = ["MessageRenderer", "Note", "RenderedGroup", "copies", "tokens_of"]

Beside: TypeAlias = Callable[[Group, Iterable[tuple[int, int]]], int]


@dataclass(frozen=True)
class Note:
    """A message of the memory behind a group: its tokens, and the excerpts in it."""

    message: Message
    tokens: int
    excerpts: tuple[Excerpt, ...] = field(compare=False)

    @property
    def numbers(self) -> set[int]:
        """The numbers of the steps that stand whole in it."""
        whole = [excerpt.step for excerpt in self.excerpts if len(excerpt.step.text) <= excerpt.end]
        return {step.step_number or 0 for step in whole}


@dataclass(frozen=True)
class RenderedGroup:
    """A group, its messages as they are sent, and their tokens, with those of the note behind it."""

    group: Group
    messages: list[Message]
    tokens: int
    ids: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # of its calls: in the steps, and as sent
    sources: tuple[tuple[int, int] | None, ...] = field(default=(), repr=False)  # of its messages: step, place in it
    note: Note | None = None

    @cached_property
    def first(self) -> str:
        """The id of its first step, which tells groups apart."""
        return self.group[0].id

    @cached_property
    def step_ids(self) -> list[str]:
        """The ids of its steps."""
        return [step.id for step in self.group]

    def with_note(self, note: Note) -> RenderedGroup:
        """Return the group with a note behind it."""
        messages, sources = [*self.messages, note.message], (*self.sources, None)
        return replace(self, messages=messages, tokens=self.tokens + note.tokens, sources=sources, note=note)


class MessageRenderer:
    """Messages and tokens of the window's groups, rendered and counted once for as long as a group is unchanged.

    The messages of all groups in a row are a valid sequence: each group's messages are, and no two groups share the id
    of a call. If two steps share one, the later one is sent with the step's number appended.

    `extra_keys` are those of `repair`. `beside` counts the tokens that go with messages of a group, by the places of
    their steps and their own in these, and `format` is the one that messages are sent in, which decides what images
    cost.
    """

    def __init__(
        self,
        counter: TokenCounter,
        style: Style,
        extra_keys: Collection[str] = (),
        beside: Beside | None = None,
        format: str | None = None,
    ) -> None:
        self.style, self.counter, self.extra_keys = style, counter, tuple(check_strings("extra_keys", extra_keys))
        self._beside, self.format = beside, format
        self._known: dict[str, RenderedGroup] = {}  # by the id of a group's first step
        self._last: tuple[Sequence[Step], list[RenderedGroup]] = ((), [])

    @cached_property
    def overhead(self) -> int:
        """Tokens of a user's message beyond its text."""
        return PER_MESSAGE + self.counter.count("user")

    def __call__(self, steps: Sequence[Step], summary_mode: bool = False) -> list[RenderedGroup]:
        """Return the groups of `steps` as they are sent."""
        ids = CallIds()
        if summary_mode:
            return [self.rendered(group, ids, True) for group in grouped(steps)]
        before, sent = self._last
        if are_same(before, steps):
            return [*sent]
        found = [self._of(group, ids) for group in grouped(steps)]
        self._known = {sent.first: sent for sent in found}
        self._last = ([*steps], found)
        return [*found]

    def _of(self, group: Group, ids: CallIds) -> RenderedGroup:
        known = self._known.get(group[0].id)
        if known and known.group == group and (not known.ids or ids.take_again(known.ids, group[0].step_number)):
            return known
        return self.rendered(group, ids)

    def rendered(self, group: Group, ids: CallIds, summary_mode: bool = False) -> RenderedGroup:
        """Render a group with ids of calls that none of `ids` is."""
        given: list[Message] = []
        origins: list[tuple[int, int]] = []
        for number, messages in enumerate(messages_of_each(group, summary_mode, self.style)):
            given += _identified(group[number], messages)
            origins += [(number, place) for place in range(len(messages))]
        sent = valid(given, ids, self.extra_keys, group[0].step_number)
        sources = tuple(None if place is None else origins[place] for _, place in sent)
        messages = [message for message, _ in sent]
        tokens = count_messages(messages, self.counter, self.format)
        if self._beside:
            tokens += self._beside(group, filter(None, sources))
        return RenderedGroup(group, messages, tokens, _names(given, sent), sources)

    def instead(self, sent: RenderedGroup, group: Group) -> RenderedGroup:
        """Render the steps of `group`, shortened ones for example, in the place of `sent`."""
        made = self.rendered(group, CallIds(name for _, name in sent.ids))
        return made if sent.note is None else made.with_note(sent.note)

    def like(self, beside: Beside, format: str) -> MessageRenderer:
        """Return another one of the same style, counter and extra keys, for another window."""
        return MessageRenderer(self.counter, self.style, self.extra_keys, beside, format)

    def costs(self, steps: Sequence[Step]) -> dict[str, int]:
        """Tokens by step id, such that those of a group sum up to what it costs: its first step has them all."""
        first = {sent.first: sent.tokens for sent in self(steps)}
        return {step.id: first.get(step.id, 0) for step in steps}

    def tokens(self, steps: Sequence[Step]) -> int:
        """Count the tokens of all messages, and of what stands before the reply."""
        return PER_REPLY + tokens_of(self(steps))


def tokens_of(sent: Iterable[RenderedGroup]) -> int:
    """Sum up the tokens of groups."""
    return sum(group.tokens for group in sent)


def copies(sent: Sequence[RenderedGroup]) -> list[Message]:
    """Messages of groups, one after the other, that the caller may change."""
    return [*map(to_mutable, chain.from_iterable(group.messages for group in sent))]


def _identified(step: Step, messages: list[Message]) -> list[Message]:
    """The messages of a step with the ids that its calls have in it: those that came with it may be none."""
    if isinstance(step, MessageStep) and step.role == "tool":
        return [_answering(message, step.tool_call_id) for message in messages]
    if not isinstance(step, ActionStep) or not messages:
        return messages
    raw = raw_calls(messages[0])
    if not raw:
        return messages
    calls = [{**call, "id": known.id} for call, known in zip(raw, step.tool_calls, strict=True)]
    results = zip(messages[1:], (call.id for call in step.results), strict=True)
    return [{**messages[0], "tool_calls": calls}, *(_answering(message, id) for message, id in results)]


def _answering(message: Message, id: str | None) -> Message:
    if message["role"] not in ("tool", "function"):
        return message
    return {**message, "role": "tool", "tool_call_id": id}


def _names(given: Sequence[Message], sent: Iterable[tuple[Message, int | None]]) -> tuple[tuple[str, str], ...]:
    """The ids of the calls: as they were given, and as they are sent."""
    names: list[tuple[str, str]] = []
    for message, place in sent:
        if place is not None and "tool_calls" in message:
            pairs = zip(given[place]["tool_calls"], message["tool_calls"], strict=True)
            names += [(call["id"], named["id"]) for call, named in pairs]
    return tuple(names)
