"""ConversationMemory: all messages of all tasks, each under a short id that a model can ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from tinymem.errors import BudgetError, InputError, safe_repr
from tinymem.memory.conversation.retrieve import Answer, message_step, retrieve_message_tool
from tinymem.memory.conversation.views import Message, message_of, newest_first
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.fitting import LEAST, most_characters
from tinymem.messages.tokens import LONGEST_TOKEN, PER_REPLY, count_tokens
from tinymem.messages.validity import repair
from tinymem.recall import Recall
from tinymem.steps.checks import Time, check_str, check_token_budget, to_utc
from tinymem.steps.content import Content, clean, join_contents
from tinymem.steps.ids import new_nanoid, utc_now
from tinymem.steps.step import Message as ChatMessage
from tinymem.steps.types import MessageStep
from tinymem.stores.filter import Filter

__all__ = ["ConversationManager", "ConversationMemory", "Message"]

ROLES = ("user", "assistant", "system", "developer")
NAMESPACE = "conversation"
MAX_TOKENS = 64 * 1024  # of a history


class ConversationMemory:
    """The messages of all tasks, word for word and never pruned. ConversationManager is another name of this class.

    `add_message` writes a message to disk, under a short random id. `messages` are all of them; `message_dict`, `get`
    and `retrieve_message` find one by its id. `get_history` gives the newest inside a budget, `to_messages` the same as
    chat messages, `search` those that answer a question. `memory` is the HierarchicalMemory below, for `forget` and
    `stats`. Safe to use from several threads.

    `tool` lets a model fetch and search messages: call it with the arguments of the model's call, or await its `acall`;
    its `schema` is for the chat API.

    >>> with ConversationMemory(max_tokens=4_000) as conversation:
    ...     message = conversation.add_message("user", "The staging server is at 10.0.0.7.", session="deploy")
    ...     conversation.message_dict[message.nanoid] == message == conversation.messages[-1]
    ...     [message.content for message in conversation.get_history()]
    True
    ['The staging server is at 10.0.0.7.']

    Args:
        path: The folder of the memory. Without it and `memory`, messages are for this process alone. A number is
            `max_tokens`.
        max_tokens: The budget of `get_history`; 64 K, or that of `memory`, unless given.
        namespace: The namespace in the folder.
        memory: An open HierarchicalMemory to use instead. Every MessageStep in its namespace is a message, and who
            opened it closes it.
        options: Those of HierarchicalMemory (`embedder`, `store`, `counter`, `create`).

    Raises:
        InputError: An argument makes no sense.
    """

    def __init__(
        self,
        path: str | Path | int | None = None,
        *,
        max_tokens: int | None = None,
        namespace: str = NAMESPACE,
        memory: HierarchicalMemory | None = None,
        **options: Any,
    ) -> None:
        if type(path) is int and path > 0 and max_tokens is None:
            path, max_tokens = None, path
        if not isinstance(path, (str, Path, type(None))):
            raise InputError(f"path must be a folder or None, not {safe_repr(path)}; a budget is given as max_tokens=")
        self._opened: HierarchicalMemory | None = None
        if memory is None:
            budget = check_token_budget("max_tokens", MAX_TOKENS if max_tokens is None else max_tokens)
            memory = self._opened = HierarchicalMemory(path, namespace=namespace, max_tokens=budget, **options)
        elif path is not None or options or namespace != NAMESPACE:
            raise InputError("an open memory has its path, namespace and options already: give memory= without them")
        elif not isinstance(memory, HierarchicalMemory):
            raise InputError(f"memory must be a HierarchicalMemory, not {type(memory).__name__}")
        self.max_tokens = check_token_budget("max_tokens", memory.max_tokens if max_tokens is None else max_tokens)
        self.memory, self.tool = memory, retrieve_message_tool(memory)
        self._journal, self._counter = memory.long_term.journal, memory.long_term.counter

    # -- in -----------------------------------------------------------------------------------------------------------

    def add_message(
        self,
        role: str,
        content: Content,
        *,
        session: str | None = None,
        speaker: str | None = None,
        timestamp: Time | None = None,
    ) -> Message:
        """Keep one message; it is on disk when this returns.

        >>> import tempfile
        >>> with ConversationMemory(tempfile.mkdtemp()) as conversation:
        ...     len(conversation.add_message("user", "Which port is it?").nanoid)
        10

        Args:
            role: `user`, `assistant`, `system` or `developer`.
            content: A text, or a list of content parts.
            session: The task that it belongs to.
            speaker: The person who said it.
            timestamp: When it was said: seconds since 1970, or a datetime, in UTC unless it has a zone. Default: now.

        Raises:
            InputError: Another role, no content, or no time; nothing is kept then.
        """
        _check_role(role)
        if content is None:
            raise InputError("content must be a string or a list of content parts, not None")
        time = to_utc("timestamp", timestamp) or utc_now()
        step = MessageStep(role, content, id=self._new_id(), session=session, speaker=speaker, timestamp=time)
        self.memory.archive([step])
        return message_of(step)

    def _new_id(self) -> str:
        nanoid = new_nanoid()
        while self._journal.numbers([nanoid]):  # it is taken, which is rare
            nanoid = new_nanoid()
        return nanoid

    # -- out ----------------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[Message]:
        """All messages as they are now, in the order they were added; `get_history` reads the newest alone."""
        return [message_of(step) for step in self.memory.history() if isinstance(step, MessageStep)]

    @property
    def message_dict(self) -> dict[str, Message]:
        """All messages as they are now by their ids; `get` reads one alone."""
        return {message.nanoid: message for message in self.messages}

    def get(self, nanoid: str) -> Message:
        """Return the message with this id. Raises InputError when there is none, or it was forgotten."""
        return message_of(message_step(self.memory, nanoid))

    def retrieve_message(self, nanoid: str) -> Answer:
        """Return the text of the message with this id, word for word; the answer may be awaited too.

        This is for code. A model asks through `tool`, which marks messages as data.

        >>> import asyncio
        >>> async def dialect() -> bool:
        ...     with ConversationMemory() as conversation:
        ...         message = conversation.add_message("user", "Use Latin American Spanish.")
        ...         awaited = await conversation.retrieve_message(nanoid=message.nanoid)
        ...         return awaited == conversation.retrieve_message(message.nanoid) == message.text
        >>> asyncio.run(dialect())
        True

        Raises:
            InputError: There is no such message, or it was forgotten.
        """
        return Answer(self.get(nanoid).text)

    def get_history(self, max_tokens: int | None = None, *, session: str | None = None) -> list[Message]:
        """Return the newest messages that fit, oldest first.

        Their roles and contents have at most `max_tokens`, as `count_tokens` counts them. If not even the newest one
        fits, its content is shortened to head and tail, with a mark between them. `to_messages` gives them as a chat
        API accepts them.

        >>> with ConversationMemory() as conversation:
        ...     for text in ("One.", "Two.", "Three."):
        ...         message = conversation.add_message("user", text)
        ...     [message.content for message in conversation.get_history(max_tokens=15)]
        ['Two.', 'Three.']

        Args:
            max_tokens: The budget; that of the conversation unless given.
            session: Only messages of this task.

        Raises:
            BudgetError: The newest message, shortened, is still over the budget.
        """
        newest = self._newest(max_tokens, session, lambda step: [{"role": step.role, "content": step.content}])
        return [message_of(step) for step in newest]

    def to_messages(
        self, max_tokens: int | None = None, *, session: str | None = None, ids: bool = False
    ) -> list[ChatMessage]:
        """Return what `get_history` gives as messages that the chat APIs accept, inside the same budget.

        With `ids`, each begins with a line that has its id in brackets, for a model that has the `tool`. Empty
        messages, which the chat APIs refuse, are left out.

        >>> with ConversationMemory() as conversation:
        ...     message = conversation.add_message("user", "Which port is it?")
        ...     conversation.to_messages()
        [{'role': 'user', 'content': 'Which port is it?'}]
        """

        def sent(step: MessageStep) -> list[ChatMessage]:
            return _render_for_api(step, ids)

        return [*chain.from_iterable(map(sent, self._newest(max_tokens, session, sent)))]

    def _newest(
        self, max_tokens: int | None, session: str | None, show: Callable[[MessageStep], list[ChatMessage]]
    ) -> list[MessageStep]:
        """Return the newest messages that fit the budget as `show` renders them, oldest first."""
        budget = check_token_budget("max_tokens", self.max_tokens if max_tokens is None else max_tokens)
        room = left = budget - PER_REPLY
        found: list[MessageStep] = []
        for step in newest_first(self._journal, None if session is None else check_str("session", session)):
            is_short = len(step.text) <= LONGEST_TOKEN * left
            cost = count_tokens(show(step), self._counter) - PER_REPLY if is_short else left + 1
            if cost > left:
                return found[::-1] if left < room else [self._shorten(step, budget, show)]
            found.append(step)
            left -= cost
        return found[::-1]

    def _shorten(self, step: MessageStep, budget: int, show: Callable[[MessageStep], list[ChatMessage]]) -> MessageStep:
        """Cut one message to what fits."""

        def tokens(most: int) -> int:
            return count_tokens(show(step.shortened(most)), self._counter)

        if (least := tokens(LEAST)) > budget:
            raise BudgetError(least, budget, {"reply": PER_REPLY, "newest message": least - PER_REPLY})
        return step.shortened(most_characters(lambda most: tokens(most) <= budget, budget, LEAST))

    def search(
        self,
        query: str,
        max_tokens: int = 1_000,
        **options: Any,
    ) -> Recall:
        """Recall the messages that answer `query`, in at most `max_tokens`; the id of a find is `item.step.id`.

        Options (`session`, `speaker`, `since`, `until`, `now`, `k`, `min_relevance`) and errors are those of
        `HierarchicalMemory.recall`.

        >>> import tempfile
        >>> with ConversationMemory(tempfile.mkdtemp()) as conversation:
        ...     message = conversation.add_message("user", "The staging server is at 10.0.0.7.")
        ...     conversation.search("Where is staging?").items[0].step.id == message.nanoid
        True
        """
        return self.memory.recall(query, max_tokens, type=MessageStep.type, **options)

    def __len__(self) -> int:
        return len(self._journal.matching(Filter(type=MessageStep.type)))

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    # -- away ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the memory, if this conversation opened it. Closing twice is no error."""
        if self._opened is not None:
            self._opened.close()

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
        raise InputError(f"role must be one of {', '.join(ROLES)}, not {safe_repr(role)}")


def _render_for_api(step: MessageStep, ids: bool) -> list[ChatMessage]:
    """Render the message as the chat APIs take it, an empty one not at all, a lone tool result as text."""
    messages = repair(step.to_messages(style="observation"))
    for message in messages:
        if ids:
            message["content"] = join_contents(f"[{clean(step.id)}]", message["content"])
    return messages


ConversationManager = ConversationMemory  # the name in other libraries
