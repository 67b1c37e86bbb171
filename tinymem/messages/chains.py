"""Chains of hashes, by which a memory knows the messages that it holds already of a history that comes again.

The history of a session is a chain. The link of a message is a hash of the link before it and of the message, so two
histories have the same links as far as they say the same, from their first message on. A step that comes as messages
gets the link of its last message as its id, and the journal keeps the links of all its messages, with the step that
holds each (see `tinymem.messages.recognition`). A forgotten message stays forgotten; but somebody who has the memory's
files can test a guess at its text.

A system prompt at the beginning stands beside the chain, known by its own text: one that names today's date does not
make all that follows new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tinymem.messages.answers import pending_calls
from tinymem.messages.conversion import steps_from_messages
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Step

__all__ = ["NATIVE", "Kept", "bodies_of", "body_of", "first_link", "link", "linked", "results_of"]

DIGITS = 22  # of a link, in hexadecimal: as many as other ids have
NATIVE = "native"  # the key of a message's own form at its provider, which says nothing that the message does not
Kept: TypeAlias = Callable[[Step], Step]  # a step as the memory writes it down: redacted, for example


def first_link(session: str | None) -> str:
    """Return the link before the first message of a session."""
    return linked("", _written(["session", session]))


def link(before: str, message: Mapping[str, Any], speaker: str | None = None) -> str:
    """Return the link of a message: the same for the same message, in any order of keys, behind the same link.

    >>> hello = {"role": "user", "content": "Hello"}
    >>> link(first_link("s1"), hello) == link(first_link("s1"), dict(reversed(hello.items())))
    True
    >>> link(first_link("s1"), hello) == link(first_link("s2"), hello)
    False
    """
    return linked(before, body_of(message, speaker))


def linked(before: str, body: str) -> str:
    """Return the link of a message with this body, behind the link `before`."""
    return hashlib.sha256(f"{before}{body}".encode("ascii")).hexdigest()[:DIGITS]


def body_of(message: Mapping[str, Any], speaker: str | None = None) -> str:
    """Write down what makes a message the same when it comes again: its keys, less those that are None or native."""
    return _written([speaker, {key: value for key, value in message.items() if value is not None and key != NATIVE}])


def bodies_of(step: Step) -> list[str]:
    """Return the bodies of a step's messages; one that has none is known by its text."""
    messages = step.to_messages() or [{"role": step.type, "content": step.text}]
    return [body_of(message, None if at else step.speaker) for at, message in enumerate(messages)]


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, Iterable) else str(value)


def results_of(step: Step, places: Sequence[int], links: Sequence[str]) -> Iterator[Step]:
    """Make steps of some messages of an action, which are results of its calls, with their links as ids."""
    assert isinstance(step, ActionStep)
    answered = [call.id for call in step.results]
    calls = pending_calls([step], [answered[at - 1] for at in places])
    messages = step.to_messages()
    steps = steps_from_messages(
        [messages[at] for at in places], session=step.session, timestamp=step.timestamp, pending=calls
    )
    for at, result in zip(places, steps, strict=True):
        yield result.evolve(id=links[at], metadata=step.metadata)
