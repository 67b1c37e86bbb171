"""Fitting of a history that its framework holds: what is new in it is archived, and what fits of it is the window.

A history comes whole at every model call. Its new messages become steps that never stand in the window of the
namespace, so that no other conversation sees them there; they are recalled instead. System prompts at its beginning are
the caller's, come with every call, and are not archived.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import NoneType
from typing import Any, NamedTuple

from tinymem.archive.durable_window import DurableWindow
from tinymem.errors import InputError, MessageError, safe_repr
from tinymem.memory.context.context import NOTE
from tinymem.memory.context.history import History
from tinymem.messages.answers import OpenCall, open_calls, pending_calls
from tinymem.messages.chains import bodies_of, body_of, linked
from tinymem.messages.conversion import in_order, message_places, steps_from_messages
from tinymem.messages.formats import conversation_from
from tinymem.messages.recognition import Arrival, Node, arrivals, by_place, new_steps, recognised, words
from tinymem.messages.sendable import raw_calls
from tinymem.protocols import TokenCounter
from tinymem.recall.render import is_own_message
from tinymem.steps.checks import Time, to_utc
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Message, Step
from tinymem.steps.types import ActionStep, MessageStep, SystemPromptStep, TaskStep

__all__ = ["About", "Fitting", "as_message", "facts_about", "indices_given"]

PROMPTS = ("system", "developer")  # roles of what stands before a conversation
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
def indices_given(at: Sequence[int]) -> Iterator[None]:
    """Raise errors about messages with their indices in the caller's list, which are `at` of the messages inside."""
    try:
        yield
    except MessageError as error:
        if error.index is None or at[error.index] == error.index:
            raise
        raise MessageError(str(error).partition(": ")[2], at[error.index]) from error


class Fitting:
    """The histories of all sessions of a memory.

    Args:
        window: Writes what is new.
        key: The key of the memory's own blocks, which are left out.
        counter: Counts tokens.
    """

    def __init__(self, window: DurableWindow, key: bytes, counter: TokenCounter) -> None:
        self._window, self._key, self._counter = window, key, counter
        self._known: OrderedDict[str, History] = OrderedDict()

    def take(self, items: Any, format: str | None, about: About, writes: bool = True) -> tuple[History, int]:
        """Archive what is new in a history if `writes`, and return it with the number of steps that were added.

        It is the caller's alone until `keep` has it back, so that two threads never change the same one. One with
        messages that were not written is not given back.
        """
        history = self._known.pop(about.session, None) or History(about.session, self._counter)
        history.conversation = conversation = conversation_from(items, format, history.conversation)
        messages, known = conversation.messages, conversation.kept
        roles = enumerate(message["role"] for message in messages)
        first = next((at for at, role in roles if role not in PROMPTS), len(messages))
        history.prompts = _prompts(messages[:first], history.prompts, about)
        if known == history.count == len(messages) - first:
            return history, 0
        with_nodes = history.cut(known)
        behind = range(known, len(messages) - first)
        history.own += [at for at in behind if not self._is_added(messages[first + at])]
        history.count = len(messages) - first
        return history, self._read(history, with_nodes, about, writes)

    def keep(self, history: History) -> None:
        """Remember a history, so that what was seen is not read again."""
        self._known[history.session] = history
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def add(self, items: Any, format: str | None, about: About) -> int:
        """Archive messages behind what a session has, prompts too, and return the number of steps that were added."""
        messages = conversation_from(items, format).messages
        own = [at for at, message in enumerate(messages) if not self._is_added(message)]
        steps = [as_message(step) for step in _convert([messages[at] for at in own], own, about)]
        marked = [step.evolve(metadata=about.metadata) for step in steps] if about.metadata else steps
        window = self._window
        return len(
            window.archive_new(lambda: arrivals(marked, False, window.apply_redaction, window, window.last_step_id))
        )

    def _is_added(self, message: Message) -> bool:
        """Return True for what a context added: a block, or the note."""
        return message["role"] == "user" and (message == NOTE or is_own_message(message, self._key))

    def _read(self, history: History, with_nodes: int, about: About, writes: bool) -> int:
        """Make steps of the messages that have none, and return how many were added."""
        assert history.conversation is not None
        begin = history.ends[-1] if history.ends else 0
        at = [len(history.prompts) + place for place in history.own[begin:]]
        messages = [history.conversation.messages[index] for index in at]
        steps = [as_message(step) for step in _convert(messages, at, about, history.steps)]
        places = message_places(steps, [[None] * _count(step) for step in steps])
        known = with_nodes - begin
        bodies = self._bodies(steps, places, messages)[known:]
        added = 0
        if writes:
            added = self._archive(history, steps, places, bodies, known, about)
        else:
            history.nodes += recognised(bodies, history.session, self._window, history.nodes)
        for step, own in zip(steps, places, strict=True):
            history.append(step, [begin + place for place in own])
        return added

    def _bodies(self, steps: Sequence[Step], places: Sequence[Sequence[int]], messages: Sequence[Message]) -> list[str]:
        """Return the bodies of the messages, as they are kept."""
        each: list[list[str]] = []
        for step, own in zip(steps, places, strict=True):
            kept = self._window.apply_redaction(step)
            if kept is step:
                speakers = [step.speaker, *(None for _ in own)]
                each.append([body_of(messages[place], who) for place, who in zip(own, speakers, strict=False)])
            else:
                each.append(bodies_of(kept))
        return in_order(each, places)

    def _archive(
        self,
        history: History,
        steps: Sequence[Step],
        places: Sequence[Sequence[int]],
        bodies: Sequence[str],
        known: int,
        about: About,
    ) -> int:
        """Archive the steps, or parts of them, that are new, and give every message behind `known` its node."""
        before, own = history.nodes, history.nodes[len(history.nodes) - known :]
        found: list[Node] = []
        given: dict[str, Any] = {}

        def new_ones() -> list[Arrival]:
            found[:] = recognised(bodies, history.session, self._window, before)
            nodes = [*own, *found]
            hashes = [*("" for _ in own), *(words(history.session, body) for body in bodies)]
            placed: list[tuple[int, Arrival]] = []
            for step, own_places in zip(steps, places, strict=True):
                if any(nodes[place].number is None for place in own_places):
                    marked = step.evolve(metadata=about.metadata) if about.metadata else step
                    said = [hashes[place] for place in own_places]
                    placed += new_steps(marked, [nodes[place] for place in own_places], said, own_places)
            new = by_place(placed)
            given.update((row.link, (one.step.id, row)) for one in new for row in one.links)
            return new

        held = self._window.archive_new(new_ones)
        numbers = {step.id: step.step_number or 0 for step in held}
        history.nodes += [_numbered(node, given, numbers) for node in found]
        return len(held)


def _prompts(
    messages: Sequence[Message], before: Sequence[tuple[Message, Step]], about: About
) -> list[tuple[Message, Step]]:
    """Return the prompts with their steps, whose ids say what they say; those that are the same stay."""
    found: list[tuple[Message, Step]] = []
    for at, message in enumerate(messages):
        if at < len(before) and before[at][0] == message:
            found.append(before[at])
        else:
            (step,) = _convert([message], [at], about)
            found.append((message, step.evolve(id=linked(found[-1][1].id if found else "", body_of(message)))))
    return found


def _numbered(node: Node, given: Mapping[str, Any], numbers: Mapping[str, int]) -> Node:
    """Return a node that was new with the number of the step that holds it now."""
    if node.number is not None:
        return node
    id, row = given[node.link]
    number = numbers[id]
    return Node(node.link, number, number if row.place is None else row.place, node.link == id)


def _convert(messages: Sequence[Message], at: Sequence[int], about: About, history: Sequence[Step] = ()) -> list[Step]:
    """Make steps of messages, whose indices in the caller's list are `at`."""
    pending = _calls_waiting(messages, history)
    with indices_given(at):
        return steps_from_messages(messages, session=about.session, timestamp=about.when, pending=pending)


def _calls_waiting(messages: Sequence[Message], history: Sequence[Step]) -> list[OpenCall]:
    """Return the open calls of earlier steps, if results among these messages may answer them."""
    made = {call.get("id") for message in messages for call in _mappings(message)}
    results = (message for message in messages if message["role"] in ("tool", "function"))
    if all(message.get("tool_call_id") and message.get("tool_call_id") in made for message in results):
        return []
    return pending_calls(history, open_calls(history))


def _mappings(message: Message) -> list[Mapping[str, Any]]:
    """Return the calls of a message that are mappings with an id that is a text; others are refused later."""
    calls = raw_calls(message)
    listed = calls if isinstance(calls, list) else []
    return [call for call in listed if isinstance(call, Mapping) and isinstance(call.get("id"), str)]


def _count(step: Step) -> int:
    """Count the messages of a step."""
    return 1 + len(step.results) if isinstance(step, ActionStep) else 1


def as_message(step: Step) -> Step:
    """Return a task or a prompt as a message: in a history, only the newest task is one."""
    if isinstance(step, (TaskStep, SystemPromptStep)):
        content = step.task if isinstance(step, TaskStep) else step.content
        names = ("id", "timestamp", "session", "speaker", "step_number", "overlay")
        common: dict[str, Any] = {name: getattr(step, name) for name in names}
        return MessageStep(step.to_messages()[0]["role"], content, **common)
    return step
