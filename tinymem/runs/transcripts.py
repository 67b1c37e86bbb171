"""Session files of coding agents: JSON lines with an event each, of which some hold messages.

`tinymem.runs.items` reads what a line says. An event without a message is left out, and counted; so are notes that the
agent's program sends along (`tinymem.runs.harness`), calls of tinymem's own tools, and branches that a person went back
on (`tinymem.runs.branches`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tinymem.errors import InputError
from tinymem.messages.calls import name_and_arguments, raw_calls
from tinymem.messages.formats import conversation_from
from tinymem.messages.recognition import body_of
from tinymem.runs.branches import Line, part
from tinymem.runs.harness import AGENT, STEERS, is_own_tool, own_words, program_line
from tinymem.runs.items import item_of
from tinymem.runs.lines import DAMAGED
from tinymem.runs.values import joined_texts, mapping_in, text_in, time_of, value_in
from tinymem.steps.content import as_text
from tinymem.steps.step import Message

__all__ = ["BEGINS", "Said", "Transcript", "is_event"]

BRANCH = "message of another branch"
TWICE = "message that the file holds twice"
NAMES = {  # of lines that hold no message, as a person would call them
    "progress": "progress", "system": "note", "attachment": "note", "queue-operation": "note of the queue",
    "file-history-snapshot": "snapshot of files", "summary": "title", "ai-title": "title", "custom-title": "title",
    "agent-name": "title", "last-prompt": "title", "session_meta": "setting", "turn_context": "setting",
    "permission-mode": "setting", "mode": "setting", "event_msg": "progress", "compacted": "summary",
    "response_item/reasoning": "thinking", "assistant": "thinking", "user": "message without words",
}  # fmt: skip
EVENT = re.compile(r"(?:assistant|hook|model|permission|session|skill|subagent|system|tool|user)\.")  # of Copilot CLI
BEGINS = ("session_meta", "session.start")  # kinds of lines that name the session
# what may be queued and is no prompt
UNSAID = re.compile(rf"$|<(?:task-notification|teammate-message|cross-session-message)|{STEERS.pattern}(?:\s|$)")
TASK = re.compile(r"\A\s*<task-notification.*?<task-id>(.*?)</task-id>", re.DOTALL)
SUBAGENT = "subagent"
MODELS = frozenset(("peer", "coordinator", "cron"))  # who else speaks in the user's name
MOST_QUEUED = 100


class Said(NamedTuple):
    """A message, its file and place in it, when it was said, and what it is known by, where the file has that."""

    place: str
    message: Mapping[str, Any]
    moment: datetime | None = None
    mark: str = ""


class Queued(NamedTuple):
    """A prompt that was typed while the agent worked, and may come as a message later."""

    text: str
    clock: Any


def is_event(value: Any) -> bool:
    """Return True for what looks like a line of a session file."""
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str) or "role" in value:
        return False
    return not any(isinstance(value.get(key), list) for key in ("messages", "traj"))


class Transcript:
    """The sessions in a file, or in its lines from a prompt on.

    Args:
        path: The file; its name is the session of lines that name none.
        lines: The lines, with their numbers.
        left_out: Where what is left out is counted, by its kind.

    Attributes:
        is_named: The file says that this is its session.
        parents: Names of sessions that this one was forked from, or works for.
        spawned: The sessions whose prompts a model wrote.
        threads: The messages of each session.
        is_apart: A line stands behind one that is not there.
        begin: The number of the last line with a prompt that nothing typed before waits behind; 0 for none.
    """

    def __init__(self, path: Path, lines: Iterable[tuple[int, Any]], left_out: Counter[str]) -> None:
        self.path, self.left_out = path, left_out
        self.session, self.is_named = path.stem, False
        self.parents: set[str] = set()
        self.spawned: set[str] = set()
        self._own_calls: set[str] = set()  # of tinymem's tools
        self._waiting: list[Queued] = []  # what was typed while the agent worked, and has not come as a message
        self._taken: list[Queued] = []  # and what the agent took of it
        self._lines: list[Line] = []
        self._seen: set[tuple[str, str]] = set()
        for number, value in lines:
            try:
                self._take(number, value)
            except (InputError, RecursionError):
                left_out[f"{DAMAGED}line {number}"] += 1
        kept, self.is_apart = part(self._lines)
        self.begin = max((line.number for line in kept if line.is_prompt), default=0)
        self.threads: dict[str, list[Said]] = {}
        for line in kept:
            if line.said:
                self.threads.setdefault(line.session, []).extend(line.said)
        left = sum(len(line.said) for line in self._lines) - sum(map(len, self.threads.values()))
        left_out += Counter({BRANCH: left})

    # -- lines --------------------------------------------------------------------------------------------------------

    def _take(self, number: int, value: Any) -> None:
        """Take in a line, with its messages."""
        if not isinstance(value, Mapping):
            raise InputError("a line should be an object")
        if value.get("type") in BEGINS:
            self._begin(mapping_in(value, "payload") or mapping_in(value, "data"))
        elif value.get("type") == "queue-operation":
            self._queue(value)
        notes: Counter[str] = Counter()
        messages = self._without_own_tools(_messages(value, notes), notes)
        self._settle_queue(value, messages, number)
        if not messages and not notes:
            notes[_kind(value)] += 1
        mark, moment, session = _mark(value), time_of(value.get("timestamp")), self._session_of(value)
        new = self._without_repeated(messages, mark)
        self.left_out += notes + Counter({TWICE: len(messages) - len(new)})
        said = [Said(f"{self.path}, line {number}", message, moment, mark) for message in new]
        self._lines.append(Line.of(value, 0 if self._waiting or self._taken else number, session, said))

    def _begin(self, meta: Mapping[str, Any]) -> None:
        """Take in what a line says of a session: this file's, or in a copied history the one that it comes from."""
        id, spawned = (
            text_in(meta, "id") or text_in(meta, "sessionId"),
            text_in(meta, "source", "subagent", "thread_spawn", "parent_thread_id"),
        )
        if id and not self.is_named:
            self.session, self.is_named = id, True
            self.spawned.update([id] if value_in(meta, "source", "subagent") else [])
        self.parents |= {id, text_in(meta, "forked_from_id"), spawned} - {"", self.session}

    def _session_of(self, line: Mapping[str, Any]) -> str:
        session = text_in(line, "forkedFrom", "sessionId") or text_in(line, "sessionId") or self.session
        agent = text_in(line, "agentId") or text_in(line, "parent_tool_use_id")
        if line.get("isSidechain") or agent:  # a subagent has a session of its own
            session = f"{session}/{agent or 'subagent'}"
            self.spawned.add(session)
        return session

    def _without_own_tools(self, messages: Sequence[Message], notes: Counter[str]) -> list[Message]:
        """Return the messages that say something, less calls of tinymem's tools and their results."""
        kept: list[Message] = []
        for message in messages:
            is_result = message["role"] == "tool"
            if is_result and str(message.get("tool_call_id")) in self._own_calls:
                notes["result of the memory's own tools"] += 1
                continue
            calls = raw_calls(message)
            to_memory = [call for call in calls if _is_own(call)]
            others = [call for call in calls if call not in to_memory]
            self._own_calls.update(str(call.get("id")) for call in to_memory)
            notes.update(["call of the memory's own tools"] * len(to_memory))
            said = {key: value for key, value in message.items() if key != "tool_calls"}
            if is_result or message.get("content") or others:
                kept.append({**said, "tool_calls": others} if others else said)
        return kept

    def _without_repeated(self, messages: Sequence[Message], mark: str) -> list[Message]:
        """Return the messages that this mark did not come with before."""
        new = [message for message in messages if not mark or (mark, body_of(message)) not in self._seen]
        self._seen.update((mark, body_of(message)) for message in new)
        return new

    # -- prompts that were typed while the agent worked ---------------------------------------------------------------

    def _queue(self, line: Mapping[str, Any]) -> None:
        operation, text = line.get("operation"), text_in(line, "content").strip()
        if operation == "enqueue":
            self._waiting = [*self._waiting, Queued(text, line.get("timestamp"))][-MOST_QUEUED:]
        elif operation == "popAll":  # back into the person's editor
            self._waiting = []
        elif operation in ("dequeue", "remove"):
            meant = [queued for queued in self._waiting if text in ("", queued.text)][:1]
            self._waiting = [queued for queued in self._waiting if queued not in meant]
            self._taken += meant

    def _settle_queue(self, line: Mapping[str, Any], messages: Sequence[Message], number: int) -> None:
        """Forget prompts that come as lines now; add those that the agent answers without a line of their own.

        Behind a line of the user's, what was taken before has or gets its own: a forked session repeats others first.
        """
        words = [as_text(message.get("content")).strip() for message in messages if message["role"] == "user"]
        if words or (not messages and line.get("type") == "user"):
            self._waiting = [queued for queued in self._waiting if queued.text not in words]
        elif any(message["role"] == "assistant" and "name" not in message for message in messages):
            for text, clock in self._taken:
                if not UNSAID.match(text):
                    mark, prompt = f"queued {clock}", {"role": "user", "content": text}
                    typed = Said(f"{self.path}, line {number}", prompt, time_of(clock), mark)
                    self._lines.append(Line.of({}, 0, self._session_of(line), [typed]))
        else:
            return
        self._taken = []


# -- what lines hold --------------------------------------------------------------------------------------------------


def _messages(value: Mapping[str, Any], notes: Counter[str]) -> list[Message]:
    """Return what a line says as chat messages; none where that is nothing, or is not understood.

    What its program says is left out, and counted in `notes`.

    A line is read by itself, though the next one may go on with the same turn: so what is added of a file that is being
    written stays as it is.
    """
    item, format = item_of(value)
    note = "note" if item.get("role") in ("developer", "system") else program_line(value)
    notes.update([note] if note else [])
    if note or not item:
        return []
    reports: list[str] = []
    try:
        messages = conversation_from([own_words(item, notes, reports)], format).messages
    except InputError:
        notes["message that is not understood"] += 1
        return []
    said = [{"role": "assistant", "name": SUBAGENT, "content": text} for text in reports]
    return [*(_named(message, value) for message in messages), *said]


def _named(message: Message, line: Mapping[str, Any]) -> Message:
    """Return a message as that of the model that says it, where that is not the one that speaks to the user."""
    origins = (text_in(line, "origin", "kind"), text_in(line, "attachment", "origin", "kind"), text_in(line, "subtype"))
    is_agents = text_in(line, "data", "source").startswith("agent-") or not MODELS.isdisjoint(origins)
    if message["role"] == "user" and is_agents:
        return {**message, "role": "assistant", "name": AGENT}
    is_report = message["role"] == "assistant" and text_in(line, "agentId") and not raw_calls(message)
    return {**message, "name": SUBAGENT} if is_report else message


def _mark(line: Mapping[str, Any]) -> str:
    """Return what a line and its copies in other files are known by; "" where there is nothing.

    What a subagent says is known by the subagent: the session that it works for may get the same as its report.
    """
    said = joined_texts(item_of(line)[0].get("content"))
    agents = [text_in(line, "agentId")] if line.get("type") == "assistant" else TASK.findall(said)
    if any(agents):
        return f"subagent {agents[0]}"
    return (
        text_in(line, "forkedFrom", "messageUuid")
        or text_in(line, "uuid")
        or text_in(line, "id")
        or text_in(line, "timestamp")
    )


def _is_own(call: Any) -> bool:
    name, arguments = name_and_arguments(call)
    return is_own_tool(str(name), str(arguments))


def _kind(value: Mapping[str, Any]) -> str:
    kind, inner = text_in(value, "type") or "no type", text_in(value, "payload", "type")
    whole = f"{kind}/{inner}" if inner else kind
    if EVENT.match(kind):
        return "progress"
    return NAMES.get(whole) or NAMES.get(kind) or f"line of type {whole[:40]!r}"
