"""Answers to the hooks of coding agents, from the memory of one namespace, and others that are read beside it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tinymem.coding.preferences import Preferences
from tinymem.coding.progress import progress_block
from tinymem.coding.reminders import Reminders
from tinymem.errors import InputError, NotAMemoryError
from tinymem.integrations.mcp.numbers import memories_by_label, with_namespace
from tinymem.integrations.mcp.recent import list_steps, newest_steps
from tinymem.recall import Excerpt
from tinymem.recall.relevance import floor_of_prompts
from tinymem.recall.render import between, own_blocks
from tinymem.recall.search import Search
from tinymem.runs.harness import ABOUT, AGENT, own_words
from tinymem.runs.hooks.acting import ACTING, step_of
from tinymem.runs.hooks.privacy import redact_with, without_private
from tinymem.runs.hooks.talk import is_small_talk
from tinymem.runs.hooks.transcripts import (
    LATE,
    UNENDED,
    UNREAD,
    add_subagents,
    add_transcript,
    keep_files,
    kept_files,
    note_begun,
    read_on,
    transcript_of,
)
from tinymem.runs.values import text_in
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_choice
from tinymem.steps.ids import utc_now
from tinymem.steps.standins import is_request
from tinymem.stores.filter import Filter
from tinymem.stores.words import words

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.steps.step import Step

__all__ = ["ADDING", "EVENTS", "Answers", "Asked", "Opener", "read_event"]

ADDING = ("pre-compact", "stop", "subagent-stop", "session-end")  # the events that add what is new in a transcript
EVENTS = ("session-start", "prompt", *ADDING, *ACTING)
Opener: TypeAlias = "Callable[..., HierarchicalMemory]"
LONGEST = 1_000_000  # characters of an event
SESSIONS = 100  # of which it is known what they have in front of them
LONGEST_PROMPT = 10_000  # characters of a prompt that recall asks with
GREETING, FOUND = 1_000, 500  # tokens of what a session begins with, and of what a prompt recalls
PREFERRED = 100  # of the second, preferences get at most
PROGRESS = 400  # of the first, what a compacted session did gets at most,
RULES_SHARE = 0.5  # and rules so much of it,
RULES_MOST = 100  # of which so many of the newest are looked at
BESIDE = 4  # times less likely may be what comes back beside a passage that is likely enough
OF_RULES = 2.0  # times as likely must a rule be, of which one is near whatever is asked
OWN_SHARE = 2 / 3  # of a prompt's tokens, where other namespaces are read too
TWICE = 10.0  # seconds in which a second hook has the same event of a session, as a plugin's beside an installed one

_COMMAND = re.compile(r"\s*/(?:compact\b|[\w:.-]+\s*\Z)")  # one that a memory has nothing to say to
_HEAD = re.compile(rf"^(?:{re.escape(ABOUT)}|\[namespace [^\n]*\])$", re.MULTILINE)


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


@dataclass
class _Session:
    """The part of the memories that a session has in front of it.

    Attributes:
        after: The number of its last step before it was compacted: what it said up to there may be recalled.
        seen: By namespace, the numbers of the steps that it began with, and of preferences.
        recalled: By namespace, the excerpts that its prompts got.
    """

    after: int = 0
    seen: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    recalled: defaultdict[str, list[Excerpt]] = field(default_factory=lambda: defaultdict(list))


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
        self._reminders: dict[tuple[str, str], Reminders] = {}  # by label and namespace
        self._preferences: dict[str, Preferences] = {}
        self.sessions: OrderedDict[str, _Session] = OrderedDict()
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
            text = self._greeting(asked)
            if self._stays:
                self._prepare(asked)
            return text

    def close(self) -> None:
        """Close all memories."""
        with self._lock:
            while self._memories:
                self._memories.popitem()[1].close()

    def _opened(self, asked: Asked) -> dict[str, HierarchicalMemory]:
        """Return the memories that a hook asks, by what stands before their numbers, less those that are not there."""
        memories = []
        for namespace in (asked.namespace, *asked.also):
            with suppress(NotAMemoryError):
                memories.append(self._open(asked, namespace))
        return memories_by_label(memories, asked.namespace)

    def _open(self, asked: Asked, namespace: str, create: bool = False) -> HierarchicalMemory:
        key = (namespace, *asked.redact)
        if key not in self._memories:
            more = (redact_with(asked.redact),) if asked.redact else ()
            self._memories[key] = self._opener(namespace, create, *more)
        return self._memories[key]

    def _is_repeated(self, asked: Asked) -> bool:
        """Return True where another hook asked the same a moment ago: an agent runs all that it has."""
        last, then = self._last, self._asked_at
        self._last, self._asked_at = (asked.event, asked.namespace, asked.details), time.monotonic()
        return bool(asked.session) and last == self._last and self._asked_at - then < TWICE

    def _prepare(self, asked: Asked) -> None:
        """Open what prompts ask, and load what answers them."""
        for memory in self._opened(asked).values():
            Search(memory.long_term).recall("How does this begin?", FOUND, utc_now())

    def _add(self, asked: Asked) -> None:
        """Add what is new in the transcript that an event names."""
        file, is_end = transcript_of(asked.details), asked.event == "session-end"
        is_late = LATE in asked.details
        # nothing was said, or by a subagent that keeps nothing
        is_optional = is_late or is_end or asked.event == "subagent-stop"
        if file is None or (is_optional and not file.exists()):
            return
        memory = self._open(asked, asked.namespace, create=True)
        fault = add_transcript(memory, file, asked.session)
        if is_end:
            add_subagents(memory, file)
            unended = [known for known in kept_files(memory, UNENDED) if is_late or known != str(file)]
            keep_files(memory, UNENDED, unended)
        told = kept_files(memory, UNREAD)
        if fault and fault not in told:  # once, and not in each turn
            keep_files(memory, UNREAD, [*told, fault])
            raise InputError(fault)

    def _session(self, asked: Asked, anew: bool = False) -> _Session:
        kept = self.sessions.pop(asked.session, _Session())
        self.sessions[asked.session] = found = _Session() if anew or not asked.session else kept
        while len(self.sessions) > SESSIONS:
            self.sessions.popitem(last=False)
        return found

    def _greeting(self, asked: Asked) -> str:
        for label, memory in self._opened(asked).items():
            if memory.namespace != asked.namespace:
                break
            read_on(memory)
            state, source = self._session(asked, anew=True), asked.details.get("source")
            last = next(memory.history(asked.session, newest=True), None) if asked.session else None
            if source == "compact":
                state.after = _number(last)
            folder = text_in(asked.details, "cwd")
            text = greeting(memory, asked.session, last, source, asked.max_tokens or GREETING, label, folder)
            state.seen[asked.namespace] = _numbers_in(text, label)
            return text
        return ""

    def _reminded(self, asked: Asked) -> str:
        """Return what is known of a command that failed, or of a file that is to be edited."""
        step = step_of(asked)
        for label, memory in self._opened(asked).items() if step else ():
            reminders = self._reminders.setdefault((label, memory.namespace), Reminders(memory, label))
            if step and (found := reminders.of(step, self._session(asked).after)):
                return found
        return ""

    def _found(self, asked: Asked) -> str:
        """Return what the memories know of a prompt, less what the session has in front of it."""
        prompt = text_in(asked.details, "prompt")
        if not prompt.strip() or _COMMAND.match(prompt):
            return ""
        file = transcript_of(asked.details, must=False)
        if file is not None:
            note_begun(self._open(asked, asked.namespace, create=True), file)
        memories = self._opened(asked)
        prompt = words_of(prompt, [memory.long_term.key for memory in memories.values()])
        prompt = redact_with(asked.redact)(without_private(prompt, "")).strip()
        if is_small_talk(prompt):
            return ""
        left, texts = asked.max_tokens or FOUND, list[str]()
        for label, memory in memories.items():
            head = "" if texts else f"{ABOUT}\n"
            head += f"[namespace {label}]\n" if label else ""
            count, is_first = memory.long_term.counter.count, memory.namespace == asked.namespace
            room = int(left * OWN_SHARE) if label and is_first else left
            most, hidden = max(room - count(head), 1), self._hidden(memory, asked)
            text = self._recalled(memory, asked, prompt, most, label, hidden)
            text += self._preferred(memory, asked, prompt, min(most - count(text), PREFERRED), label, hidden)
            if text:
                texts.append(head + text.strip())
                left -= count(texts[-1])
        return "\n".join(texts)

    def _hidden(self, memory: HierarchicalMemory, asked: Asked) -> set[int]:
        """Return the numbers of the steps that a session has in front of it."""
        state, said = self._session(asked), list[int]()
        if memory.namespace == asked.namespace and asked.session:
            said = memory.long_term.journal.matching(Filter(session=asked.session))
        return state.seen[memory.namespace].union(number for number in said if number > state.after)

    def _recalled(
        self, memory: HierarchicalMemory, asked: Asked, prompt: str, room: int, label: str, hidden: set[int]
    ) -> str:
        shown, now = self._session(asked).recalled[memory.namespace], utc_now()
        search, least = Search(memory.long_term), floor_of_prompts()
        recall = partial(search.recall, prompt[:LONGEST_PROMPT], room, now, min_relevance=least / BESIDE)
        if hidden and {excerpt.step.step_number for excerpt in recall(k=1)} <= hidden:
            return ""  # the best of all stands in front of the agent already
        found = recall(hidden=hidden, shown=shown, ids=True)
        if not any(_is_likely(memory, excerpt, least) for excerpt in found):
            return ""
        found = with_namespace(found, label, memory, room)
        shown += found.items
        return found.text

    def _preferred(
        self, memory: HierarchicalMemory, asked: Asked, prompt: str, room: int, label: str, hidden: set[int]
    ) -> str:
        """Return what people said of the kind of task that a prompt asks for: each once a session."""
        state = self._session(asked)
        recalled = (_number(excerpt.step) for excerpt in state.recalled[memory.namespace])
        preferences = self._preferences.setdefault(memory.namespace, Preferences(memory))
        text = list_steps(memory, preferences.of(prompt, hidden.union(recalled)), room, label)
        state.seen[memory.namespace] |= _numbers_in(text, label)
        return text and f"\n{text}"


def _is_likely(memory: HierarchicalMemory, excerpt: Excerpt, least: float) -> bool:
    """Return whether an excerpt is reason enough to speak: what was asked for, and then done, is none."""
    step, past = excerpt.step, memory.long_term
    number = _number(step)
    if excerpt.relevance < least:
        return False
    after = past.fetch([number + 1]).get(number + 1)
    if is_request(step) and isinstance(after, ActionStep) and after.tool_calls and after.session == step.session:
        return False
    return excerpt.relevance >= least * (OF_RULES if number in past.rules() else 1)


def greeting(
    memory: HierarchicalMemory, session: str, last: Step | None, source: Any, max_tokens: int, namespace: str = "",
    folder: str = "",
) -> str:  # fmt: skip
    """Return what a session should begin with, in at most `max_tokens` tokens; "" where that is nothing.

    A new session gets the rules that people gave, and then what was said last. A session that is resumed has its own
    steps, and what it was greeted with: it gets what others said since. After a compaction it gets the rules again, its
    own requests, its last commands and the files that it used, and then what was said. `last` is the newest step of the
    session, which is in `folder`; `namespace` stands before the numbers.
    """
    count = memory.long_term.counter.count
    left = max_tokens - count(f"{ABOUT}\n")
    is_resumed = last is not None and source == "resume"
    rules = "" if is_resumed else list_steps(memory, rules_of(memory), int(left * RULES_SHARE), namespace)
    left -= count(f"{rules}\n")
    shown, since = _numbers_in(rules, namespace), _number(last) if is_resumed else -1

    def is_new(step: Step) -> bool:
        return _is_said(step) and _number(step) not in shown and _number(step) > since

    newest = partial(newest_steps, memory, namespace=namespace)
    if last is None or source != "compact":
        texts = [rules, newest(left, only=is_new)]
    else:
        asked = newest(left // 2, session=session, only=lambda step: is_request(step) and is_new(step))
        left -= count(f"{asked}\n")
        did = progress_block(memory, session, min(PROGRESS, left), namespace, folder)
        left -= count(f"{did}\n")
        said = newest(left, session=session, only=lambda step: is_new(step) and not is_request(step))
        texts = [rules, asked, did, said]
    text = "\n".join(filter(None, texts))
    return f"{ABOUT}\n{text}" if text else ""


def _number(step: Step | None) -> int:
    return (step and step.step_number) or 0


def _numbers_in(text: str, namespace: str) -> set[int]:
    """Return the numbers of the steps that a text lists."""
    return {*map(int, re.findall(rf"^{re.escape(namespace)}#(\d+) ", text, re.MULTILINE))}


def rules_of(memory: HierarchicalMemory) -> list[Step]:
    """Return the newest steps in which people gave rules, as corrected, newest first and without repetitions."""
    past = memory.long_term
    past.queue.catch_up()
    numbers = {past.corrections.get(number, number) for number in past.rules()}
    steps = past.fetch(sorted(numbers)[-RULES_MOST:])
    by_words = {" ".join(words(step.text)): step for _, step in sorted(steps.items())}
    return sorted(by_words.values(), key=lambda step: -(step.step_number or 0))


def _is_said(step: Step) -> bool:
    """Return True for what is neither a call of a tool, nor its result, nor what a subagent was asked."""
    return not isinstance(step, ActionStep) and getattr(step, "role", None) != "tool" and step.speaker != AGENT


def words_of(prompt: str, keys: Sequence[bytes]) -> str:
    """Return what a person typed of a prompt, without what a program or a memory put there."""
    for key in keys:
        blocks = own_blocks(prompt, key)
        prompt = "".join(prompt[start:end] for start, end in between(len(prompt), blocks))
    said = own_words({"role": "user", "content": _HEAD.sub("", prompt).strip()}, Counter())
    return str(said["content"])
