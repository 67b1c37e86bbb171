"""Chains of hashes, by which a memory knows the messages that it holds already of a history that comes again.

The history of a session is a chain. The link of a message is a hash of the link before it and of the message, so two
histories have the same links as far as they say the same, from their first message on. A step that comes as messages
gets the link of its last message as its id: where a memory has a step with some link as its id, it was given the
history up to that message. A forgotten message stays forgotten; but somebody who has the memory's files and all other
messages can test a guess at its text.

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

__all__ = ["Chained", "Chains", "Held", "Known", "Newest", "first_link", "known_of", "link", "to_add", "unknown"]

DIGITS = 22  # of a link, in hexadecimal: as many as other ids have
AT_ONCE = 64  # steps whose links are looked up together
Kept: TypeAlias = Callable[[Step], Step]  # a step as the memory writes it down: redacted, for example
Held: TypeAlias = Callable[[Sequence[str]], Collection[str]]  # which of these ids are ids of steps that are held
Newest: TypeAlias = Callable[[str | None], str | None]  # the id of a session's newest step that is no system prompt


def first_link(session: str | None) -> str:
    """Return the link before the first message of a session."""
    return _hashed(["session", session])


def link(before: str, message: Mapping[str, Any], speaker: str | None = None) -> str:
    """Return the link of a message: the same for the same message, in any order of keys, behind the same link.

    >>> hello = {"role": "user", "content": "Hello"}
    >>> link(first_link("s1"), hello) == link(first_link("s1"), dict(reversed(hello.items())))
    True
    >>> link(first_link("s1"), hello) == link(first_link("s2"), hello)
    False
    """
    return _hashed([before, speaker, message])


def _hashed(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:DIGITS]


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

    def go_on(self, session: str | None, head: str | None) -> None:
        """Put the next step of the session behind `head`, the id of a step (None: it is the first)."""
        if head is not None:
            self._heads[session] = head

    def place(self, step: Step) -> Chained:
        """Put `step` behind what came before it in its session."""
        kept = self._kept(step)
        session, messages = kept.session, kept.to_messages() or [{"role": kept.type, "content": kept.text}]
        if isinstance(kept, SystemPromptStep):
            return Chained(step, session, (link(first_link(session), messages[0], kept.type),), None)
        links = []
        head = self._heads.get(session) or first_link(session)
        for at, message in enumerate(messages):
            head = link(head, message, None if at else kept.speaker)
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
            yield from _results(one, new)


def _results(one: Chained, new: int) -> Iterator[Step]:
    """Make steps of the last `new` messages of an action, which are results of its calls."""
    step = one.step
    assert isinstance(step, ActionStep)
    calls = pending_calls([step], [call.id for call in step.tool_calls if call.answered][-new:])
    messages = step.to_messages()[-new:]
    steps = steps_from_messages(messages, session=step.session, timestamp=step.timestamp, pending=calls)
    for result, id in zip(steps, one.links[-new:], strict=True):
        yield result.evolve(id=id)


def to_add(steps: Sequence[Step], skip: bool, kept: Kept, held: Held, newest: Newest) -> list[Step]:
    """Return the steps of a session's messages that are to be added, with links as ids.

    With `skip` they are the whole history, and the steps that are held are left out. Without, they come behind the
    steps that the session has; a step whose link is taken, as by the same system prompt, keeps the id that it has.
    """
    chains = Chains(kept)
    if skip:
        chain = [chains.place(step) for step in steps]
        return list(unknown(chain, known_of(chain, held)))
    if steps:
        session = kept(steps[0]).session
        chains.go_on(session, newest(session))
    ids = [chains.place(step).links[-1] for step in steps]
    taken = held(ids)
    return [step if id in taken else step.evolve(id=id) for step, id in zip(steps, ids, strict=True)]
