"""Session files of coding agents: JSON lines with an event each, of which some hold messages.

Claude Code writes Anthropic's messages, Codex writes items of the Responses API. An event without a message is left
out, and counted by its type; so are notes that the agent's program sends along (`tinymem.runs.harness`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tinymem.errors import InputError
from tinymem.messages.formats import conversation_from
from tinymem.messages.sendable import raw_calls
from tinymem.runs.harness import own_words, program_line
from tinymem.steps.content import as_text

__all__ = ["Event", "Thread", "Transcript", "is_event"]


class Event(NamedTuple):
    """A message, its place in the file, and the time that the file gives it."""

    place: str
    message: Mapping[str, Any]
    clock: Any


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
    waiting: Sequence[str] = ()
    compactions: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = tuple(self.calls)


def is_event(value: Any) -> bool:
    """Return True for what looks like a line of a session file."""
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str) or "role" in value:
        return False
    return not any(isinstance(value.get(key), list) for key in ("messages", "traj"))


class Transcript:
    """The sessions in a file, as far as it was read.

    Attributes:
        session: The session of lines that name none.
        threads: The sessions, by their names.
        skipped: The number of lines and notes left out, by their type.
    """

    def __init__(self, session: str, threads: Iterable[Thread] = ()) -> None:
        self.session = session
        self.threads = {thread.session: thread for thread in threads}
        self.skipped: Counter[str] = Counter()

    def read(self, lines: Iterable[tuple[str, Any]]) -> InputError | None:
        """Read lines, given with their places; return the error that ended the file early."""
        try:
            for place, value in lines:
                if isinstance(value, Mapping) and value.get("type") == "session_meta":
                    self.session = _text(_payload(value).get("id")) or self.session
                notes: Counter[str] = Counter()
                messages = _messages(value, notes)
                self.skipped += notes
                if messages:
                    self._add(self._thread_of(value), place, messages, value.get("timestamp"))
                    continue
                if not notes:
                    self.skipped[_kind(value)] += 1
                if summary := _summary(value):
                    thread = self._thread_of(value)
                    thread.compactions.append((len(thread.events), summary))
        except InputError as error:
            return error
        return None

    def _thread_of(self, line: Mapping[str, Any]) -> Thread:
        session = _text(line.get("sessionId")) or self.session
        if line.get("isSidechain"):  # a subagent has a session of its own
            session = f"{session}/{_text(line.get('agentId')) or 'subagent'}"
        return self.threads.setdefault(session, Thread(session))

    def _add(self, thread: Thread, place: str, messages: Sequence[Mapping[str, Any]], clock: Any) -> None:
        for message in messages:
            answered = message.get("tool_call_id") if message["role"] == "tool" else None
            if answered in thread.calls:
                thread.calls.remove(answered)
            thread.calls += [str(call.get("id")) for call in raw_calls(message)]
            thread.events.append(Event(place, message, clock))


def _messages(value: Any, notes: Counter[str]) -> list[Mapping[str, Any]]:
    """Return what a line says as chat messages; none where that is nothing, or is not understood.

    What its program says is left out, and counted in `notes`.

    A line is read by itself, though the next one may go on with the same turn: so what is added of a file that is being
    written stays as it is.
    """
    if not isinstance(value, Mapping):
        return []
    if (mark := program_line(value)) is not None:
        notes[mark] += 1
        return []
    message, payload = value.get("message"), _payload(value)
    if value.get("type") in ("user", "assistant") and isinstance(message, Mapping):
        item, format = {"role": value["type"], "content": message.get("content")}, "anthropic"
    elif value.get("type") == "response_item" and payload:
        item, format = dict(payload), "responses"
    else:
        return []
    try:
        messages = conversation_from([own_words(item, notes)], format).messages
    except InputError:
        return []
    return [one for one in messages if one.get("content") or raw_calls(one) or one["role"] == "tool"]


def _summary(value: Any) -> str:
    """Return the summary that a line puts in the place of all before it; "" where it does not."""
    if not isinstance(value, Mapping):
        return ""
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


def _kind(value: Any) -> str:
    if not isinstance(value, Mapping):
        return type(value).__name__
    kind, inner = _text(value.get("type")) or "no type", _text(_payload(value).get("type"))
    return f"{kind}/{inner}" if inner else kind


def _payload(value: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = value.get("payload")
    return payload if isinstance(payload, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
