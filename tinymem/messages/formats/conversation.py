"""A conversation in the format of a provider: its messages as OpenAI's chat has them, and the way back.

A conversation comes whole at every call of its model, and is read whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from tinymem.errors import InputError
from tinymem.messages.formats.parts import encodable_value, is_moved, items_of, native_tokens, plain_value
from tinymem.messages.sendable import raw_calls
from tinymem.protocols import TokenCounter
from tinymem.steps.step import Message

__all__ = ["Added", "Conversation", "ItemConversation", "ItemSource", "Placed", "PromptEntry"]


class PromptEntry(Protocol):
    """A message of a prompt, and where it comes from.

    Attributes:
        message: The chat message to be sent.
        input: The index of the conversation's message that it shows; None for what the memory adds.
        shortened: True if its text was shortened.
    """

    @property
    def message(self) -> Mapping[str, Any]:
        """The chat message."""

    @property
    def input(self) -> int | None:
        """The index, or None."""

    @property
    def shortened(self) -> bool:
        """True for a shortened message."""


class Added(NamedTuple):
    """An entry that stands in no conversation."""

    message: Mapping[str, Any]
    input: int | None = None
    shortened: bool = False


class Placed(NamedTuple):
    """An entry as it is written: its place among the entries, and its message with the ids that the calls have."""

    place: int
    message: Message
    input: int | None
    shortened: bool


class Conversation(ABC):
    """A conversation, as a framework holds it, read.

    Attributes:
        format: The name of the format.
        messages: The chat messages, with all that was said, in order. Thinking, signatures and reasoning items are not
            in them: they go back with the native item that they belong to.
    """

    format: ClassVar[str]

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = list(messages)

    def write(
        self, entries: Sequence[PromptEntry], *, stable: int = 0, cache_control: Mapping[str, Any] | None = None
    ) -> Any:
        """Write a prompt in the format of this conversation.

        An item goes back as it came, thinking, signatures, ids and unknown keys included, if all its messages are among
        `entries` and none was shortened. Of one that was shortened, what says something else is written anew, with its
        calls; of one of which a part is missing, or that has a lone surrogate, a copy goes back.

        Args:
            entries: The messages of the prompt, in order: objects with `message`, `input` and `shortened`.
            stable: How many entries at the beginning stay the same from call to call.
            cache_control: The mark at the end of the stable entries, as `{"type": "ephemeral"}`; Anthropic only.

        Returns:
            A list of items; for Anthropic a dict with `system`, if there is one, and `messages`.

        Raises:
            InputError: The format has no cache_control, or an entry's input is no index of a message.

        >>> from tinymem.messages.formats import conversation_from
        >>> conversation = conversation_from([{"role": "user", "content": "Hi."}], "anthropic")
        >>> conversation.write([])
        {'messages': []}
        """
        if cache_control is not None and self.format != "anthropic":
            raise InputError(f"cache_control is Anthropic's, and this conversation has the format {self.format!r}")
        return encodable_value(self._written(list(self._placed(entries)), stable, cache_control))

    def tokens_beside(self, index: int, counter: TokenCounter) -> int:
        """Count the tokens of what goes back with one message and is not in it: thinking and reasoning.

        Its text is counted; of what is encrypted, a token for each four bytes.

        >>> from tinymem.messages.formats import conversation_from
        >>> from tinymem.messages.tokens import default_counter
        >>> thinking = {"type": "thinking", "thinking": "It is in the log.", "signature": "EqQBCg"}
        >>> said = {"role": "assistant", "content": [thinking, {"type": "text", "text": "Port 8443."}]}
        >>> conversation_from([said]).tokens_beside(0, default_counter())
        6
        """
        return sum(native_tokens(native, counter.count) for native in self._natives(index))

    @abstractmethod
    def _natives(self, index: int) -> Iterable[Mapping[str, Any]]:
        """Return the items, or blocks, that a message was read of."""

    @abstractmethod
    def _written(self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None) -> Any: ...

    def _placed(self, entries: Sequence[PromptEntry]) -> Iterator[Placed]:
        """Yield entries as they are written: images that a native item has already are not sent twice."""
        ids: dict[str, str] = {}  # of calls, as the entries have them: as their native items have them
        is_native = False  # the newest assistant's message
        for place, entry in enumerate(entries):
            message = dict(entry.message)
            input = self._input_of(entry, place)
            if input is None and is_native and is_moved(message):
                continue
            if message["role"] == "assistant":
                is_native = input is not None
                native = raw_calls(message if input is None else self.messages[input])
                calls = []
                for sent, call in zip(raw_calls(message), native, strict=False):
                    calls.append({**sent, "id": call.get("id") or sent.get("id")})
                    ids[str(sent.get("id"))] = calls[-1]["id"]
                message |= {"tool_calls": calls} if calls else {}
            elif message["role"] == "tool":
                message["tool_call_id"] = ids.get(message.get("tool_call_id", ""), message.get("tool_call_id"))
            yield Placed(place, message, input, entry.shortened)

    def _input_of(self, entry: PromptEntry, place: int) -> int | None:
        """Return the input of an entry; None if it says the message in another form, as a result without its call."""
        input = entry.input
        if input is None:
            return None
        if not 0 <= input < len(self.messages):
            raise InputError(f"entry {place} shows message {input} of {len(self.messages)}")
        given, sent = map(_form, (self.messages[input], entry.message))
        return input if given == sent else None


def _form(message: Mapping[str, Any]) -> tuple[bool, bool]:
    return message["role"] == "user", bool(raw_calls(message))


class ItemSource(NamedTuple):
    """The items that a message was read of, `[start, end)`, and the places of its blocks in an item of several."""

    start: int
    end: int
    blocks: tuple[int, ...] = ()


class ItemConversation(Conversation):
    """Items of a provider, dicts or objects of its SDK.

    Args:
        items: The items.
        known: Those of the conversation as it came last.

    Attributes:
        items: Copies of the items, as plain values.
    """

    def __init__(self, items: Any, known: Sequence[dict[str, Any]] = ()) -> None:
        self.items = items_of(items, self._plain, known)
        read = [*self._prompts(), *self._read()]
        self._sources = [source for _, source in read]
        super().__init__([message for message, _ in read])

    def read_of(self, index: int) -> list[dict[str, Any]]:
        """Return the items that a message was read of."""
        source = self._sources[index]
        return self.items[source.start : source.end]

    def _natives(self, index: int) -> list[dict[str, Any]]:
        return self.read_of(index)

    def _plain(self, item: Any) -> Any:
        return plain_value(item)

    def _prompts(self) -> Iterator[tuple[Message, ItemSource]]:
        """Yield messages that stand beside the items."""
        return iter(())

    @abstractmethod
    def _read(self) -> Iterator[tuple[Message, ItemSource]]:
        """Yield the messages of the items."""
