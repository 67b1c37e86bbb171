"""Answers to the hooks of coding agents, from the memory of one namespace, and others that are read beside it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tinymem.errors import InputError, NotAMemoryError
from tinymem.memory.inspection.recent import newest_steps
from tinymem.recall.search import Search
from tinymem.runs.growing import ingest_growing
from tinymem.runs.harness import ABOUT
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_choice
from tinymem.steps.ids import utc_now
from tinymem.steps.standins import is_request
from tinymem.stores.filter import Filter

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.steps.step import Step

__all__ = ["EVENTS", "Answers", "Asked", "read_event"]

EVENTS = ("session-start", "prompt", "pre-compact", "stop", "session-end")
LONGEST = 1_000_000  # characters of an event
LONGEST_PROMPT = 10_000  # characters of a prompt that recall asks with
GREETING, FOUND = 1_000, 500  # tokens of what a session begins with, and of what a prompt recalls
OWN_SHARE = 2 / 3  # of these tokens, where other namespaces are read too


def read_event(text: str) -> Mapping[str, Any]:
    """Read what the agent wrote to standard input."""
    try:
        event = json.loads(text) if len(text) <= LONGEST else None
    except (ValueError, RecursionError):
        event = None
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


class Answers:
    """Answers from memories that stay open until `close`.

    Args:
        opener: Opens the memory of a namespace, and makes it where the second argument is True.
    """

    def __init__(self, opener: Callable[[str, bool], HierarchicalMemory]) -> None:
        self._opener = opener
        self._memories: dict[str, HierarchicalMemory] = {}
        self._compacted: dict[str, int] = {}  # by session, the number of its last step before it was compacted
        self._lock = threading.RLock()

    def answer(self, asked: Asked) -> str:
        """Return what the agent is to read; "" for nothing.

        Raises:
            TinymemError: The event is unknown, or what it names cannot be read.
        """
        check_choice("the event", asked.event, *EVENTS)
        with self._lock:
            if asked.event == "session-start":
                return self._greeting(asked)
            if asked.event == "prompt":
                return self._found(asked)
            memory = self._opened(asked.namespace, create=True)
            assert memory is not None
            add_transcript(memory, asked.details)
            return ""

    def close(self) -> None:
        """Close all memories."""
        with self._lock:
            while self._memories:
                self._memories.popitem()[1].close()

    def _opened(self, namespace: str, create: bool = False) -> HierarchicalMemory | None:
        if namespace not in self._memories:
            try:
                self._memories[namespace] = self._opener(namespace, create)
            except NotAMemoryError:  # the first session of all
                return None
        return self._memories[namespace]

    def _greeting(self, asked: Asked) -> str:
        if (memory := self._opened(asked.namespace)) is None:
            return ""
        session = asked.details.get("session_id")
        if asked.details.get("source") == "compact" and isinstance(session, str):
            last = next(memory.history(session, newest=True), None)
            self._compacted[session] = (last and last.step_number) or 0
        return greeting(memory, asked.details, asked.max_tokens or GREETING)

    def _found(self, asked: Asked) -> str:
        """Return what the memories know of a prompt, less what the session has in front of it."""
        prompt, session = asked.details.get("prompt"), asked.details.get("session_id")
        if not isinstance(prompt, str) or not prompt.strip() or prompt.lstrip().startswith("/"):
            return ""
        left, texts = asked.max_tokens or FOUND, list[str]()
        for namespace in dict.fromkeys((asked.namespace, *asked.also)):
            if (memory := self._opened(namespace)) is None:
                continue
            head = f"{ABOUT}\n" if not texts else ""
            head += f"[namespace {namespace}]\n" if asked.also else ""
            room = int(left * OWN_SHARE) if asked.also and namespace == asked.namespace else left
            own = session if namespace == asked.namespace and isinstance(session, str) else None
            count = memory.long_term.counter.count
            if text := _recalled(memory, prompt, room - count(head), own, self._compacted.get(own or "", 0)):
                texts.append(head + text)
                left -= count(texts[-1])
        return "\n".join(texts)


def _recalled(memory: HierarchicalMemory, prompt: str, room: int, session: str | None, after: int) -> str:
    """Return what bears on a prompt, without the steps of the session behind the number `after`: it has them."""
    hidden = memory.long_term.journal.matching(Filter(session=session)) if session else []
    found = Search(memory.long_term).recall(
        prompt[:LONGEST_PROMPT],
        max(room, 1),
        utc_now(),
        hidden={one for one in hidden if one > after},
        ids=True,
    )
    return found.text if found.is_relevant else ""


def greeting(memory: HierarchicalMemory, event: Mapping[str, Any], max_tokens: int) -> str:
    """Return what a session should begin with, in at most `max_tokens` tokens; "" where that is nothing.

    A new session gets what was said last. A session that is resumed has its own steps, and what it was greeted with:
    it gets what others said since. After a compaction it gets its own requests, and then what was said to them.
    """
    session, source = event.get("session_id"), event.get("source")
    left = max_tokens - memory.long_term.counter.count(f"{ABOUT}\n")
    known = next(memory.history(session, newest=True), None) if isinstance(session, str) and session else None
    if known is None or source not in ("resume", "compact"):
        text = newest_steps(memory, left, only=_is_said)
    elif source == "resume":
        number = known.step_number or 0
        text = newest_steps(memory, left, only=lambda step: _is_said(step) and (step.step_number or 0) > number)
    else:
        asked = newest_steps(memory, left // 2, session=session, only=is_request)
        left -= memory.long_term.counter.count(f"{asked}\n")
        said = newest_steps(memory, left, session=session, only=lambda step: _is_said(step) and not is_request(step))
        text = "\n".join(filter(None, (asked, said)))
    return f"{ABOUT}\n{text}" if text else ""


def _is_said(step: Step) -> bool:
    """Return True for what is neither a call of a tool nor its result."""
    return not isinstance(step, ActionStep) and getattr(step, "role", None) != "tool"


def add_transcript(memory: HierarchicalMemory, event: Mapping[str, Any]) -> int:
    """Add what is new in the transcript of the session, and return the number of steps.

    A last line that is still being written is left for the next time.
    """
    given = event.get("transcript_path")
    if not isinstance(given, str) or not given:
        raise InputError("standard input has no transcript_path")
    done = ingest_growing(memory, Path(given).expanduser())
    if done.error is not None:
        raise InputError(done.error)
    return done.steps
