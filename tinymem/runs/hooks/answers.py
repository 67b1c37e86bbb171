"""Answers to the hooks of coding agents, from the memory of one namespace, and others that are read beside it."""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tinymem.errors import InputError, NotAMemoryError
from tinymem.memory.inspection.recent import newest_steps
from tinymem.recall import Excerpt
from tinymem.recall.search import Search
from tinymem.runs.growing import ingest_growing
from tinymem.runs.harness import ABOUT
from tinymem.runs.hooks.privacy import redact_with, without_private
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_choice
from tinymem.steps.ids import utc_now
from tinymem.steps.redaction import Redact
from tinymem.steps.standins import is_request
from tinymem.stores.filter import Filter

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.steps.step import Step

__all__ = ["ADDING", "EVENTS", "Answers", "Asked", "Opener", "read_event"]

ADDING = ("pre-compact", "stop", "session-end")  # the events that add what is new in a transcript
EVENTS = ("session-start", "prompt", *ADDING)
Opener: TypeAlias = "Callable[[str, bool, Redact], HierarchicalMemory]"
LONGEST = 1_000_000  # characters of an event
SESSIONS = 100  # of which it is known what they have in front of them
LONGEST_PROMPT = 10_000  # characters of a prompt that recall asks with
GREETING, FOUND = 1_000, 500  # tokens of what a session begins with, and of what a prompt recalls
OWN_SHARE = 2 / 3  # of these tokens, where other namespaces are read too


_NUMBER = re.compile(r"^#(\d+) ", re.MULTILINE)


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
    redact: Sequence[str] = ()  # what is replaced before anything is kept


@dataclass
class _Session:
    """The part of the memories that a session has in front of it.

    Attributes:
        after: The number of its last step before it was compacted: what it said up to there may be recalled.
        greeted: The numbers of the steps that it began with.
        recalled: By namespace, the excerpts that its prompts got.
    """

    after: int = 0
    greeted: set[int] = field(default_factory=set)
    recalled: defaultdict[str, list[Excerpt]] = field(default_factory=lambda: defaultdict(list))


class Answers:
    """Answers from memories that stay open until `close`.

    Args:
        opener: Opens the memory of a namespace, makes it where the second argument is True, and gives it the third as
            `redact`.
    """

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._memories: dict[tuple[str, ...], HierarchicalMemory] = {}  # by namespace and what is redacted
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
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
            memory = self._opened(asked.namespace, asked.redact, create=True)
            assert memory is not None
            add_transcript(memory, asked.details)
            return ""

    def close(self) -> None:
        """Close all memories."""
        with self._lock:
            while self._memories:
                self._memories.popitem()[1].close()

    def _opened(self, namespace: str, redact: Sequence[str], create: bool = False) -> HierarchicalMemory | None:
        key = (namespace, *redact)
        if key not in self._memories:
            try:
                self._memories[key] = self._opener(namespace, create, redact_with(redact))
            except NotAMemoryError:  # the first session of all
                return None
        return self._memories[key]

    def _session(self, asked: Asked, anew: bool = False) -> _Session:
        name = str(asked.details.get("session_id") or "")
        kept = self._sessions.pop(name, _Session())
        self._sessions[name] = found = _Session() if anew or not name else kept
        while len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)
        return found

    def _greeting(self, asked: Asked) -> str:
        if (memory := self._opened(asked.namespace, asked.redact)) is None:
            return ""
        session, state = asked.details.get("session_id"), self._session(asked, anew=True)
        if asked.details.get("source") == "compact" and isinstance(session, str):
            last = next(memory.history(session, newest=True), None)
            state.after = (last and last.step_number) or 0
        text = greeting(memory, asked.details, asked.max_tokens or GREETING)
        state.greeted = {int(number) for number in _NUMBER.findall(text)}
        return text

    def _found(self, asked: Asked) -> str:
        """Return what the memories know of a prompt, less what the session has in front of it."""
        prompt = asked.details.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip() or prompt.lstrip().startswith("/"):
            return ""
        prompt = redact_with(asked.redact)(without_private(prompt, ""))
        left, texts = asked.max_tokens or FOUND, list[str]()
        for namespace in dict.fromkeys((asked.namespace, *asked.also)):
            if (memory := self._opened(namespace, asked.redact)) is None:
                continue
            head = f"{ABOUT}\n" if not texts else ""
            head += f"[namespace {namespace}]\n" if asked.also else ""
            is_own = namespace == asked.namespace
            count, room = memory.long_term.counter.count, int(left * OWN_SHARE) if asked.also and is_own else left
            if text := self._recalled(memory, asked, prompt, max(room - count(head), 1), is_own):
                texts.append(head + text)
                left -= count(texts[-1])
        return "\n".join(texts)

    def _recalled(self, memory: HierarchicalMemory, asked: Asked, prompt: str, room: int, is_own: bool) -> str:
        session, state = asked.details.get("session_id"), self._session(asked)
        hidden: set[int] = set()
        if is_own and isinstance(session, str) and session:
            said = memory.long_term.journal.matching(Filter(session=session))
            hidden = state.greeted | {number for number in said if number > state.after}
        shown, now = state.recalled[memory.namespace], utc_now()
        found = Search(memory.long_term).recall(
            prompt[:LONGEST_PROMPT], room, now, hidden=hidden, shown=shown, ids=True
        )
        if not found.is_relevant:
            return ""
        if is_own:  # what the agent says to it goes there, so that it can be seen what it used
            memory.receipts.note(found, now, prompt, session if isinstance(session, str) else None)
            memory.receipts.keep()  # another process may add that
        shown += found.items
        return found.text


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
