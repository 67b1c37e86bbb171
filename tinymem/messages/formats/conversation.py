"""A conversation in the format of a provider: its messages as OpenAI's chat has them, and the way back.

A conversation comes whole at every call of its model, and is read whole. Objects of the SDKs become plain values: dicts
and lists that can be sent again.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from math import ceil
from typing import Any, ClassVar, NamedTuple, Protocol

from tinymem.errors import InputError, MessageError, describe_type
from tinymem.messages.calls import raw_calls
from tinymem.messages.formats.parts import strings
from tinymem.protocols import TokenCounter
from tinymem.steps.content import as_text, encodable
from tinymem.steps.step import Message

__all__ = [
    "Added", "Conversation", "ItemConversation", "Placed", "PromptEntry", "encodable_value", "items_of",
    "listed", "plain_value",
]  # fmt: skip

_MOVED = re.compile(r"What call .* returned:|In the message of the \w+:", re.DOTALL)  # what `repair` puts before them
_ATOMS = frozenset({str, int, float, bool, type(None)})
MOST_LEVELS = 200  # of lists and mappings inside each other


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
        return sum(_native_tokens(native, counter.count) for native in self._natives(index))

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
            if input is None and is_native and _is_moved(message):
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


class ItemConversation(Conversation):
    """Items of a provider, dicts or objects of its SDK.

    Args:
        items: The items.
        known: Those of the conversation as it came last.

    Attributes:
        items: Copies of the items, as plain values.
        read_of: For each message the items that it was read of.
    """

    def __init__(self, items: Any, known: Sequence[dict[str, Any]] = ()) -> None:
        pairs = zip(listed(items), chain(known, repeat(None)), strict=False)
        self.items = _dicts([old if item == old else self._plain(item) for item, old in pairs])
        read = self._read()
        self.read_of = [natives for _, natives in read]
        super().__init__([message for message, _ in read])

    def _natives(self, index: int) -> list[dict[str, Any]]:
        return self.read_of[index]

    def _plain(self, item: Any) -> Any:
        found = plain_value(item)
        return self._of_sdk(found) if hasattr(item, "model_dump") else found

    def _of_sdk(self, found: Any) -> Any:
        """Return an item that was an object of the SDK."""
        return found

    @abstractmethod
    def _read(self) -> list[tuple[Message, list[dict[str, Any]]]]:
        """Return the messages of the items, each with the items that it is read of."""


# -- values -----------------------------------------------------------------------------------------------------------


def _native_tokens(native: Mapping[str, Any], count: Callable[[str], int]) -> int:
    """Count the tokens of the thinking or reasoning in an item or a block of any format."""
    seen = [value for value in (native.get("thinking"), native.get("reasoning_content")) if value]
    if native.get("type") == "reasoning":
        seen += [native.get("summary"), native.get("content")]
    hidden = native.get("encrypted_content") or (native.get("type") == "redacted_thinking" and native.get("data"))
    seen_tokens = sum(map(count, strings(seen))) if seen else 0
    return seen_tokens + (ceil(len(hidden) * 3 / 16) if isinstance(hidden, str) else 0)


def _is_moved(message: Mapping[str, Any]) -> bool:
    """Return True if this is the message in which `repair` sends images of the results, or answer, before it."""
    content = message.get("content")
    if message["role"] != "user" or not isinstance(content, list) or not content:
        return False
    return _MOVED.fullmatch(as_text([content[0]])) is not None


def plain_value(value: Any, levels: int = MOST_LEVELS) -> Any:
    """Copy `value`, with each object of an SDK in it as a dict of the fields that were set.

    Raises:
        MessageError: It is over `levels` levels deep, or inside itself.

    >>> plain_value(({"type": "text", "text": "Hello."},))
    [{'type': 'text', 'text': 'Hello.'}]
    """
    if type(value) in _ATOMS:
        return value
    if not levels:
        raise MessageError(f"a message with a value of over {MOST_LEVELS} levels of lists and mappings cannot be held")
    if isinstance(value, Mapping):
        return {key: plain_value(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(inner, levels - 1) for inner in value]
    if hasattr(value, "model_dump"):
        left_out = getattr(value, "__api_exclude__", None)  # what the SDK parsed out of it
        return value.model_dump(exclude_unset=True, mode="json", by_alias=True, exclude=left_out)
    return value


def encodable_value(value: Any) -> Any:
    r"""Copy `value` with texts that UTF-8 can hold, in dicts and lists.

    >>> encodable_value([{"text": "broken \ud83d"}])
    [{'text': 'broken �'}]
    """
    if isinstance(value, str):
        return encodable(value)
    if type(value) is dict:
        return {encodable_value(key): encodable_value(inner) for key, inner in value.items()}
    return [*map(encodable_value, value)] if type(value) is list else value


def listed(items: Any) -> list[Any]:
    """Return the items of a history as a list; MessageError if they are none."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise MessageError(f"a conversation must be a list of messages, not {describe_type(items)}")
    return list(items)


def items_of(items: Any) -> list[dict[str, Any]]:
    """Return the items of a history as dicts; MessageError if it is no list, or one of them is no mapping."""
    return _dicts([*map(plain_value, listed(items))])


def _dicts(items: list[Any]) -> list[dict[str, Any]]:
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise MessageError(f"must be a mapping, or an object of an SDK, not {describe_type(item)}", index)
    return items
