"""ConversationMemory: all that was said, across tasks, each message under a short id that a model can ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tinymem.base import Message as ChatMessage
from tinymem.base import joined
from tinymem.checks import a_text, some_tokens
from tinymem.content import Content, as_text, clean
from tinymem.errors import BudgetError, InputError
from tinymem.fitting import LEAST, most_characters
from tinymem.hierarchy import HierarchicalMemory
from tinymem.ids import new_nanoid
from tinymem.messages import repair
from tinymem.protocols import StepRow
from tinymem.quiet import shown
from tinymem.recall import Recall
from tinymem.retrieve import RetrieveMessage, message_step
from tinymem.serialization import load_step
from tinymem.steps import MessageStep
from tinymem.tokens import LONGEST_TOKEN, PER_REPLY, count_message

__all__ = ["ConversationMemory", "Message"]

ROLES = ("user", "assistant", "system", "developer")
NAMESPACE = "conversation"
PIECE = 16  # messages that are read from the journal at once


@dataclass(frozen=True)
class Message:
    """One message: who said what, when, in which `session` (task). `nanoid` is the id to fetch it by."""

    nanoid: str
    role: str
    content: Content | None
    timestamp: datetime
    session: str | None = None
    speaker: str | None = None

    @property
    def text(self) -> str:
        """The text of the content; a part without text is named in brackets, as in `[image_url]`."""
        return as_text(self.content)


class ConversationMemory:
    """The messages of all tasks, durable, in the folder `path`, or those of `memory`, a HierarchicalMemory.

    A message is kept word for word under a short random id, on disk when `add_message` returns, and never pruned: `get`
    finds it by its id at once, however many there are, `get_history` gives the newest as chat messages, `search` what
    bears on a question. `retrieve_message` is a tool that lets a model do the first and the last (see
    `tinymem.retrieve.RetrieveMessage`): called as it is or awaited, with its `schema` for the chat API.

    With `path`, `options` are those of HierarchicalMemory (`embedder`, `store`, `counter`, `max_tokens`, `create`).
    With `memory`, its namespace is used: every MessageStep in it is a message, whoever added it, and closing it stays
    with whoever opened it. `conversation.memory` is the memory, for `forget` and `stats`. Safe to use from several
    threads.

    >>> import tempfile
    >>> with ConversationMemory(tempfile.mkdtemp()) as conversation:
    ...     message = conversation.add_message("user", "The staging server is at 10.0.0.7.", session="deploy")
    ...     answer = conversation.retrieve_message(nanoid=message.nanoid)
    ...     conversation.get(message.nanoid) == message, "10.0.0.7" in answer
    (True, True)

    Raises InputError unless one of `path` and `memory` is given, and what opening a HierarchicalMemory raises.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        namespace: str = NAMESPACE,
        memory: HierarchicalMemory | None = None,
        **options: Any,
    ) -> None:
        if (path is None) == (memory is None):
            raise InputError("give a path, or an open HierarchicalMemory as memory=, one of the two")
        if memory is not None and (options or namespace != NAMESPACE):
            raise InputError("an open memory has its namespace and options already: give memory= alone")
        if memory is not None and not isinstance(memory, HierarchicalMemory):
            raise InputError(f"memory must be a HierarchicalMemory, not {type(memory).__name__}")
        self._is_own = memory is None
        self.memory = HierarchicalMemory(path or "", namespace=namespace, **options) if memory is None else memory
        self.retrieve_message = RetrieveMessage(self.memory)
        self._journal, self._counter = self.memory.long_term.journal, self.memory.long_term.counter

    # -- in -----------------------------------------------------------------------------------------------------------

    def add_message(
        self,
        role: str,
        content: Content,
        *,
        session: str | None = None,
        speaker: str | None = None,
        timestamp: datetime | None = None,
    ) -> Message:
        """Keep one message, of the role `user`, `assistant`, `system` or `developer`; it is on disk when this returns.

        `content` is a text or a list of content parts, `session` the task that it belongs to, `timestamp` when it was
        said (aware; now, unless given).

        >>> import tempfile
        >>> with ConversationMemory(tempfile.mkdtemp()) as conversation:
        ...     len(conversation.add_message("user", "Which port is it?").nanoid)
        10

        Raises InputError for another role, content that is none, or a time without a zone; nothing is kept then.
        """
        _check_role(role)
        if content is None:
            raise InputError("content must be a string or a list of content parts, not None")
        more: dict[str, Any] = {} if timestamp is None else {"timestamp": timestamp}
        more["session"] = None if session is None else a_text("session", session)
        more["speaker"] = None if speaker is None else a_text("speaker", speaker)
        step = MessageStep(role, content, id=self._new_id(), **more)
        self.memory.archive([step])
        return _message(step)

    def _new_id(self) -> str:
        while self._journal.numbers([nanoid := new_nanoid()]):
            pass  # taken: once in a long time
        return nanoid

    # -- out ----------------------------------------------------------------------------------------------------------

    def get(self, nanoid: str) -> Message:
        """The message with this id, found by an index. InputError when there is none, or it was forgotten."""
        return _message(message_step(self.memory, nanoid))

    def get_history(
        self, max_tokens: int | None = None, *, session: str | None = None, ids: bool = False
    ) -> list[ChatMessage]:
        """The newest messages that fit `max_tokens` (the memory's own unless given), oldest first, as chat messages.

        They have at most `max_tokens` as `count_messages` counts them. Where not even the newest one fits, it is
        shortened to head and tail, with a mark between them. With `session`, only the messages of that task; with
        `ids`, each begins with a line that has its id in brackets, for a model that has the tool `retrieve_message`.
        Messages without anything in them, which the chat APIs refuse, are left out.

        >>> import tempfile
        >>> with ConversationMemory(tempfile.mkdtemp()) as conversation:
        ...     for text in ("One.", "Two.", "Three."):
        ...         message = conversation.add_message("user", text)
        ...     conversation.get_history(max_tokens=15)
        [{'role': 'user', 'content': 'Two.'}, {'role': 'user', 'content': 'Three.'}]

        Raises BudgetError when the newest message, shortened, is still over `max_tokens`.
        """
        budget = some_tokens("max_tokens", self.memory.max_tokens if max_tokens is None else max_tokens)
        left = budget - PER_REPLY
        found: list[ChatMessage] = []
        for step in self._newest_first(None if session is None else a_text("session", session)):
            shown = _shown(step, ids)
            cost = self._tokens(shown) if len(step.text) <= LONGEST_TOKEN * left else left + 1
            if cost > left:
                return found[::-1] or self._shortened(step, ids, budget)
            found += shown
            left -= cost
        return found[::-1]

    def _newest_first(self, session: str | None) -> Iterator[MessageStep]:
        rows = self._journal.newest(PIECE, type=MessageStep.type, session=session)
        while rows:
            yield from map(_step, rows)
            rows = self._journal.newest(PIECE, rows[-1].number, type=MessageStep.type, session=session)

    def _tokens(self, messages: list[ChatMessage]) -> int:
        return sum(count_message(message, self._counter) for message in messages)

    def _shortened(self, step: MessageStep, ids: bool, budget: int) -> list[ChatMessage]:
        """One message, cut to what fits."""

        def tokens(most: int) -> int:
            return PER_REPLY + self._tokens(_shown(step.truncate(most), ids))

        if (least := tokens(LEAST)) > budget:
            raise BudgetError(least, budget, {"reply": PER_REPLY, "newest message": least - PER_REPLY})
        return _shown(step.truncate(most_characters(lambda most: tokens(most) <= budget, budget, LEAST)), ids)

    def search(
        self,
        query: str,
        max_tokens: int = 1_000,
        *,
        now: datetime | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        speaker: str | None = None,
    ) -> Recall:
        """What was said that bears on `query`, in at most `max_tokens`; the id of what is found is `item.step.id`.

        Filters and errors are those of `HierarchicalMemory.recall`.

        >>> import tempfile
        >>> with ConversationMemory(tempfile.mkdtemp()) as conversation:
        ...     message = conversation.add_message("user", "The staging server is at 10.0.0.7.")
        ...     conversation.search("Where is staging?").items[0].step.id == message.nanoid
        True
        """
        return self.memory.recall(
            query,
            max_tokens,
            now=now,
            since=since,
            until=until,
            session=session,
            speaker=speaker,
            type=MessageStep.type,
        )

    def __len__(self) -> int:
        return self._journal.count(MessageStep.type)

    def __iter__(self) -> Iterator[Message]:
        after = 0
        while rows := self._journal.rows(after, PIECE):
            yield from (_message(_step(row)) for row in rows if row.type == MessageStep.type)
            after = rows[-1].number

    # -- away ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the memory, if it was opened here. Closing twice is no error."""
        if self._is_own:
            self.memory.close()

    def __enter__(self) -> ConversationMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ConversationMemory over {self.memory!r}>"


def _check_role(role: str) -> None:
    if role in ("tool", "function"):
        raise InputError(
            f"a message of the role {role!r} answers a call and makes no sense without it: add both to a "
            "HierarchicalMemory, with add_messages"
        )
    if role not in ROLES:
        raise InputError(f"role must be one of {', '.join(ROLES)}, not {shown(role)}")


def _step(row: StepRow) -> MessageStep:
    step = load_step(row.record)
    assert isinstance(step, MessageStep)
    return step


def _message(step: MessageStep) -> Message:
    return Message(step.id, step.role, step.content, step.timestamp, step.session, step.speaker)


def _shown(step: MessageStep, ids: bool) -> list[ChatMessage]:
    """The message as the chat APIs take it; none where nothing is in it. A tool's result without its call is told."""
    messages = repair(step.to_messages(style="observation"))
    return [{**m, "content": joined(f"[{clean(step.id)}]", m["content"])} for m in messages] if ids else messages
