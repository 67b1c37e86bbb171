"""Fitting of a history that its framework holds: what is new in it is archived, and what fits of it is the window.

A history comes whole at every model call. Its new messages become steps that never stand in the window of the
namespace, so that no other conversation sees them there; they are recalled instead. System prompts at its beginning are
the caller's, come with every call, and are not archived.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import groupby
from types import NoneType
from typing import Any

from tinymem.archive.durable_window import DurableWindow
from tinymem.errors import InputError, MessageError, shown
from tinymem.memory.context.choice import NOTE
from tinymem.messages.answers import OpenCall, open_calls, pending_calls
from tinymem.messages.chains import NATIVE, bodies_of, body_of
from tinymem.messages.conversion import steps_from_messages
from tinymem.messages.fitting import most_characters
from tinymem.messages.formats import Conversation, conversation_from
from tinymem.messages.formats.openai import ChatConversation
from tinymem.messages.recognition import Arrival, Node, arrivals, new_steps, recognised, words
from tinymem.messages.sendable import raw_calls
from tinymem.protocols import TokenCounter
from tinymem.recall.render import is_own_message
from tinymem.steps.content import thawed
from tinymem.steps.step import Message, Step
from tinymem.steps.types import ActionStep, MessageStep, SystemPromptStep, TaskStep
from tinymem.window.sending import Sending

__all__ = ["Fitting", "History"]

REMEMBERED = 64  # sessions whose histories are held, so that what was seen is not read again
PLAIN = {"role", "content", "tool_calls", "tool_call_id", "name", NATIVE}  # keys of a message that needs no reading
TASK = 0.5  # share of a context that the current task has at most


@dataclass
class History:
    """The history of a session as it came last.

    Attributes:
        session: Its name.
        messages: The caller's messages that count, less the prompts at their beginning.
        at: Their indices in the caller's list.
        beside: The tokens of what goes back with each message of that list and is not in it, as thinking is.
        nodes: Their places in the chain.
        steps: The steps that they make.
        ends: The number of messages up to the end of each step.
        places: By the id of a step, the beginning and end of its messages, and the numbers of the steps that stand
            whole in them.
        prompts: The messages before them, with their indices and steps.
        task: The newest task, and the message that it was made of.
        sending: Renders the window.
    """

    session: str
    messages: list[Message] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    beside: Sequence[int] = ()
    nodes: list[Node] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    places: dict[str, tuple[int, int, set[int]]] = field(default_factory=dict)
    prompts: list[tuple[Message, int, Step]] = field(default_factory=list)
    task: tuple[Step, TaskStep] | None = None
    sending: Sending | None = None

    def settle(self, count: int) -> None:
        """Keep what was made of the first `count` messages, less an action that may get more results."""
        while self.ends and self.ends[-1] > count:
            self._drop()
        while self.steps and isinstance(self.steps[-1], MessageStep) and self.steps[-1].role == "tool":
            self._drop()
        if self.steps and isinstance(self.steps[-1], ActionStep):
            self._drop()
        del self.messages[count:], self.nodes[count:]

    def _drop(self) -> None:
        self.places.pop(self.steps.pop().id, None)
        self.ends.pop()

    def inputs(self, step: Step) -> Sequence[int]:
        """Return the indices of a step's messages in the caller's list."""
        if step.id in self.places:
            start, end, _ = self.places[step.id]
            return self.at[start:end]
        return [at for _, at, prompt in self.prompts if prompt.id == step.id]

    def tokens_beside(self, step: Step, place: int) -> int:
        """Count the tokens of what goes back with a message of a step and is not in it."""
        return self.beside[self.inputs(step)[place]] if self.beside else 0

    def numbers(self, step: Step) -> Collection[int]:
        """Return the numbers of the steps that stand whole in the messages of a step."""
        return self.places[step.id][2] if step.id in self.places else ()


def read_items(
    items: Any, format: str | None, counter: TokenCounter
) -> tuple[Sequence[Message], Sequence[int], Callable[[], Conversation]]:
    """Read what a framework holds.

    Returns:
        The chat messages, the tokens of what goes back with each and is not in it, and the conversation for that.

    Most histories are plain chat messages, which need no reading; their conversation is only made when it is asked for.
    """
    if not isinstance(format, (str, NoneType)):
        raise InputError(f"format must be the name of one or None, not {shown(format)}")
    if format in (None, ChatConversation.format) and isinstance(items, (list, tuple)) and all(map(_is_plain, items)):
        plain = [*items]
        return plain, (), partial(ChatConversation, plain)
    conversation = conversation_from(items, format)
    return conversation.messages, conversation.native_tokens(counter), partial(_itself, conversation)


def _itself(conversation: Conversation) -> Conversation:
    return conversation


def _is_plain(item: object) -> bool:
    """Return True for a chat message in dicts and lists, whose content is a text."""
    if type(item) is not dict or not item.keys() <= PLAIN or type(item.get("content")) not in (str, NoneType):
        return False
    calls = item.get("tool_calls")
    return calls is None or (type(calls) is list and all(type(call) is dict for call in calls))


class Fitting:
    """The histories of all sessions of a memory.

    Args:
        window: Writes what is new.
        key: The key of the memory's own blocks, which are left out.
    """

    def __init__(self, window: DurableWindow, key: bytes) -> None:
        self._window, self._key = window, key
        self._known: OrderedDict[str, History] = OrderedDict()

    def take(
        self,
        messages: Sequence[Mapping[str, Any]],
        beside: Sequence[int],
        session: str,
        when: datetime,
        metadata: Mapping[str, Any],
    ) -> tuple[History, int]:
        """Archive what is new in a history, and return it with the number of steps that were added.

        It is the caller's alone until `keep` has it back, so that two threads never change the same one.
        """
        history = self._known.pop(session, None) or History(session)
        own = [at for at, message in enumerate(messages) if not self._is_added(message)]
        first = next((i for i, at in enumerate(own) if _role(messages[at]) not in ("system", "developer")), len(own))
        _read_prompts(history, messages, own[:first])
        added = self._read(history, [messages[at] for at in own[first:]], own[first:], when, metadata)
        history.at, history.beside = own[first:], beside
        return history, added

    def keep(self, history: History) -> None:
        """Remember a history, so that what was seen is not read again."""
        self._known[history.session] = history
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def add(
        self, messages: Sequence[Mapping[str, Any]], session: str, when: datetime, metadata: Mapping[str, Any]
    ) -> int:
        """Archive messages behind what a session has, prompts too, and return the number of steps that were added."""
        own = [at for at, message in enumerate(messages) if not self._is_added(message)]
        steps = [_as_message(step) for step in _converted([messages[at] for at in own], own, session, when)]
        marked = [step.evolve(metadata=metadata) for step in steps] if metadata else steps
        window = self._window
        return len(window.archive_new(lambda: arrivals(marked, False, window.as_kept, window, window.head_of)))

    def _is_added(self, message: object) -> bool:
        """Return True for what a context added: a block, or the note."""
        return _role(message) == "user" and (message == NOTE or is_own_message(message, self._key))

    def _read(
        self,
        history: History,
        messages: Sequence[Mapping[str, Any]],
        at: Sequence[int],
        when: datetime,
        metadata: Mapping[str, Any],
    ) -> int:
        """Bring `history` up to these messages, and return the number of steps that were added."""
        pairs = enumerate(zip(messages, history.messages, strict=False))
        same = next((i for i, (new, old) in pairs if new != old), min(len(messages), len(history.messages)))
        if same == len(messages) == len(history.messages):
            return 0
        history.settle(same)
        begin = history.ends[-1] if history.ends else 0
        pending = pending_calls(history.steps, open_calls(history.steps))
        try:
            steps = _converted(messages[begin:], at[begin:], history.session, when, pending)
            spans = _spans(steps, begin)
            bodies = self._bodies(steps, spans, messages, same)
            added = self._archive(history, steps, spans, bodies, same, metadata)
        except BaseException:
            history.settle(0)
            raise
        history.messages += [thawed(message) for message in messages[same:]]
        for step, (start, end) in zip(steps, spans, strict=True):
            nodes = history.nodes[start:end]
            history.steps.append(_as_message(step).evolve(id=nodes[-1].link, step_number=nodes[-1].number or None))
            history.ends.append(end)
            history.places[nodes[-1].link] = start, end, _whole(nodes)
        return added

    def _bodies(
        self, steps: Sequence[Step], spans: Sequence[tuple[int, int]], messages: Sequence[Mapping[str, Any]], same: int
    ) -> list[str]:
        """Return the bodies of the messages from the place `same` on, as they are kept."""
        bodies: list[str] = []
        for step, (start, end) in zip(steps, spans, strict=True):
            if end <= same:
                continue
            kept = self._window.as_kept(step)
            if kept is not step:
                own = bodies_of(kept)
            else:
                own = [body_of(messages[i], None if i > start else step.speaker) for i in range(start, end)]
            bodies += own[max(0, same - start) :]
        return bodies

    def _archive(
        self,
        history: History,
        steps: Sequence[Step],
        spans: Sequence[tuple[int, int]],
        bodies: Sequence[str],
        same: int,
        metadata: Mapping[str, Any],
    ) -> int:
        """Archive the steps, or parts of them, that are new, and give every message its node."""
        before = history.nodes[:same]
        found: list[Node] = []

        def new_ones() -> list[Arrival]:
            found[:] = recognised(bodies, history.session, self._window, before)
            nodes = [*before, *found]
            new: list[Arrival] = []
            for step, (start, end) in zip(steps, spans, strict=True):
                if any(node.number is None for node in nodes[start:end]):
                    said = [words(history.session, bodies[i - same]) if i >= same else "" for i in range(start, end)]
                    marked = _as_message(step).evolve(metadata=metadata) if metadata else _as_message(step)
                    new += new_steps(marked, nodes[start:end], said)
            given.update((row.link, (one.step.id, row)) for one in new for row in one.links)
            return new

        given: dict[str, Any] = {}
        held = self._window.archive_new(new_ones)
        numbers = {step.id: step.step_number or 0 for step in held}
        history.nodes = [*before, *(_numbered(node, given, numbers) for node in found)]
        return len(held)


def _numbered(node: Node, given: Mapping[str, Any], numbers: Mapping[str, int]) -> Node:
    """Return a node that was new with the number of the step that holds it now."""
    if node.number is not None:
        return node
    id, row = given[node.link]
    number = numbers[id]
    return Node(node.link, number, number if row.place is None else row.place, node.link == id)


def _read_prompts(history: History, messages: Sequence[Mapping[str, Any]], at: Sequence[int]) -> None:
    """Bring the prompts up to these messages; those that are the same stay, so that they are rendered once."""
    before, history.prompts = history.prompts, []
    for place, index in enumerate(at):
        message = messages[index]
        if place < len(before) and before[place][0] == message:
            step = before[place][2]
        else:
            (step,) = _converted([message], [index], history.session, None)
            step = step.evolve(pinned=True)
        history.prompts.append((thawed(message), index, step))


def _role(message: object) -> object:
    # most are dicts, of which the type says so sooner than an abstract class does
    return message.get("role") if type(message) is dict or isinstance(message, Mapping) else None


def _converted(
    messages: Sequence[Mapping[str, Any]],
    at: Sequence[int],
    session: str,
    when: datetime | None,
    pending: Sequence[OpenCall] = (),
) -> list[Step]:
    """Make steps of messages, whose indices in the caller's list are `at`; results whose call was cut off are taken."""
    cut_off = _cut_off(messages, {call.given or call.id for call in pending})
    try:
        return steps_from_messages(messages, session=session, timestamp=when, pending=[*pending, *cut_off])
    except MessageError as error:
        if error.index is None:
            raise
        raise MessageError(str(error).partition(": ")[2], at[error.index]) from error


def _cut_off(messages: Sequence[Mapping[str, Any]], known: set[str]) -> list[str]:
    """Return the ids of the calls whose results come without them."""
    found: list[str] = []
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        calls = raw_calls(message) if isinstance(message.get("tool_calls") or [], list) else ()
        known |= {str(call.get("id")) for call in calls if isinstance(call, Mapping)}
        id = message.get("tool_call_id")
        if message.get("role") == "tool" and isinstance(id, str) and id and id not in known:
            known.add(id)
            found.append(id)
    return found


def _spans(steps: Sequence[Step], begin: int) -> list[tuple[int, int]]:
    """Return the places of each step's messages: `[start, end)`."""
    spans = []
    for step in steps:
        count = 1 + sum(call.answered for call in step.tool_calls) if isinstance(step, ActionStep) else 1
        spans.append((begin, begin + count))
        begin += count
    return spans


def _as_message(step: Step) -> Step:
    """Return a task or a prompt as a message: in a history, only the newest task is one."""
    if isinstance(step, (TaskStep, SystemPromptStep)):
        content = step.task if isinstance(step, TaskStep) else step.content
        return MessageStep(step.to_messages()[0]["role"], content, **_common(step))
    return step


def _common(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in ("id", "timestamp", "session", "speaker", "step_number", "overlay")}


def window_of(history: History) -> list[Step]:
    """Return the steps of the window, the current task marked as such."""
    steps = [*(step for _, _, step in history.prompts), *history.steps]
    if (at := _task(history)) >= 0:
        steps[len(history.prompts) + at] = _made_task(history, history.steps[at])
    return steps


def _whole(nodes: Sequence[Node]) -> set[int]:
    """Return the numbers of the steps that stand whole in these messages."""
    runs = [(number, [*some]) for number, some in groupby(nodes, lambda node: node.number)]
    once = [number for number, _ in runs]
    return {number for number, some in runs if number and some[-1].ends and once.count(number) == 1}


def _task(history: History) -> int:
    """Return the place of the newest step that a user said, unless it is the newest of all; -1 if there is none."""
    users = (at for at in range(len(history.steps) - 2, -1, -1) if _is_user(history.steps[at]))
    newest = len(history.steps) - 1
    return -1 if newest < 0 or _is_user(history.steps[newest]) else next(users, -1)


def _is_user(step: Step) -> bool:
    return isinstance(step, MessageStep) and step.role == "user" and bool(step.content)


def _made_task(history: History, step: Step) -> Step:
    assert isinstance(step, MessageStep)
    if history.task is None or history.task[0] is not step:
        history.task = step, TaskStep(step.content or "", **_common(step))
    return history.task[1]


def shortened_task(steps: Sequence[Step], budget: int, cost: Callable[[Step], int]) -> tuple[list[Step], list[str]]:
    """Cut a task that would take more than its share of the budget, and return its id too if it was cut."""
    most = int(TASK * budget)
    at = next((i for i, step in enumerate(steps) if isinstance(step, TaskStep)), None)
    if at is None or cost(steps[at]) <= most:
        return [*steps], []
    longest = most_characters(lambda length: cost(steps[at].shortened(length)) <= most, most, 0)
    return [*steps[:at], steps[at].shortened(longest), *steps[at + 1 :]], [steps[at].id]
