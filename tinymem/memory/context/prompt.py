"""A prompt: the groups of the window and the messages of the memory in it, their entries, and the report of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeAlias

from tinymem.memory.context.context import Context, Entry, Item, Kind
from tinymem.memory.context.window import Given, RenderedWindow, shortened_ids
from tinymem.messages.recognition import NATIVE
from tinymem.messages.tokens import PER_REPLY
from tinymem.recall import Excerpt, Recall
from tinymem.steps.content import to_mutable
from tinymem.steps.step import Message, Step
from tinymem.window.sending import RenderedGroup

__all__ = ["AddedMessage", "Part", "Prompt", "SentGroup"]

TIERS = ("fixed", "episodes", "window", "scratchpad", "recall")  # as a report lists them


@dataclass(frozen=True)
class SentGroup:
    """A group of the window in a prompt.

    Attributes:
        shown: The group as it is sent.
        whole: The group as the window has it; the same one where it is not shortened.
        tier: The tier of its steps: `"fixed"` or `"window"`.
    """

    shown: RenderedGroup
    whole: RenderedGroup
    tier: str

    @property
    def tokens(self) -> int:
        """The tokens of its messages."""
        return self.shown.tokens

    @property
    def role(self) -> str:
        """The role of its first message; "" where it has none."""
        return str(self.shown.messages[0]["role"]) if self.shown.messages else ""

    @property
    def cut(self) -> set[str]:
        """The ids of the steps that are shortened here."""
        return set() if self.shown is self.whole else shortened_ids(self.shown, self.whole)

    def follow(self, groups: Mapping[str, RenderedGroup]) -> SentGroup:
        """Return the group as the window has it now, by its first step, where it is sent the same.

        One of which a step was corrected since gets a note behind it.
        """
        now = groups.get(self.shown.first)
        if now is None or now is self.shown or self.cut:
            return self
        is_sent_same = now.note != self.shown.note or now.messages == self.shown.messages
        return replace(self, shown=now, whole=now) if is_sent_same else self

    def is_outdated(self, window: RenderedWindow, groups: Mapping[str, RenderedGroup]) -> bool:
        """Return whether it cannot be sent as it was, since a step of it was corrected and it is shortened."""
        now = groups.get(self.shown.first) if self.cut else None
        return now is not None and now.note != self.shown.note

    def entries(self, given: Given | None, partial: Collection[str]) -> list[Entry]:
        """Return its messages as entries; those of the steps in `partial` are not whole."""
        whole = () if self.whole is self.shown else (self.whole,)
        return entries_of(self.shown, given, {*partial, *self.cut}, whole)

    def items(self) -> Iterator[Item]:
        """Yield the place of each of its steps; the first has the tokens of all."""
        tokens = self.tokens
        for step in self.shown.group:
            yield Item(self.tier, step, tokens, why=_corrected_by(self.shown, step))
            tokens = 0


@dataclass(frozen=True)
class AddedMessage:
    """A message that the memory adds to a prompt.

    Attributes:
        kind: The kind of the message.
        tokens: What it costs.
        message: The message.
        steps: The steps that this stands for.
        recalled: The excerpts in it.
    """

    kind: Kind
    tokens: int
    message: Message
    steps: tuple[Step, ...] = ()
    recalled: tuple[Excerpt, ...] = ()
    tier = ""  # of no step of the window

    @property
    def role(self) -> str:
        """The role of the message."""
        return str(self.message["role"])

    def follow(self, groups: Mapping[str, RenderedGroup]) -> AddedMessage:
        """Return the same message: it stays as it was sent."""
        return self

    def is_outdated(self, window: RenderedWindow, groups: Mapping[str, RenderedGroup]) -> bool:
        """Return whether it cannot be sent as it was, since a step in it was corrected."""
        return any(excerpt.step.step_number in window.corrections for excerpt in self.recalled)

    def entries(self, given: Given | None, partial: Collection[str]) -> list[Entry]:
        """Return the message as an entry."""
        return [Entry(dict(self.message), self.kind, None, self.steps)]

    def items(self) -> Iterator[Item]:
        """Yield each excerpt, or each step, with its share of the tokens by its length."""
        for excerpt in self.recalled:
            why = ", ".join(f"{name} {value:+.2f}" for name, value in list(excerpt.why.items())[:3])
            yield Item("recall", excerpt.step, excerpt.tokens, excerpt.score, why)
        if self.recalled:
            return
        length = sum(len(step.text) for step in self.steps) or 1
        for step in self.steps:
            yield Item(self.kind, step, self.tokens * len(step.text) // length)


Part: TypeAlias = SentGroup | AddedMessage


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

    @property
    def groups(self) -> list[SentGroup]:
        """The groups of the window in it."""
        return [part for part in self.parts if isinstance(part, SentGroup)]

    @property
    def excerpts(self) -> list[Excerpt]:
        """The excerpts that stand in it."""
        return [*chain.from_iterable(part.recalled for part in self.parts if isinstance(part, AddedMessage))]

    def numbers(self, partial: Collection[str], given: Given | None) -> set[int]:
        """Return the numbers of the steps that are shown with all that was said in them."""
        cut = set(partial).union(*(part.cut for part in self.groups))
        numbers: set[int] = set()
        for part in self.groups:
            numbers |= part.shown.note.numbers if part.shown.note else set()
            for step in part.shown.group:
                if not step.is_sent or step.id in cut:
                    continue
                if given is not None:
                    numbers.update(given.numbers(step))
                elif step.step_number is not None:
                    numbers.add(step.step_number)
        return numbers

    def context(self, window: RenderedWindow, budget: int) -> Context:
        """Return the messages, and the report of them."""
        each = [part.entries(window.given, window.partial) for part in self.parts]
        entries = tuple(chain.from_iterable(each))
        stable = sum(map(len, each[: self.stable]))
        messages = [entry.message for entry in entries]
        items = partial(_report, self.parts, window.steps)
        about = self.recalled, entries, stable
        return Context(messages, self.tokens, budget, *about, report=items, corrections=self.corrections)


def entries_of(
    sent: RenderedGroup, given: Given | None, cut: Collection[str], whole: Sequence[RenderedGroup] = ()
) -> list[Entry]:
    """Return the entries of a group that is shown.

    Args:
        sent: The group.
        given: The caller's own messages, where there are any.
        cut: Ids of steps that are not whole.
        whole: The groups as they would be sent whole, those that are shown shortened at least.
    """
    originals: dict[tuple[str, int], Message] = {}
    for group in whole:
        for message, source in zip(group.messages, group.sources, strict=True):
            if source is not None:
                originals[group.group[source[0]].id, source[1]] = message
    entries: list[Entry] = []
    for message, copy, source in zip(sent.messages, to_mutable(sent.messages), sent.sources, strict=True):
        if source is None:
            if sent.note is not None and message is sent.note.message:
                entries.append(Entry(copy, "recalled", None, tuple(excerpt.step for excerpt in sent.note.excerpts)))
                continue
            entries.append(Entry(copy, "placeholder" if copy["role"] == "tool" else "moved", None, tuple(sent.group)))
            continue
        step, place = sent.group[source[0]], source[1]
        inputs = given.inputs(step) if given else ()
        index = inputs[place] if place < len(inputs) else None
        is_cut = step.id in cut and message != originals.get((step.id, place))
        native = step.overlay[place].get("set", {}).get(NATIVE) if place < len(step.overlay) else None
        entries.append(Entry(copy, "message", index, (step,), is_cut, native and to_mutable(native)))
    return entries


def _corrected_by(sent: RenderedGroup, step: Step) -> str:
    """Return what says by which step one of a group was corrected, if a note behind it does."""
    excerpts = sent.note.excerpts if sent.note else ()
    newer = [excerpt.step.step_number for excerpt in excerpts if step.step_number in excerpt.corrects]
    return f"corrected by #{newer[0]}" if newer else ""


def _report(parts: Iterable[Part], steps: Sequence[Step]) -> tuple[Item, ...]:
    """Return an item for every step that is shown or recalled, or is not."""
    items = [*chain.from_iterable(part.items() for part in parts)]
    items.sort(key=lambda item: TIERS.index(item.tier))
    seen = {item.step.id for item in items}
    items += [Item("out", step, 0, None, "over the window's share") for step in steps if step.id not in seen]
    return tuple(items)
