"""Answers to the hooks of coding agents, from the memory of one namespace, and others that are read beside it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tinymem.errors import InputError, NotAMemoryError
from tinymem.integrations.mcp.numbers import memories_by_label
from tinymem.runs.harness import ABOUT
from tinymem.runs.hooks.privacy import redact_with, without_private
from tinymem.runs.hooks.quick import ACTING
from tinymem.runs.hooks.reader import FOUND, InFront, Reader, words_of
from tinymem.runs.hooks.talk import is_small_talk
from tinymem.runs.hooks.transcripts import LATE, add_transcript, note_begun, note_ended, read_on, transcript_of
from tinymem.runs.values import text_in
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.checks import check_choice

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["ADDING", "EVENTS", "Answers", "Asked", "Opener", "read_event"]

ADDING = ("pre-compact", "stop", "subagent-stop", "session-end")  # the events that add what is new in a transcript
EVENTS = ("session-start", "prompt", *ADDING, *ACTING)
Opener: TypeAlias = "Callable[..., HierarchicalMemory]"
LONGEST = 1_000_000  # characters of an event
FOR_MODEL = ("llmContent", "text_result_for_llm")  # where Gemini CLI, Qwen Code and Copilot CLI have what a model reads
SESSIONS = 100  # of which it is known what they have in front of them
OWN_SHARE = 2 / 3  # of a prompt's tokens, where other namespaces are read too
TWICE = 10.0  # seconds in which a second hook has the same event of a session, as a plugin's beside an installed one

_COMMAND = re.compile(r"\s*(?:/(?:compact\b|[\w:.-]+\s*\Z)|\Z)")  # a prompt that a memory has nothing to say to


def read_event(text: str) -> Mapping[str, Any]:
    """Read what the agent wrote to standard input."""
    event = None
    with suppress(ValueError, RecursionError):
        event = json.loads(text) if len(text) <= LONGEST else None
    if not isinstance(event, dict):
        raise InputError("standard input should be one JSON object, as agents write it for their hooks")
    return event


class Asked(NamedTuple):
    """A hook that an agent runs: its event, what it wrote, the namespaces, and the tokens of the answer."""

    event: str
    details: Mapping[str, Any]
    namespace: str
    also: Sequence[str] = ()  # namespaces that are read beside it
    max_tokens: int | None = None
    redact: Sequence[str] = ()  # what is replaced before anything is kept

    @property
    def session(self) -> str:
        """The name of the agent's session; "" where it says none."""
        return text_in(self.details, "session_id")

    @property
    def step(self) -> ActionStep | None:
        """The use of a tool that the event tells of: what is about to be done, or failed; None where it was stopped."""
        details, redact = self.details, redact_with(self.redact)
        given, said = details.get("tool_input"), details.get("tool_response") or details.get("tool_result") or ""
        if details.get("is_interrupt") or not given:
            return None
        if isinstance(said, dict):
            read = filter(None, (text_in(said, key) for key in FOR_MODEL))
            said = next(read, "") or "\n".join(map(str, filter(None, reversed(said.values()))))
        shown = None if self.event == "pre-tool-use" else redact(str(said))
        error = redact(text_in(details, "error"))
        call = ToolCall(text_in(details, "tool_name"), given, observation=shown, error=error or None)
        return ActionStep(tool_calls=[call], session=self.session)


class Answers:
    """Answers from memories that stay open until `close`.

    Args:
        opener: Opens the memory of a namespace, and makes it where the second argument is True. A third, where a hook
            redacts more than private text, is the `redact` of the memory.
        stays: The process stays: a session's beginning waits until its prompts can be answered quickly.
    """

    def __init__(self, opener: Opener, stays: bool = False) -> None:
        self._opener, self._stays = opener, stays
        self._last: tuple[object, ...] = ()  # what a hook asked
        self._asked_at = -TWICE
        self._memories: dict[tuple[str, ...], HierarchicalMemory] = {}  # by namespace and what is redacted
        self._reader = cache(Reader)
        self.sessions: OrderedDict[str, dict[str, InFront]] = OrderedDict()  # by namespace, what each has in front
        self._lock = threading.RLock()

    def answer(self, asked: Asked) -> str:
        """Return what the agent is to read; "" for nothing.

        Raises:
            TinymemError: The event is unknown, or what it names cannot be read.
        """
        check_choice("the event", asked.event, *EVENTS)
        with self._lock:
            if asked.event in ADDING:
                self._add(asked)
                return ""
            if self._is_repeated(asked):
                return ""
            if asked.event in ACTING:
                return self._reminded(asked)
            if asked.event == "prompt":
                return self._found(asked)
            return self._greeting(asked)

    def close(self) -> None:
        """Close all memories."""
        with self._lock:
            while self._memories:
                self._memories.popitem()[1].close()

    def _opened(self, asked: Asked) -> list[Reader]:
        """Return the memories that a hook asks, less those that are not there."""
        memories = []
        for namespace in (asked.namespace, *asked.also):
            with suppress(NotAMemoryError):
                memories.append(self._open(asked, namespace))
        by_label = memories_by_label(memories, asked.namespace)
        return [self._reader(memory, label) for label, memory in by_label.items()]

    def _open(self, asked: Asked, namespace: str, create: bool = False) -> HierarchicalMemory:
        key = (namespace, *asked.redact)
        if key not in self._memories:
            more = [redact_with(asked.redact)] if asked.redact else []
            self._memories[key] = self._opener(namespace, create, *more)
        return self._memories[key]

    def _is_repeated(self, asked: Asked) -> bool:
        """Return True where another hook asked the same a moment ago: an agent runs all that it has."""
        last, then = self._last, self._asked_at
        self._last, self._asked_at = (asked.event, asked.namespace, asked.details), time.monotonic()
        return bool(asked.session) and last == self._last and self._asked_at - then < TWICE

    def _add(self, asked: Asked) -> None:
        """Add what is new in the transcript that an event names."""
        file, is_end, is_late = transcript_of(asked.details), asked.event == "session-end", LATE in asked.details
        # nothing was said, or by a subagent that keeps nothing
        is_optional = is_late or is_end or asked.event == "subagent-stop"
        if file is None or (is_optional and not file.exists()):
            return
        memory = self._open(asked, asked.namespace, create=True)
        fault = add_transcript(memory, file, asked.session)
        if is_end:
            note_ended(memory, file, is_late)
        if fault:
            raise InputError(fault)

    def _session(self, asked: Asked, anew: bool = False) -> dict[str, InFront]:
        """Return what the session that asks has in front of it, by namespace."""
        if anew or not asked.session:
            self.sessions.pop(asked.session, None)
        found = self.sessions.setdefault(asked.session, defaultdict(InFront))
        self.sessions.move_to_end(asked.session)
        while len(self.sessions) > SESSIONS:
            self.sessions.popitem(last=False)
        return found

    def _greeting(self, asked: Asked) -> str:
        """Return what a session begins with."""
        readers = self._opened(asked)
        said = ""
        if readers and readers[0].memory.namespace == asked.namespace:
            read_on(readers[0].memory)
            said = readers[0].greeting(asked, self._session(asked, anew=True)[asked.namespace])
        for reader in readers if self._stays else ():
            reader.prepare()
        return said

    def _reminded(self, asked: Asked) -> str:
        """Return what is known of a command that failed, or of a file that is to be edited."""
        step, front = asked.step, self._session(asked)
        if step is None:
            return ""
        found = (reader.reminders.of(step, front[reader.memory.namespace].after) for reader in self._opened(asked))
        return next(filter(None, found), "")

    def _found(self, asked: Asked) -> str:
        """Return what the memories know of a prompt, less what the session has in front of it."""
        prompt = text_in(asked.details, "prompt")
        if _COMMAND.match(prompt):
            return ""
        file = transcript_of(asked.details, must=False)
        if file is not None:
            note_begun(self._open(asked, asked.namespace, create=True), file)
        readers = self._opened(asked)
        prompt = words_of(prompt, [reader.memory.long_term.key for reader in readers])
        prompt = redact_with(asked.redact)(without_private(prompt, "")).strip()
        return "" if is_small_talk(prompt) else self._known(asked, readers, prompt)

    def _known(self, asked: Asked, readers: Sequence[Reader], prompt: str) -> str:
        """Return what each memory knows of what somebody typed; its own gets the most room."""
        left, texts = asked.max_tokens or FOUND, list[str]()
        for reader in readers:
            namespace = reader.memory.namespace
            head = "" if texts else f"{ABOUT}\n"
            head += f"[namespace {reader.label}]\n" if reader.label else ""
            room = int(left * OWN_SHARE) if reader.label and namespace == asked.namespace else left
            front = self._session(asked)[namespace]
            if text := reader.found(prompt, asked.session, front, max(room - reader.count(head), 1)):
                texts.append(head + text)
                left -= reader.count(texts[-1])
        return "\n".join(texts)
