"""Context: the messages to send, and for each of them and each step its place; how much of one each part has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from tinymem.errors import InputError
from tinymem.messages.formats import Conversation, write_messages
from tinymem.recall import Excerpt, Recall
from tinymem.steps.step import Message, Step
from tinymem.steps.terminal import Column, draw, first_words, pluralize, table_of

__all__ = ["NOTE", "Block", "Context", "Entry", "Item", "Kind", "Shares"]

NOTE = {"role": "user", "content": "(Earlier messages are not shown.)"}  # opens what would begin with the assistant

Kind: TypeAlias = Literal["message", "placeholder", "moved", "note", "episodes", "scratchpad", "recalled"]


@dataclass(frozen=True)
class Shares:
    """The share of a context, less the fixed steps, that each part has at most; recall has what they leave.

    The defaults are measured: benchmarks/tables/episodes.md. Episodes have no share unless they are given one: recall
    finds more in the same tokens, and they are for a model that is to see what its history was about. Raises InputError
    unless each is from 0 to 1, all together too.
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
class Entry:
    """A message of a context, and where it comes from.

    Attributes:
        message: The message itself.
        kind: `"message"`; or what stands in the place of a result that is missing (`"placeholder"`), the images of a
            result, which only a user's message may have (`"moved"`), the note that earlier messages are not shown, or
            the block of `"episodes"`, of the `"scratchpad"`, or of what was `"recalled"`.
        input: The index of the message in the list that `fit` was given; None where it was not in it.
        steps: The steps that say it.
        shortened: True if the message is not whole.
        native: The message's own form at its provider, if it came with one under the key `native`.
    """

    message: Message
    kind: Kind = "message"
    input: int | None = None
    steps: tuple[Step, ...] = ()
    shortened: bool = False
    native: Any = field(default=None, repr=False)


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
    """The messages to send, and the report of what is in and out.

    Attributes:
        messages: The messages.
        tokens: Their exact tokens, at most `budget`, with those of thinking and reasoning that `to` sends with them.
        budget: The most tokens.
        recalled: The block of what was recalled.
        entries: For each message, where it comes from.
        stable: The number of messages at the beginning that stay the same from call to call, until the window jumps.
        conversation: What `fit` was given, for `to`.
        report: Makes `items`.
        corrections: What corrects steps of the window, each behind these, as far as the prompt before did not have it.
    """

    messages: list[Message]
    tokens: int
    budget: int
    recalled: Recall
    entries: tuple[Entry, ...] = field(default=(), repr=False)
    stable: int = 0
    conversation: Conversation | None = field(default=None, repr=False, compare=False)
    report: Callable[[], tuple[Item, ...]] = field(default=tuple, repr=False, compare=False)
    corrections: tuple[Excerpt, ...] = field(default=(), repr=False)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The place of every step, its tokens, and the reason."""
        return self.report()

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
        given = self.conversation
        if given is not None and format in (None, given.format):
            return given.write(self.entries, stable=self.stable, cache_control=cache_control)
        return write_messages(self.messages, format or "openai", stable=self.stable, cache_control=cache_control)

    def __repr__(self) -> str:
        parts = pluralize(len(self.messages), "message"), f"{self.tokens:,} of {self.budget:,} tokens"
        return f"<Context: {', '.join(parts)}, {pluralize(len(self.recalled.items), 'excerpt')} recalled>"

    def explain(self, width: int | None = None) -> str:
        """Return a line for every item: tier, step, tokens, score and why.

        Before them stands what recall had to do without, and what it had no room for.

        Args:
            width: The columns of a line at most; any number unless given.
        """
        said = [f"{self.tokens} of {self.budget} tokens, {len(self.messages)} messages"]
        said += [self.recalled.note, str(self.recalled.overflow)]
        lines = [[(text, "")] for text in filter(None, said)]
        return draw([*lines, table_of(_COLUMNS, map(_row, self.items))], width)


_COLUMNS = (Column(""), Column(""), Column("", right=True), Column("", right=True), Column("", room="wrapped"))


def _row(item: Item) -> tuple[str, ...]:
    step = item.step.type if item.step.step_number is None else f"#{item.step.step_number} {item.step.type}"
    score = "" if item.score is None else f"{item.score:+.2f}"
    return item.tier, step, f"{item.tokens} tokens", score, item.why or first_words(item.step.text, 60)
