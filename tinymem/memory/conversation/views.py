"""The messages of a conversation, as steps keep them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from tinymem.protocols import Journal
from tinymem.steps.checks import to_utc
from tinymem.steps.content import Content, as_text
from tinymem.steps.ids import new_nanoid, utc_now
from tinymem.steps.step import load_step
from tinymem.steps.types import MessageStep

__all__ = ["Message", "message_of", "newest_first"]

PIECE = 16  # messages that are read from the journal at once


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


def newest_first(journal: Journal, session: str | None = None) -> Iterator[MessageStep]:
    """Yield the messages, newest first; only those of the session, if one is given."""
    before = journal.next_number()
    while rows := journal.rows(limit=PIECE, before=before, type=MessageStep.type, session=session, newest=True):
        yield from (cast(MessageStep, load_step(row.record)) for row in rows)
        before = rows[-1].number


def message_of(step: MessageStep) -> Message:
    """Return the message that `step` keeps."""
    return Message(step.role, step.content, step.id, step.timestamp, step.session, step.speaker)
