"""Recognition of messages that come again, by their session, by what they say, and by how often they came.

Frameworks hand over the history of a session whole with each call. The n-th time that a history says the same, the
message has the key (hash of session and content, n), and the memory keeps the keys of all its messages. What is new of
a history has keys that are not kept, however it was cut, edited or summarised. Calls and results have ids, which are
part of what they say. Where a history that was cut says again, word for word, what was cut off, the two count as one.

A step that comes as messages has an id that is made of the key of its last one. Keys outlive their steps, so that a
forgotten message stays forgotten; somebody who has the memory's files can test a guess at its text.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from tinymem.messages.conversion import message_places, pending_calls, steps_from_messages
from tinymem.protocols.journal import MessageRows
from tinymem.protocols.rows import MessageRow
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Message, Step

__all__ = ["NATIVE", "Arrival", "KnownMessages", "MessageKey", "MessageTable", "Messages", "arrivals", "bodies_of",
           "body_of", "content_hash", "hash_of", "keys_in", "keys_of",
           "name_hash", "rows_by_key"]  # fmt: skip

KnownMessages: TypeAlias = "MessageRows | MessageTable"  # that a memory keeps
DIGITS = 22  # of a hash, in hexadecimal: as many as other ids have
NATIVE = "native"  # the key of a message's own form at its provider, which says nothing that the message does not


class MessageKey(NamedTuple):
    """A message of a session: the hash of the session and of what it says, and the number of times it was said."""

    said: str
    nth: int

    @property
    def id(self) -> str:
        """The id of a step that ends with the message."""
        return hash_of(f"{self.said} {self.nth}")


class Arrival(NamedTuple):
    """A step that is to be added, with the keys of its messages; none where it did not come as messages."""

    step: Step
    keys: Sequence[MessageKey] = ()

    def rows(self, number: int) -> list[MessageRow]:
        """Return the messages as they are kept, where the step has this number."""
        return [MessageRow(*key, number, key is self.keys[-1]) for key in self.keys]


class Messages:
    """Steps that came as messages; they are a session's history, or come behind it.

    Args:
        steps: The steps.
        is_history: Whether they are all that was said in their session.
        before: How often each hash of a message was said before them.
        given: The messages of each step, where they are at hand.
        places: The places of these among all; worked out unless given.

    Attributes:
        keys: The keys of the messages of each step.
        places: Their places.
        known: What of a history is kept, by key, as of the last look.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        is_history: bool,
        before: Mapping[str, int] | None = None,
        given: Sequence[Sequence[Message]] = (),
        places: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.steps, self._is_history = steps, is_history
        self.keys = keys_of(steps, before, given)
        self.places = message_places(steps, self.keys) if places is None else places
        self.known: dict[tuple[str, int], MessageRow] = {}

    def named(self, steps: Iterable[Step]) -> list[Step]:
        """Return the steps, or others in their places, under the ids that the keys give them."""
        return [_named(step, step_keys[-1]) for step, step_keys in zip(steps, self.keys, strict=True)]

    def look(self, kept: KnownMessages) -> dict[tuple[str, int], MessageRow]:
        """Return what of a history is kept, by those of the keys that it has."""
        self.known = rows_by_key(kept, [*chain.from_iterable(self.keys)])
        return self.known

    def new_in(self, kept: KnownMessages) -> list[Arrival]:
        """Return what is to be added to the messages that are kept."""
        if self._is_history:
            return arrivals(self.steps, self.keys, self.places, self.look(kept))
        counts = kept.count({key.said for key in chain.from_iterable(self.keys)})
        behind: list[list[MessageKey]] = []
        for step_keys in self.keys:
            behind.append([MessageKey(key.said, key.nth + counts.get(key.said, 0)) for key in step_keys])
        return arrivals(self.steps, behind, self.places, ())

    def rows(self, new: Sequence[Arrival], first: int) -> list[MessageRow]:
        """Return the messages of what is new as they are kept, and known, under numbers from `first`."""
        rows = [*chain.from_iterable(arrival.rows(number) for number, arrival in enumerate(new, first))]
        self.known.update((row[:2], row) for row in rows)
        return rows


def rows_by_key(known: KnownMessages, keys: Collection[MessageKey]) -> dict[tuple[str, int], MessageRow]:
    """Return the messages that are known, by those of these keys that they have, and some others."""
    most = max((key.nth for key in keys), default=0)
    hashes = {key.said for key in keys}
    return {row[:2]: row for row in known.find(hashes, most)}


def name_hash(session: str | None) -> str:
    """Return a hash of the name of a session."""
    return hash_of(_written(["session", session]))


def content_hash(session: str | None, body: str) -> str:
    """Return a hash of what a message says in a session.

    >>> hello = {"role": "user", "content": "Hello"}
    >>> content_hash("s1", body_of(hello)) == content_hash("s1", body_of(dict(reversed(hello.items()))))
    True
    >>> content_hash("s1", body_of(hello)) == content_hash("s2", body_of(hello))
    False
    """
    return hash_of(f"alike {name_hash(session)}{body}")


def body_of(message: Mapping[str, Any], speaker: str | None = None) -> str:
    """Write down what makes a message the same when it comes again: its keys, less those that are None or native."""
    return _written([speaker, {key: value for key, value in message.items() if value is not None and key != NATIVE}])


def bodies_of(step: Step, given: Sequence[Message] = ()) -> list[str]:
    """Return the bodies of a step's messages, rendered unless `given`; one that has none is known by its text."""
    messages = given or step.to_messages() or [{"role": step.type, "content": step.text}]
    return [body_of(messages[0], step.speaker), *map(body_of, messages[1:])]


def keys_of(
    steps: Iterable[Step], before: Mapping[str, int] | None = None, given: Iterable[Sequence[Message]] = ()
) -> list[list[MessageKey]]:
    """Return the keys of the messages of each step, as they are kept, behind messages that said so much `before`.

    The messages are rendered where they are not `given`.
    """
    times = Counter(before)
    pairs = zip(steps, chain(given, repeat(())), strict=False)
    return [keys_in(step.session, bodies_of(step, messages), times) for step, messages in pairs]


def keys_in(session: str | None, bodies: Iterable[str], times: Counter[str]) -> list[MessageKey]:
    """Return the keys of messages of a session with these bodies, and add them to the `times` that each was said."""
    keys: list[MessageKey] = []
    for body in bodies:
        said = content_hash(session, body)
        times[said] += 1
        keys.append(MessageKey(said, times[said]))
    return keys


def arrivals(
    steps: Sequence[Step],
    keys: Sequence[Sequence[MessageKey]],
    places: Sequence[Sequence[int]],
    known: Collection[tuple[str, int]],
) -> list[Arrival]:
    """Return the steps that are to be added, in the order of the `places` of messages, less those whose keys are known.

    Of an action that is known in part, the messages that are new become steps of their own.
    """
    found: list[tuple[int, Arrival]] = []
    for step, step_keys, step_places in zip(steps, keys, places, strict=True):
        new = [index for index, key in enumerate(step_keys) if key not in known]
        if len(new) == len(step_keys):
            found.append((step_places[0], Arrival(_named(step, step_keys[-1]), step_keys)))
            continue
        for index in new:
            part, key = _part(step, index), step_keys[index]
            found.append((step_places[index], Arrival(_named(part, key), [key])))
    return [arrival for _, arrival in sorted(found, key=itemgetter(0))]


def _named(step: Step, last: MessageKey) -> Step:
    """Return a step under the id that its last message gives it."""
    return step if step.id == last.id else step.evolve(id=last.id)


def _part(step: Step, index: int) -> Step:
    """Return a step of one message of an action: its call, or a result."""
    messages = step.to_messages()
    results = step.results if isinstance(step, ActionStep) else ()
    pending = pending_calls([step], [results[index - 1].id]) if index else ()
    alone = steps_from_messages([messages[index]], session=step.session, timestamp=step.timestamp, pending=pending)
    return alone[0].evolve(metadata=step.metadata)


class MessageTable:
    """The messages that one process was given, in memory."""

    def __init__(self) -> None:
        self._rows: dict[str, list[MessageRow]] = {}

    def put(self, rows: Iterable[MessageRow]) -> None:
        """Keep messages."""
        for row in rows:
            self._rows.setdefault(row.said, []).append(row)

    def find(self, said: Collection[str], most: int) -> list[MessageRow]:
        """Return the messages with these hashes that are the `most`-th of their hash at most."""
        return [*chain.from_iterable(self._rows.get(words, ())[:most] for words in said)]

    def count(self, said: Collection[str]) -> dict[str, int]:
        """Return how many messages there are with each of these hashes."""
        return {words: len(self._rows[words]) for words in said if words in self._rows}


def hash_of(text: str) -> str:
    """Return the hash of a text in ASCII."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:DIGITS]


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, Iterable) else str(value)
