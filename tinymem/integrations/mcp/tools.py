"""The tools of the server: what a model may ask of a memory, answered in text inside a token budget."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast
from urllib.parse import unquote

from pydantic import BeforeValidator, Field

from tinymem.errors import ClosedError, InputError, NotAMemoryError

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["SERVED", "LazyMemory", "MemoryTools"]

LEAST, MOST = 100, 20_000  # tokens of an answer; clients cut or refuse more than 25,000
DEFAULT, PROMPT_TOKENS = 1_000, 2_000
LONGEST = 100_000  # characters of what is remembered
LONGEST_QUERY = 10_000
LONGEST_NAME = 200
MOST_IDS = 100
OWN_SHARE = 2 / 3  # of the tokens, where other namespaces are read too


def _as_text(given: object) -> object:
    """Return a number that a client sends for a text, as that of a step, as text."""
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return given
    return str(int(given) if given == given // 1 else given)


def _as_list(given: object) -> object:
    """Return what a client sends for a list of one thing, or for none, as a list."""
    return given if isinstance(given, list) else [given]


MEANT = BeforeValidator(_as_text)
Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST), MEANT]
Query: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY), MEANT]
Tokens: TypeAlias = Annotated[int, Field(ge=LEAST, le=MOST)]
Name: TypeAlias = Annotated[str, Field(max_length=LONGEST_NAME), MEANT]
Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, description="Number as shown: #12"), MEANT]
Ids: TypeAlias = Annotated[list[Id], Field(max_length=MOST_IDS), BeforeValidator(_as_list)]
Replaced: TypeAlias = Annotated[str, Field(max_length=LONGEST_NAME, description="Number of what is wrong now"), MEANT]
Start: TypeAlias = Annotated[int, Field(ge=0, description="Character to begin at")]
Moment: TypeAlias = Annotated[str, Field(max_length=LONGEST_NAME, description="ISO 8601"), MEANT]
_NUMBER = re.compile("[0-9]{1,18}")


# The namespace that a request is for, where a server has several; set by what lets the request through.
SERVED: ContextVar[str] = ContextVar("SERVED")


# The memory that a request has until it is answered, where a server has several.
_LENT: ContextVar[HierarchicalMemory] = ContextVar("_LENT")


class LazyMemory:
    """A memory that is opened when it is first asked for.

    Args:
        opener: Opens it; with `per_request`, all memories of a folder.
        per_request: The server has several namespaces: a request has that of its own, and one for none is refused.
    """

    def __init__(self, opener: Callable[[], Any], per_request: bool = False) -> None:
        self._opener, self.per_request, self._lock = opener, per_request, threading.Lock()
        self._found: Any = None  # a HierarchicalMemory, or Memories
        self._closed = False

    def opened(self) -> HierarchicalMemory:
        """Return the memory."""
        return _LENT.get() if self.per_request else cast("HierarchicalMemory", self._open())

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Keep the memory of a request open until it is answered; afterwards it may make room for others."""
        if not self.per_request:
            yield
            return
        namespace = SERVED.get("")
        if not namespace:
            raise InputError("the request is for no namespace")
        with self._open().open(namespace) as memory:
            before = _LENT.set(memory)
            try:
                yield
            finally:
                _LENT.reset(before)

    def close(self) -> None:
        """Close what was opened."""
        with self._lock:
            self._closed = True
            if self._found is not None:
                self._found.close()

    def _open(self) -> Any:
        with self._lock:
            if self._closed:
                raise ClosedError("the memory is closed: the server ends")
            if self._found is None:
                self._found = self._opener()
            return self._found


class MemoryTools:
    """The tools; each is offered to the model under its name, with the first paragraph of its text as description.

    Where several namespaces are read, each number is said with its own, as `user#12`, and what is given is found there.
    """

    def __init__(self, memory: LazyMemory, beside: Sequence[LazyMemory] = ()) -> None:
        self._memory, self._beside = memory, beside

    def remember(self, text: Text, session: Name = "", replaces: Replaced = "") -> str:
        """Save a note that outlives this conversation: a fact, a decision and why, a preference, a result."""
        from tinymem.steps.content import is_empty
        from tinymem.steps.types import MessageStep

        if is_empty(text):
            raise InputError("text is empty: give what is to be remembered")
        step = MessageStep("assistant", text, session=session or None, metadata={"milestone": True})
        namespace, memory, number = self._find(replaces, writes=True)
        added = [memory.correct(number, step)] if replaces else memory.archive([step])
        if not added:
            return "Nothing is left of it to remember."
        instead = f", which comes back instead of {replaces}" if replaces else ""
        return f"Remembered as {namespace}#{added[0].step_number}{instead}."

    def recall(
        self,
        query: Query,
        max_tokens: Tokens = DEFAULT,
        since: Moment = "",
        until: Moment = "",
        session: Name = "",
    ) -> str:
        """Search all earlier sessions and notes. Finds come back word for word, each under its number."""
        found = self._recalled(query, max_tokens, since=since or None, until=until or None, session=session or None)
        return found or "Nothing in memory bears on that. Try other words, or fewer filters."

    def open(self, id: Id, start: Start = 0, max_tokens: Tokens = DEFAULT) -> str:
        """Read one step in full, by its number."""
        from tinymem.memory.reading import render_step

        namespace, memory, number = self._find(id)
        return render_step(memory.long_term, memory.get(number), start, max_tokens, namespace)

    def recent(self, max_tokens: Tokens = DEFAULT, before: Name = "", session: Name = "") -> str:
        """List the newest steps, or those before a number; long ones are cut."""
        from tinymem.integrations.mcp.recent import newest_steps

        namespace, memory, number = self._find(before)
        found = newest_steps(memory, max_tokens, None if number == "" else number, session or None, namespace=namespace)
        return found or f"There are no steps{' before that' if before else ''}."

    def forget(
        self,
        ids: Ids = [],  # noqa: B006 (never changed; None takes more tokens)
        session: Name = "",
        dry_run: bool = True,
    ) -> str:
        """Delete steps for good, by number or by session. Says only how many, unless dry_run is false."""
        if not ids and not session:
            raise InputError("say what to forget: ids or session")
        named = [self._find(id, writes=True) for id in ids]
        chosen = [(memory, memory.get(number).id) for _, memory, number in named]
        first, count = self._memory.opened(), 0
        for memory in self._memories().values():
            theirs, its_session = [id for its, id in chosen if its is memory], session if memory is first else ""
            if theirs or its_session:
                count += memory.forget(theirs, session=its_session or None, dry_run=dry_run)
        amount = f"{count:,} step{'' if count == 1 else 's'}"
        if not dry_run:
            return f"Forgot {amount} for good."
        return f"Would forget {amount}. To forget for good, call again with dry_run=false."

    def step(self, namespace: str, id: str) -> str:
        """Read one step in full."""
        return self.open(f"{namespace}#{unquote(id).removeprefix('#')}", max_tokens=MOST)

    def with_memory(self, task: str) -> str:
        """Begin a task with what the memory holds about it."""
        if len(task) > LONGEST_QUERY:
            raise InputError(f"task has {len(task):,} characters: give at most {LONGEST_QUERY:,}")
        return "\n\n".join(filter(None, [self._recalled(task, PROMPT_TOKENS), task]))

    def _recalled(self, query: str, left: int, **filters: Any) -> str:
        """Return what the memories know of a query, in as many tokens as are `left`."""
        from tinymem.integrations.mcp.numbers import with_namespace

        texts, first = list[str](), self._memory.opened()
        for namespace, memory in self._memories().items():
            counter = memory.long_term.counter
            head = f"[namespace {namespace}]\n" if namespace else ""
            room = int(left * OWN_SHARE) if namespace and memory is first else left
            room = max(1, room - counter.count(head))
            found = memory.recall(query, room, ids=True, **filters)
            text = with_namespace(found, namespace, memory, room).with_note(counter, room)
            if text:
                texts.append(head + text)
                left -= counter.count(f"{texts[-1]}\n")
        return "\n".join(texts)

    def _memories(self) -> dict[str, HierarchicalMemory]:
        """Return the memories that there are, each by what stands before its numbers: the server's own first."""
        from tinymem.integrations.mcp.numbers import memories_by_label

        found = [self._memory.opened()]
        for lazy in self._beside:
            with suppress(NotAMemoryError):
                found.append(lazy.opened())
        return memories_by_label(found, found[0].namespace)

    def _find(self, given: str, writes: bool = False) -> tuple[str, HierarchicalMemory, str | int]:
        """Return what stands before the numbers of a memory, the memory, and the step's number or id in it.

        Raises:
            InputError: The namespace is not known or may not be written to, or the number may be another's.
        """
        from tinymem.integrations.mcp.numbers import namespace_label

        memories = self._memories()
        first, memory = next(iter(memories.items()))
        name, _, id = given.strip().rpartition("#")
        number = int(id) if _NUMBER.fullmatch(id) else id
        label = namespace_label(unquote(name)) if name else first
        if name and label == namespace_label(memory.namespace):
            return first, memory, number
        if label not in memories:
            raise InputError(f"this server reads no namespace {name!r:.80}: it has {' and '.join(memories) or 'one'}")
        others = [memories[other].long_term.journal for other in memories if other != first]
        if not name and isinstance(number, int) and any(number < journal.next_number() for journal in others):
            numbers = " or ".join(f"{label}#{number}" for label in memories)
            raise InputError(f"#{number} may be of another namespace: write {numbers}")
        if writes and label != first and self._memory.per_request:
            raise InputError(f"the namespace {label} is only read here: a token writes to its own")
        return label, memories[label], number
