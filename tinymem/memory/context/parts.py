"""The parts of a prompt: groups of the window, and messages that the memory adds; their entries and their report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

from tinymem.memory.context.context import Entry, Item, Kind
from tinymem.memory.context.window import RenderedWindow, shortened_ids
from tinymem.messages.recognition import NATIVE
from tinymem.recall import Excerpt
from tinymem.steps.content import to_mutable
from tinymem.steps.step import Message, Step
from tinymem.window.sending import RenderedGroup

__all__ = [
    "PROMPTS", "AddedMessage", "Part", "SentGroup", "corrections_of", "groups_of",
    "is_begun_by_assistant", "numbers_of", "report_of", "sum_tokens",
]  # fmt: skip

PROMPTS = ("system", "developer")  # roles of what stands before the conversation
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

    @cached_property
    def cut(self) -> set[str]:
        """The ids of the steps that are shortened here."""
        return set() if self.shown is self.whole else shortened_ids(self.shown, self.whole)

    def follow(self, window: RenderedWindow) -> SentGroup | None:
        """Return the group as the window has it now, where it is sent the same.

        One of which a step was corrected since gets a note behind it; None where that cannot be: it is shortened.
        """
        now = window.by_first.get(self.shown.first)
        if now is None or now is self.shown:
            return self
        if self.cut:
            return self if now.note == self.shown.note else None
        is_sent_same = now.note != self.shown.note or now.messages == self.shown.messages
        return replace(self, shown=now, whole=now) if is_sent_same else self

    def entries(self, window: RenderedWindow) -> list[Entry]:
        """Return its messages as entries."""
        sent, cut = self.shown, {*window.partial, *self.cut}
        originals = dict(zip(self.whole.sources, self.whole.messages, strict=True)) if self.cut else {}
        entries = []
        for message, copy, source in zip(sent.messages, to_mutable(sent.messages), sent.sources, strict=True):
            if source is None:
                entries.append(_added_entry(sent, message, copy))
                continue
            step, place = sent.group[source[0]], source[1]
            index = next(iter(window.inputs.get(step.id, ())[place:]), None)
            is_cut = step.id in cut and message != originals.get(source)
            entries.append(Entry(copy, "message", index, (step,), is_cut, _native_of(step, place)))
        return entries

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

    def follow(self, window: RenderedWindow) -> AddedMessage | None:
        """Return the same message; None where a step in it was corrected, so that it cannot be sent as it was."""
        is_outdated = any(excerpt.step.step_number in window.corrections for excerpt in self.recalled)
        return None if is_outdated else self

    def entries(self, window: RenderedWindow) -> list[Entry]:
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


# -- several parts -----------------------------------------------------------------------------------------------------


def groups_of(parts: Iterable[Part]) -> list[SentGroup]:
    """Return the groups among these parts."""
    return [part for part in parts if isinstance(part, SentGroup)]


def sum_tokens(parts: Iterable[Part]) -> int:
    """Sum up the tokens of parts."""
    return sum(part.tokens for part in parts)


def is_begun_by_assistant(parts: Iterable[Part]) -> bool:
    """Return whether the assistant says the first message behind the system prompts."""
    return next((part.role for part in parts if part.role and part.role not in PROMPTS), "") == "assistant"


def numbers_of(parts: Iterable[Part], window: RenderedWindow) -> set[int]:
    """Return the numbers of the steps that are shown with all that was said in them."""
    groups = groups_of(parts)
    cut = set(window.partial).union(*(part.cut for part in groups))
    notes = [part.shown.note.numbers for part in groups if part.shown.note]
    steps = chain.from_iterable(part.shown.group for part in groups)
    whole = [step for step in steps if step.is_sent and step.id not in cut]
    return window.numbers(whole).union(*notes)


def corrections_of(parts: Iterable[Part], before: Iterable[Part] = ()) -> tuple[Excerpt, ...]:
    """Return what stands in the notes of these parts, and not in those of the parts before."""
    sent = [part.shown.note for part in groups_of(before)]
    notes = [part.shown.note for part in groups_of(parts)]
    new = [note.excerpts for note in notes if note and note not in sent]
    return (*chain.from_iterable(new),)


def _native_of(step: Step, place: int) -> Any:
    """Return the form at its provider that a message of a step came with, if it had one."""
    native = step.overlay[place].get("set", {}).get(NATIVE) if place < len(step.overlay) else None
    return native and to_mutable(native)


def _added_entry(sent: RenderedGroup, message: Message, copy: Message) -> Entry:
    """Return the entry of a message of a group that no step of it says."""
    if sent.note is not None and message is sent.note.message:
        return Entry(copy, "recalled", None, tuple(excerpt.step for excerpt in sent.note.excerpts))
    return Entry(copy, "placeholder" if copy["role"] == "tool" else "moved", None, tuple(sent.group))


def _corrected_by(sent: RenderedGroup, step: Step) -> str:
    """Return what says by which step one of a group was corrected, if a note behind it does."""
    excerpts = sent.note.excerpts if sent.note else ()
    newer = [excerpt.step.step_number for excerpt in excerpts if step.step_number in excerpt.corrects]
    return f"corrected by #{newer[0]}" if newer else ""


def report_of(parts: Iterable[Part], steps: Sequence[Step]) -> tuple[Item, ...]:
    """Return an item for every step that is shown or recalled, or is not."""
    items = [*chain.from_iterable(part.items() for part in parts)]
    items.sort(key=lambda item: TIERS.index(item.tier))
    seen = {item.step.id for item in items}
    items += [Item("out", step, 0, None, "over the window's share") for step in steps if step.id not in seen]
    return tuple(items)
