"""Session files of coding agents: JSON lines with an event each, of which some hold messages.

Claude Code writes Anthropic's messages, Codex writes items of the Responses API. An event without a message is left
out, and counted; so are notes that the agent's program sends along (`tinymem.runs.harness`), calls of tinymem's own
tools, and branches that a person went back on (`tinymem.runs.branches`). A result stands behind its call, wherever
its line is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tinymem.errors import InputError
from tinymem.messages.formats import conversation_from
from tinymem.messages.recognition import body_of
from tinymem.messages.sendable import name_and_arguments, raw_calls
from tinymem.runs.branches import Branches, Line
from tinymem.runs.harness import is_own_tool, own_words, program_line
from tinymem.steps.content import as_text, to_json

__all__ = ["APART", "DAMAGED", "Event", "Queued", "Thread", "Transcript", "is_event"]

APART = "result that stands apart from its call"
DAMAGED = "damaged line"
BRANCH = "message of another branch"
TWICE = "message that the file holds twice"
NAMES = {  # of lines that hold no message, as a person would call them
    "progress": "progress", "system": "note", "attachment": "note", "queue-operation": "note of the queue",
    "file-history-snapshot": "snapshot of files", "summary": "title", "ai-title": "title", "custom-title": "title",
    "agent-name": "title", "last-prompt": "title", "session_meta": "setting", "turn_context": "setting",
    "permission-mode": "setting", "mode": "setting", "event_msg": "progress", "compacted": "summary",
    "response_item/reasoning": "thinking", "assistant": "thinking", "user": "message without words",
}  # fmt: skip
TASKS = "<task-notification"
MOST_QUEUED = 100


class Event(NamedTuple):
    """A message, its place in the file, the time that the file gives it, and what its line is known by."""

    place: str
    message: Mapping[str, Any]
    clock: Any
    mark: str = ""


class Queued(NamedTuple):
    """A prompt that was typed while the agent worked, and may come as a message later."""

    text: str
    clock: Any
    is_taken: bool = False


@dataclass
class Thread:
    """The messages of one session in a file.

    Attributes:
        session: Its name.
        calls: The calls that wait for their results.
        goes_on: It has messages in lines that were read before.
        events: Its new messages.
        waiting: The calls of those lines that waited for their results.
        compactions: Summaries that the agent's program put in the place of all before them, each with the number of
            `events` before it.
    """

    session: str
    calls: list[str] = field(default_factory=list)
    goes_on: bool = False
    events: list[Event] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    compactions: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = [*self.calls]


def is_event(value: Any) -> bool:
    """Return True for what looks like a line of a session file."""
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str) or "role" in value:
        return False
    return not any(isinstance(value.get(key), list) for key in ("messages", "traj"))


class Transcript:
    """The sessions in a file, as far as it was read.

    Attributes:
        session: The session of lines that name none.
        is_named: The file says that this is its session.
        threads: The sessions, by their names.
        skipped: The number of lines and notes left out, by their kind.
        damaged: The places of those that are damaged.
        parents: Names of sessions that this one was forked from, or works for.
        own_calls: Calls of tinymem's tools that wait for their results.
        queued: What was typed while the agent worked, and has not come as a message.
        branches: What is known of branches that were left.
        went_back: A new line stands behind one that is not the last: the file is to be read whole.
    """

    def __init__(self, session: str, threads: Iterable[Thread] = ()) -> None:
        self.session = session
        self.is_named = False
        self.threads = {thread.session: thread for thread in threads}
        self.skipped: Counter[str] = Counter()
        self.damaged: list[str] = []
        self.parents: list[str] = []
        self.own_calls: set[str] = set()
        self.queued: list[Queued] = []
        self.branches = Branches()
        self.went_back = False
        self._lines: list[Line] = []
        self._seen: set[tuple[str, str]] = set()

    def read(self, lines: Iterable[tuple[int, Any]]) -> InputError | None:
        """Read lines, given with their numbers; return the error that ended the file early."""
        fault = None
        try:
            for number, value in lines:
                try:
                    self._take(number, value)
                except RecursionError:
                    self._damage(number)
        except InputError as error:
            fault = error
        shown = self.branches.part(self._lines)
        self.went_back = shown.went_back
        self.branches.tail = shown.tail
        self.branches.left += [line.number for line in shown.left]
        left = sum(len(line.events) for line in shown.left)
        self.skipped.update({BRANCH: left} if left else {})
        self._arrange(shown.kept)
        return fault

    def _damage(self, number: int) -> None:
        self.skipped[DAMAGED] += 1
        self.damaged.append(f"line {number}")

    # -- lines --------------------------------------------------------------------------------------------------------

    def _take(self, number: int, value: Any) -> None:
        """Take in a line, with its messages."""
        if not isinstance(value, Mapping):
            self._damage(number)
            return
        if value.get("type") == "session_meta":
            self._begin(_payload(value))
        elif value.get("type") == "queue-operation":
            self._queue(value)
        notes: Counter[str] = Counter()
        messages = self._without_own_tools(_messages(value, notes), notes)
        mark = _mark(value)
        events = [Event(f"line {number}", message, value.get("timestamp"), mark) for message in messages]
        if mark:
            keys = [(mark, body_of(message)) for message in messages]
            events = [event for event, key in zip(events, keys, strict=True) if key not in self._seen]
            self._seen.update(keys)
            notes.update({TWICE: len(messages) - len(events)} if len(messages) > len(events) else {})
        self.skipped += notes
        if not messages and not notes:
            self.skipped[_kind(value)] += 1
        session = self._session_of(value)
        if events:
            self._settle_queue(events, session, number)
        self._lines.append(Line.of(value, number, session, events, _summary(value)))

    def _begin(self, meta: Mapping[str, Any]) -> None:
        """Take in what Codex says of a session: this file's, or in a copied history the one that it comes from."""
        id, parents = _text(meta.get("id")), _parents(meta)
        is_copied = self.is_named and (id in self.parents or not any(line.events for line in self._lines))
        if is_copied and id != self.session:
            parents = [id, *parents]
        elif id:
            self.parents = [] if id != self.session else self.parents
            self.session, self.is_named = id, True
        self.parents += [name for name in parents if name and name not in self.parents and name != self.session]

    def _session_of(self, line: Mapping[str, Any]) -> str:
        forked = line.get("forkedFrom")
        origin = _text(forked.get("sessionId")) if isinstance(forked, Mapping) else ""
        session = origin or _text(line.get("sessionId")) or self.session
        if line.get("isSidechain"):  # a subagent has a session of its own
            session = f"{session}/{_text(line.get('agentId')) or 'subagent'}"
        return session

    def _without_own_tools(self, messages: Sequence[Mapping[str, Any]], notes: Counter[str]) -> list[Mapping[str, Any]]:
        """Return messages less calls of tinymem's tools and their results."""
        kept: list[Mapping[str, Any]] = []
        for message in messages:
            answered = message.get("tool_call_id") if message["role"] == "tool" else None
            if answered in self.own_calls:
                self.own_calls.discard(str(answered))
                continue
            calls = raw_calls(message)
            own = [call for call in calls if _is_own(call)]
            if own:
                notes["call of the memory's own tools"] += len(own)
                self.own_calls.update(str(call.get("id")) for call in own)
                others = [call for call in calls if not _is_own(call)]
                message = {key: value for key, value in message.items() if key != "tool_calls"}
                message |= {"tool_calls": others} if others else {}
            if message["role"] == "tool" or message.get("content") or raw_calls(message):
                kept.append(message)
        if messages and not kept and not notes:
            notes["result of the memory's own tools"] += 1
        return kept

    # -- prompts that were typed while the agent worked ---------------------------------------------------------------

    def _queue(self, line: Mapping[str, Any]) -> None:
        operation, text = line.get("operation"), _text(line.get("content")).strip()
        if operation == "enqueue" and text and not text.startswith(TASKS):
            self.queued = [*self.queued, Queued(text, line.get("timestamp"))][-MOST_QUEUED:]
        elif operation == "popAll":  # back into the person's editor
            self.queued = [queued for queued in self.queued if queued.is_taken]
        elif operation in ("dequeue", "remove"):
            at = next((at for at, one in enumerate(self.queued) if not one.is_taken and text in ("", one.text)), None)
            if at is not None:
                self.queued[at] = self.queued[at]._replace(is_taken=True)

    def _settle_queue(self, events: Sequence[Event], session: str, number: int) -> None:
        """Forget prompts that come as messages now; add those that the agent answers without a line of their own."""
        for event in events:
            if event.message["role"] == "user":
                words = as_text(event.message.get("content")).strip()
                at = next((at for at, queued in enumerate(self.queued) if queued.text == words), None)
                if at is not None:
                    del self.queued[at]
            elif event.message["role"] == "assistant" and "name" not in event.message:
                said = [queued for queued in self.queued if queued.is_taken]
                self.queued = [queued for queued in self.queued if not queued.is_taken]
                for queued in said:
                    message = {"role": "user", "content": queued.text}
                    typed = Event(f"line {number}", message, queued.clock, f"queued {queued.clock}")
                    self._lines.append(Line.of({}, number, session, [typed]))

    # -- the order of messages ----------------------------------------------------------------------------------------

    def _arrange(self, lines: Sequence[Line]) -> None:
        """Give each session its messages in order, each result behind its call."""
        results = _Results(event for line in lines for event in line.events)
        for line in lines:
            if not line.events and not line.summary:
                continue
            thread = self.threads.setdefault(line.session, Thread(line.session))
            if line.summary:
                thread.compactions.append((len(thread.events), line.summary))
            for event in line.events:
                if event.message["role"] == "tool":
                    if results.is_left(event):
                        self._add_result(thread, event)
                    continue
                thread.events.append(event)
                for call in raw_calls(event.message):
                    found = results.take(str(call.get("id")))
                    thread.events += [found] if found is not None else []
                    thread.calls += [str(call.get("id"))] if found is None else []

    def _add_result(self, thread: Thread, event: Event) -> None:
        """Add a result whose call is not among the new messages."""
        answered = str(event.message.get("tool_call_id"))
        if answered in thread.calls:
            thread.calls.remove(answered)
        else:
            self.skipped[APART] += 1
        thread.events.append(event)


class _Results:
    """Results by their calls, until each was taken."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._of: dict[str, list[Event]] = {}
        for event in events:
            if event.message["role"] == "tool":
                self._of.setdefault(str(event.message.get("tool_call_id")), []).append(event)

    def take(self, call: str) -> Event | None:
        """Take the first result of a call."""
        found = self._of.get(call)
        return found.pop(0) if found else None

    def is_left(self, event: Event) -> bool:
        """Return True for a result that no call took, and take it."""
        left = self._of.get(str(event.message.get("tool_call_id")), [])
        if not left or left[0] is not event:
            return False
        left.pop(0)
        return True


# -- what lines hold --------------------------------------------------------------------------------------------------


def _messages(value: Mapping[str, Any], notes: Counter[str]) -> list[Mapping[str, Any]]:
    """Return what a line says as chat messages; none where that is nothing, or is not understood.

    What its program says is left out, and counted in `notes`.

    A line is read by itself, though the next one may go on with the same turn: so what is added of a file that is being
    written stays as it is.
    """
    if (mark := program_line(value)) is not None:
        notes[mark] += 1
        return []
    message, payload, attached = value.get("message"), _payload(value), value.get("attachment")
    if value.get("type") in ("user", "assistant") and isinstance(message, Mapping):
        item, format = {"role": value["type"], "content": message.get("content")}, "anthropic"
    elif value.get("type") == "attachment" and isinstance(attached, Mapping) and _is_typed(attached):
        item, format = {"role": "user", "content": attached.get("prompt")}, "anthropic"
    elif value.get("type") == "response_item" and payload:
        item, format = dict(payload), "responses"
    else:
        return []
    if item.get("role") in ("developer", "system"):
        notes["note"] += 1
        return []
    reports: list[str] = []
    try:
        messages = list(conversation_from([own_words(item, notes, reports)], format).messages)
    except InputError:
        notes["message that is not understood"] += 1
        return []
    messages += [{"role": "assistant", "name": "subagent", "content": text} for text in reports if text]
    return [one for one in messages if one["role"] == "tool" or one.get("content") or raw_calls(one)]


def _is_typed(attached: Mapping[str, Any]) -> bool:
    """Return True for a prompt, or a subagent's report, that came while the agent worked."""
    return attached.get("type") == "queued_command" and attached.get("commandMode") != "bash"


def _summary(value: Mapping[str, Any]) -> str:
    """Return the summary that a line puts in the place of all before it; "" where it does not."""
    if value.get("type") == "compacted":  # Codex
        return _text(_payload(value).get("message"))
    message = value.get("message")
    if value.get("isCompactSummary") is not True or not isinstance(message, Mapping):
        return ""
    try:
        chat = conversation_from([{"role": "user", "content": message.get("content")}], "anthropic").messages
    except InputError:
        return ""
    return "\n".join(as_text(one.get("content")) for one in chat)


def _mark(line: Mapping[str, Any]) -> str:
    """Return what a line and its copies in other files are known by; "" where there is nothing."""
    forked = line.get("forkedFrom")
    copied = _text(forked.get("messageUuid")) if isinstance(forked, Mapping) else ""
    return copied or _text(line.get("uuid")) or _text(line.get("timestamp"))


def _is_own(call: Any) -> bool:
    name, arguments = name_and_arguments(call)
    return is_own_tool(str(name), arguments if isinstance(arguments, str) else to_json(arguments))


def _parents(meta: Mapping[str, Any]) -> list[str]:
    """Return the names of the sessions that a session of Codex was forked from, or works for."""
    source: Any = meta.get("source")
    for key in ("subagent", "thread_spawn"):
        source = source.get(key) if isinstance(source, Mapping) else None
    spawned = _text(source.get("parent_thread_id")) if isinstance(source, Mapping) else ""
    return [name for name in (_text(meta.get("forked_from_id")), spawned) if name]


def _kind(value: Mapping[str, Any]) -> str:
    kind, inner = _text(value.get("type")) or "no type", _text(_payload(value).get("type"))
    whole = f"{kind}/{inner}" if inner else kind
    return NAMES.get(whole) or (NAMES.get(kind) if kind != "response_item" else None) or f"line of type {whole[:40]!r}"


def _payload(value: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = value.get("payload")
    return payload if isinstance(payload, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
