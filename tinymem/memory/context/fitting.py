"""Fitting of a history that its framework holds: what is new in it is archived, and what fits of it is the window.

A history comes whole at every model call. Its new messages become steps that never stand in the window of the
namespace, so that no other conversation sees them there; they are recalled instead. System prompts at its beginning are
the caller's, come with every call, and are not archived. Where a message was edited or an answer made again, what
stands there now corrects what stood there and behind it: recall gives that instead, and `get` both.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import takewhile
from types import NoneType
from typing import Any, NamedTuple

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.errors import InputError, MessageError, safe_repr
from tinymem.memory.context.context import NOTE
from tinymem.memory.context.history import History
from tinymem.messages.conversion import steps_from_messages, steps_of_history
from tinymem.messages.formats import conversation_from
from tinymem.messages.recognition import Messages, body_of, hash_of
from tinymem.recall.render import is_block
from tinymem.steps.checks import Time, to_utc
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Message, Step, are_same
from tinymem.steps.types import CORRECTS, MessageStep, SystemPromptStep, TaskStep
from tinymem.stores.words import words

__all__ = ["About", "Fitting", "as_message", "facts_about", "indices_given", "is_fork", "is_own_message"]

PROMPTS = ("system", "developer")  # roles of what stands before a conversation
TURN = 2  # steps that an edit takes back at most, where words do not tell it from a summary of them
ALIKE = 0.3  # share of their words, all together, that what takes the place of another message has in common with it
REMEMBERED = 64  # sessions whose histories are held, so that what was seen is not read again


class About(NamedTuple):
    """Facts about new messages: their session, when they were said, and their metadata."""

    session: str
    when: datetime
    metadata: Mapping[str, Any]


def facts_about(session: str, now: Time | None, metadata: Mapping[str, Any] | None) -> About:
    """Check what stands beside the messages of a history."""
    if not isinstance(metadata, (Mapping, NoneType)):
        raise InputError(f"metadata must be a mapping, not {safe_repr(metadata)}")
    return About(session, to_utc("now", now) or utc_now(), metadata or {})


@contextmanager
def indices_given(indices: Sequence[int]) -> Iterator[None]:
    """Raise errors about messages with their `indices` in the caller's list, by their places among those inside."""
    try:
        yield
    except MessageError as error:
        if error.index is None or indices[error.index] == error.index:
            raise
        raise MessageError(str(error).partition(": ")[2], indices[error.index]) from error


class Fitting:
    """The histories of all sessions of a memory.

    Args:
        window: Writes what is new.
        archive: Holds what was written.
    """

    def __init__(self, window: DurableWindow, archive: Archive) -> None:
        self._window, self._archive = window, archive
        self._known: OrderedDict[str, History] = OrderedDict()

    def take(self, items: Any, format: str | None, about: About, writes: bool = True) -> tuple[History, int]:
        """Archive what is new in a history if `writes`, and return it with the number of steps that were added.

        It is the caller's alone until `keep` has it back, so that two threads never change the same one. One with
        messages that were not written is not given back.
        """
        history = self._known.pop(about.session, None)
        conversation = conversation_from(items, format, history.conversation if history else None)
        if history is None or history.conversation.format != conversation.format:
            history = History(about.session, conversation, self._archive.counter)
        messages = conversation.messages
        prompts = [*takewhile(lambda message: message["role"] in PROMPTS, messages)]
        begin = history.follow(conversation, [_prompt(*entry, about) for entry in enumerate(prompts)])
        new = [index for index in range(begin, len(messages)) if not self._is_added(messages[index])]
        return history, self._read(history, new, about, writes) if new else 0

    def keep(self, history: History) -> None:
        """Remember a history, so that what was seen is not read again."""
        self._known[history.session] = history
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def add(self, items: Any, format: str | None, about: About) -> int:
        """Archive messages behind what a session has, prompts too, and return the number of steps that were added."""
        messages = conversation_from(items, format).messages
        indices = [index for index, message in enumerate(messages) if not self._is_added(message)]
        kept, given = self._as_kept(messages, _convert(messages, indices, about), about)
        return len(self._window.archive_messages(Messages(kept, False, given=given)))

    def _is_added(self, message: Message) -> bool:
        """Return True for what a context added: a block, or the note."""
        return message["role"] == "user" and (message == NOTE or is_own_message(message, self._archive.key))

    def _read(self, history: History, indices: Sequence[int], about: About, writes: bool) -> int:
        """Make steps of the messages with these indices, behind the others; return how many were added."""
        messages = history.conversation.messages
        read = _convert(messages, indices, about)
        kept, given = self._as_kept(messages, read, about)
        batch = Messages(kept, True, history.said(), given, [places for _, places in read])
        known = batch.look(self._archive.journal.messages) if history.dropped or not writes else {}
        if not known and is_fork(history.dropped, kept, bool(history.steps)):
            kept[0] = kept[0].evolve(metadata={**kept[0].metadata, CORRECTS: [step.id for step in history.dropped]})
        history.dropped = []
        batch.steps = batch.named(kept)
        added = self._window.archive_messages(batch) if writes else []
        steps = [step for step, _ in read]
        history.extend(batch.steps if are_same(kept, steps) else batch.named(steps), batch)
        return len(added)

    def _as_kept(
        self, messages: Sequence[Message], read: Sequence[tuple[Step, list[int]]], about: About
    ) -> tuple[list[Step], list[list[Message]]]:
        """Return steps as they are written, with their metadata and redacted, and the messages of those left whole."""
        kept: list[Step] = []
        given: list[list[Message]] = []
        for step, places in read:
            marked = step.evolve(metadata=about.metadata) if about.metadata else step
            kept.append(self._window.apply_redaction(marked))
            given.append([messages[place] for place in places] if kept[-1] is marked else [])
        return kept, given


def _prompt(index: int, message: Message, about: About) -> Step:
    """Return the step of a prompt at an index of the conversation; its id says what it says, and where."""
    with indices_given([index]):
        (step,) = steps_from_messages([message], session=about.session, timestamp=about.when)
    return step.evolve(id=hash_of(f"prompt {index} {body_of(message)}"))


def _convert(messages: Sequence[Message], indices: Sequence[int], about: About) -> list[tuple[Step, list[int]]]:
    """Make steps of the messages with these indices, each with the indices of its own."""
    with indices_given(indices):
        read = steps_of_history([messages[index] for index in indices], about.session, about.when)
    return [(as_message(step), [*map(indices.__getitem__, places)]) for step, places in read]


def is_own_message(message: object, key: bytes) -> bool:
    """Return True if a chat message is a block of this memory. A tool's result is none: its call needs it."""
    if not (type(message) is dict or isinstance(message, Mapping)) or message.get("role") != "user":
        return False
    content = message.get("content")
    return isinstance(content, str) and is_block(content, key)


def as_message(step: Step) -> Step:
    """Return a task or a prompt as a message: in a history, only the newest task is one."""
    if isinstance(step, (TaskStep, SystemPromptStep)):
        content = getattr(step, step.content_field)
        names = ("id", "timestamp", "session", "speaker", "step_number", "overlay")
        common: dict[str, Any] = {name: getattr(step, name) for name in names}
        return MessageStep(step.to_messages()[0]["role"], content, **common)
    return step


def is_fork(dropped: Sequence[Step], new: Sequence[Step], has_begun: bool) -> bool:
    """Return whether what is new in a history stands in the place of what was dropped, and is no summary of it.

    Args:
        dropped: The steps that a history no longer has at its end.
        new: The steps that it has there now, and never had before.
        has_begun: The steps before them are the same.
    """
    if not dropped or not new or _role(dropped[0]) != _role(new[0]):
        return False
    old, now = {*words(dropped[0].text)}, {*words(new[0].text)}
    is_alike = len(old & now) >= ALIKE * (len(old | now) or 1)
    if has_begun:
        return is_alike or len(dropped) <= TURN
    return is_alike and len(dropped) <= 2 * TURN  # or it is another conversation


def _role(step: Step) -> str:
    messages = step.to_messages()
    return str(messages[0]["role"]) if messages else ""
