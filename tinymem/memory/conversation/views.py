"""The messages of a conversation as a sequence, in the order they were said, and as a mapping by id.

Both are views: they read nothing before it is asked for, and show what is added later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import overload

from tinymem.errors import InputError
from tinymem.protocols import Journal, StepRow
from tinymem.steps.checks import to_utc
from tinymem.steps.content import Content, as_text
from tinymem.steps.ids import new_nanoid, utc_now
from tinymem.steps.serialization import load_step
from tinymem.steps.types import MessageStep

__all__ = ["Message", "MessageDict", "MessageSequence", "UnknownMessageError", "message_of", "newest_first"]

PIECE = 16  # messages that are read from the journal at once


class UnknownMessageError(InputError, KeyError):
    """No message has this id. A KeyError too, as a mapping raises."""

    __str__ = Exception.__str__  # a KeyError would put its message in quotation marks


@dataclass(frozen=True)
class Message:
    """One message. `nanoid` is the id to fetch it by, `session` its task; `timestamp` may be seconds since 1970.

    >>> message = Message(role="user", content="Which port is it?")
    >>> message.role, message.text, len(message.nanoid)
    ('user', 'Which port is it?', 10)
    """

    role: str
    content: Content | None
    nanoid: str = field(default_factory=new_nanoid)
    timestamp: datetime = field(default_factory=utc_now)
    session: str | None = None
    speaker: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "timestamp", to_utc("timestamp", self.timestamp))

    @property
    def text(self) -> str:
        """The text of the content, with the type of a part without text in brackets, as in `[image_url]`."""
        return as_text(self.content)


class MessageSequence(Sequence[Message]):
    """All messages in the order they were said.

    An index reads all messages between it and the end that it counts from: `messages[-1]` reads one. To use many,
    iterate, or make a list.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __len__(self) -> int:
        return sum(tally.steps for tally in self._journal.tally() if tally.type == MessageStep.type)

    def __iter__(self) -> Iterator[Message]:
        after = 0
        while rows := self._journal.rows(after, PIECE):
            yield from (message_of(_step(row)) for row in rows if row.type == MessageStep.type)
            after = rows[-1].number

    def __reversed__(self) -> Iterator[Message]:
        return map(message_of, newest_first(self._journal))

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, place: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(place, slice):
            if place.stop is None and place.step is None and (place.start or 0) < 0:
                return tuple(islice(reversed(self), -place.start))[::-1]
            return tuple(self)[place]
        messages = islice(iter(self), place, None) if place >= 0 else islice(reversed(self), -place - 1, None)
        for message in messages:
            return message
        raise IndexError(f"there is no message {place}: the conversation has {len(self)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, tuple, MessageSequence)) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<MessageSequence of {len(self)} messages>"


class MessageDict(Mapping[str, Message]):
    """All messages by their ids, in the order they were said. Looking one up reads no other."""

    def __init__(self, messages: MessageSequence, get: Callable[[str], Message]) -> None:
        self._messages, self._get = messages, get

    def __getitem__(self, nanoid: str) -> Message:
        return self._get(nanoid)

    def __contains__(self, nanoid: object) -> bool:
        return isinstance(nanoid, str) and super().__contains__(nanoid)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[str]:
        return (message.nanoid for message in self._messages)

    def __repr__(self) -> str:
        return f"<MessageDict of {len(self)} messages>"


def newest_first(journal: Journal, session: str | None = None) -> Iterator[MessageStep]:
    """Yield the messages, newest first; only those of the session, if one is given."""
    before = journal.next_number()
    while rows := journal.rows(limit=PIECE, before=before, type=MessageStep.type, session=session, newest=True):
        yield from map(_step, rows)
        before = rows[-1].number


def message_of(step: MessageStep) -> Message:
    """Return the message that `step` keeps."""
    return Message(step.role, step.content, step.id, step.timestamp, step.session, step.speaker)


def _step(row: StepRow) -> MessageStep:
    step = load_step(row.record)
    assert isinstance(step, MessageStep)
    return step
