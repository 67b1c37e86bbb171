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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from tinymem.messages.answers import pending_calls
from tinymem.messages.conversion import steps_from_messages
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Step
from tinymem.steps.types import SystemPromptStep

__all__ = ["NATIVE", "Chained", "Chains", "Held", "Kept", "Known", "bodies_of", "body_of", "first_link",
           "known_of", "link", "linked", "results_of", "unknown"]  # fmt: skip

DIGITS = 22  # of a link, in hexadecimal: as many as other ids have
AT_ONCE = 64  # steps whose links are looked up together
NATIVE = "native"  # the key of a message's own form at its provider, which says nothing that the message does not
Kept: TypeAlias = Callable[[Step], Step]  # a step as the memory writes it down: redacted, for example
Held: TypeAlias = Callable[[Sequence[str]], Collection[str]]  # which of these ids are ids of steps that are held


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


class Chained(NamedTuple):
    """A step with the links of its messages.

    `end` counts the messages of the session up to the end of this step; it is None for a system prompt, which stands
    beside the chain.
    """

    step: Step
    session: str | None
    links: tuple[str, ...]
    end: int | None


class Chains:
    """The chains of all sessions whose steps come by; links are of the `kept` form of each."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._heads: dict[str | None, str] = {}
        self._ends: dict[str | None, int] = {}

    def place(self, step: Step) -> Chained:
        """Put `step` behind what came before it in its session."""
        kept = self._kept(step)
        session = kept.session
        if isinstance(kept, SystemPromptStep):
            return Chained(step, session, (link(first_link(session), kept.to_messages()[0], kept.type),), None)
        links = []
        head = self._heads.get(session) or first_link(session)
        for body in bodies_of(kept):
            head = linked(head, body)
            links.append(head)
        self._heads[session] = head
        self._ends[session] = end = self._ends.get(session, 0) + len(links)
        return Chained(step, session, tuple(links), end)


@dataclass
class Known:
    """The part of some histories that a memory holds: messages from the beginning of each session, and prompts."""

    ends: dict[str | None, int] = field(default_factory=dict)
    prompts: set[str] = field(default_factory=set)


def known_of(chain: Iterable[Chained], held: Held) -> Known:
    """Find the part of `chain` that is held: each history up to the last link that is the id of a step."""
    known = Known()
    steps = iter(chain)
    while batch := list(islice(steps, AT_ONCE)):
        ids = held([link for one in batch for link in one.links])
        for one in batch:
            if one.end is None:
                known.prompts.update(link for link in one.links if link in ids)
                continue
            for end, each in enumerate(one.links, one.end - len(one.links) + 1):
                if each in ids:
                    known.ends[one.session] = end
    return known


def unknown(chain: Iterable[Chained], known: Known) -> Iterator[Step]:
    """Yield the steps of `chain` that are not held, each with its link as id.

    Where a call is held and its results are not, as when the history ended there at the time, the results come as
    messages of their own.
    """
    for one in chain:
        new = len(one.links) if one.end is None else min(one.end - known.ends.get(one.session, 0), len(one.links))
        if new <= 0 or (one.end is None and one.links[0] in known.prompts):
            continue
        if new == len(one.links):
            yield one.step.evolve(id=one.links[-1])
        else:
            yield from results_of(one.step, range(len(one.links) - new, len(one.links)), one.links)


def results_of(step: Step, places: Sequence[int], links: Sequence[str]) -> Iterator[Step]:
    """Make steps of some messages of an action, which are results of its calls, with their links as ids."""
    assert isinstance(step, ActionStep)
    answered = [call.id for call in step.tool_calls if call.answered]
    calls = pending_calls([step], [answered[at - 1] for at in places])
    messages = step.to_messages()
    steps = steps_from_messages(
        [messages[at] for at in places], session=step.session, timestamp=step.timestamp, pending=calls
    )
    for at, result in zip(places, steps, strict=True):
        yield result.evolve(id=links[at], metadata=step.metadata)
