"""The tools of the server: what a model may ask of a memory, answered in text inside a token budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast
from urllib.parse import unquote

from pydantic import Field

from tinymem.errors import ClosedError, InputError

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

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST)]
Query: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]
Tokens: TypeAlias = Annotated[int, Field(ge=LEAST, le=MOST)]
Name: TypeAlias = Annotated[str, Field(max_length=LONGEST_NAME)]
Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, description="Number, such as #12")]
Replaced: TypeAlias = Annotated[str, Field(max_length=LONGEST_NAME, description="Number of what is wrong now")]
Start: TypeAlias = Annotated[int, Field(ge=0, description="Character to begin at")]
Moment: TypeAlias = Annotated[str, Field(max_length=LONGEST_NAME, description="ISO 8601")]


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
        self._opener, self._per_request, self._lock = opener, per_request, threading.Lock()
        self._found: Any = None  # a HierarchicalMemory, or Memories
        self._closed = False

    def opened(self) -> HierarchicalMemory:
        """Return the memory."""
        return _LENT.get() if self._per_request else cast("HierarchicalMemory", self._open())

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Keep the memory of a request open until it is answered; afterwards it may make room for others."""
        if not self._per_request:
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
    """The tools; each is offered to the model under its name, with the first paragraph of its text as description."""

    def __init__(self, memory: LazyMemory, beside: Sequence[LazyMemory] = ()) -> None:
        self._memory, self._beside = memory, beside

    def remember(self, text: Text, session: Name = "", replaces: Replaced = "") -> str:
        """Save a note that outlives this conversation: a fact, a decision and why, a preference, a result."""
        from tinymem.steps.content import is_empty
        from tinymem.steps.types import MessageStep

        if is_empty(text):
            raise InputError("text is empty: give what is to be remembered")
        step = MessageStep("assistant", text, session=session or None, metadata={"milestone": True})
        memory = self._memory.opened()
        if replaces:
            corrected = memory.correct(replaces.removeprefix("#"), step)
            numbers = [f"#{memory.get(id).step_number}" for id in corrected.metadata.get("similar", ())]
            others = f" Also similar, not touched: {', '.join(numbers)}." if numbers else ""
            return f"Remembered as #{corrected.step_number}, which comes back instead of {replaces}.{others}"
        added = memory.archive([step])
        return f"Remembered as #{added[0].step_number}." if added else "Nothing is left of it to remember."

    def recall(
        self,
        query: Query,
        max_tokens: Tokens = DEFAULT,
        since: Moment = "",
        until: Moment = "",
        session: Name = "",
    ) -> str:
        """Search all earlier sessions and notes. Finds come back word for word, each under its number."""
        filters: dict[str, Any] = {
            "since": since or None,
            "until": until or None,
            "session": session or None,
        }
        texts: list[str] = []
        left = max_tokens
        for lazy in (self._memory, *self._beside):
            memory = lazy.opened()
            counter = memory.long_term.counter
            head = f"[namespace {memory.namespace}]\n" if self._beside else ""
            room = int(left * OWN_SHARE) if self._beside and lazy is self._memory else left
            room = max(1, room - counter.count(head))
            text = memory.recall(query, room, ids=True, **filters).with_note(counter, room)
            if text:
                texts.append(head + text)
                left -= counter.count(f"{texts[-1]}\n")
        return "\n".join(texts) or "Nothing in memory bears on that. Try other words, or fewer filters."

    def open(self, id: Id, start: Start = 0, max_tokens: Tokens = DEFAULT) -> str:
        """Read one step in full, by its number."""
        return self._memory.opened().open(id.removeprefix("#"), start, max_tokens=max_tokens)

    def recent(self, max_tokens: Tokens = DEFAULT, before: Name = "", session: Name = "") -> str:
        """List the newest steps, or those before a number; long ones are cut."""
        from tinymem.memory.inspection.recent import newest_steps

        found = newest_steps(self._memory.opened(), max_tokens, before.removeprefix("#") or None, session or None)
        return found or f"There are no steps{' before that' if before else ''}."

    def forget(
        self,
        ids: Annotated[list[Id], Field(max_length=MOST_IDS)] = [],  # noqa: B006 (never changed; None takes more tokens)
        session: Name = "",
        dry_run: bool = True,
    ) -> str:
        """Delete steps for good, by number or by session. Says only how many, unless dry_run is false."""
        memory = self._memory.opened()
        if not ids and not session:
            raise InputError("say what to forget: ids or session")
        steps = [memory.get(id.removeprefix("#")) for id in ids]
        count = memory.forget([step.id for step in steps], session=session or None, dry_run=dry_run)
        amount = f"{count:,} step{'' if count == 1 else 's'}"
        if not dry_run:
            return f"Forgot {amount} for good."
        return f"Would forget {amount}. To forget for good, call again with dry_run=false."

    def step(self, namespace: str, id: str) -> str:
        """Read one step in full."""
        memory = self._memory.opened()
        if unquote(namespace) != memory.namespace:
            raise InputError(f"this server has the namespace {memory.namespace!r} only")
        return memory.open(unquote(id), max_tokens=MOST)

    def with_memory(self, task: str) -> str:
        """Begin a task with what the memory holds about it."""
        if len(task) > LONGEST_QUERY:
            raise InputError(f"task has {len(task):,} characters: give at most {LONGEST_QUERY:,}")
        found = self._memory.opened().recall(task, PROMPT_TOKENS, ids=True)
        return f"{found.text}\n\n{task}" if found else task
