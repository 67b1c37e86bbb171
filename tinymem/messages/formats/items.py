"""Conversations of a provider's items: each item is read once while a conversation grows.

A conversation comes whole at every call of its model. What was read of it before is compared, item by item, and reading
goes on where it differs; system prompts at the beginning, which often name the time, are always read.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tinymem.errors import MessageError, kind_of
from tinymem.messages.formats.conversation import Conversation
from tinymem.messages.formats.objects import listed, plain_value
from tinymem.steps.content import thawed
from tinymem.steps.step import Message

__all__ = ["ItemConversation", "Known", "Source"]


class Source(NamedTuple):
    """The items that a message was read of, `[start, end)`, and the places of its blocks in an item of several."""

    start: int
    end: int
    blocks: tuple[int, ...] = ()


class Known(NamedTuple):
    """The items `[start, end)` of a conversation that come again unchanged, behind as many prompts."""

    conversation: ItemConversation
    start: int
    end: int


class ItemConversation(Conversation):
    """Items of a provider, dicts or objects of its SDK.

    Args:
        items: The items.
        known: What is unchanged of the conversation since it came before.

    Attributes:
        kept: How many messages were not read again.
        marks: The marks of formats among the items, each with the place of the first; None if nobody looked for them.
    """

    marks: Mapping[str, int] | None = None

    def __init__(self, items: Any, known: Known | None = None) -> None:
        self._given = given = listed(items)
        start, end = known[1:] if known else (0, 0)
        held = known.conversation._items[start:end] if known else []
        self._items: list[dict[str, Any]] = [*self._copies(0, start), *held, *self._copies(end, len(given))]
        messages, sources = _kept(known, len(given)) if known else ([], [])
        self.kept = len(messages)
        front = [*self._prompts(), *self._read(0, start)]
        behind = [*self._read(sources[-1].end if sources else start, len(given))]
        self._sources = [*(source for _, source in front), *sources, *(source for _, source in behind)]
        super().__init__([*(message for message, _ in front), *messages, *(message for message, _ in behind)])

    def known(self, items: Any) -> Known:
        """Compare this conversation with how it comes again."""
        items = listed(items)
        start = self._end_of_prompts(items)
        if start != self._end_of_prompts(self._items):
            return Known(self, 0, 0)
        end = min(len(items), len(self._items))
        if items[start:end] != self._items[start:end]:  # at once is quickest, and most are the same
            pairs = enumerate(zip(items[start:end], self._items[start:end], strict=True), start)
            end = next((at for at, (new, old) in pairs if new != old and self._plain(new) != old), end)
        return Known(self, start, end)

    def _end_of_prompts(self, items: Sequence[Any]) -> int:
        plain = (self._plain(item) for item in items)
        others = (at for at, item in enumerate(plain) if not _is_prompt(item))
        return next(others, len(items))

    def _copies(self, start: int, end: int) -> Iterator[dict[str, Any]]:
        for at in range(start, end):
            if not isinstance(item := self._plain(self._given[at]), dict):
                raise MessageError(f"must be a mapping, or an object of an SDK, not {kind_of(item)}", at)
            yield thawed(item)

    def _native(self, at: int) -> dict[str, Any]:
        """Return an item as it came; an object of an SDK as a dict."""
        return self._plain(self._given[at])  # type: ignore[no-any-return]

    def _natives(self, index: int) -> list[dict[str, Any]]:
        source = self._sources[index]
        return [self._native(at) for at in range(source.start, source.end)]

    def _plain(self, item: Any) -> Any:
        return plain_value(item)

    def _prompts(self) -> Iterator[tuple[Message, Source]]:
        """Yield messages that stand beside the items."""
        return iter(())

    @abstractmethod
    def _read(self, start: int, end: int) -> Iterator[tuple[Message, Source]]:
        """Yield the messages of the items `[start, end)`."""


def _is_prompt(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") in ("system", "developer")


def _kept(known: Known, count: int) -> tuple[list[Message], list[Source]]:
    """Return the messages of items that are known, less an answer at their end that may go on."""
    before, start, end = known
    first = bisect_left(before._sources, start, key=lambda source: source.start)
    last = bisect_right(before._sources, end, key=lambda source: source.end)
    is_whole = end == count == len(before._items)
    if not is_whole and last > first and before.messages[last - 1]["role"] == "assistant":
        last -= 1
    return before.messages[first:last], before._sources[first:last]
