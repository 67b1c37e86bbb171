"""A framework's own messages as a conversation: read for `fit`, and sent back as the objects that came.

An adapter says how one of its objects is read, and how one is made where the memory adds or shortens a message. All
others stay what they are: the same objects, with all that is their provider's own.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from tinymem.errors import InputError
from tinymem.memory.aio.hierarchy import AsyncHierarchicalMemory
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.memory.tools import MemoryTool
from tinymem.messages.calls import name_and_arguments, raw_calls
from tinymem.messages.formats import Conversation
from tinymem.messages.formats.conversation import Placed
from tinymem.messages.formats.parts import answer_of, rewritten, text_part, texts_of
from tinymem.recall.results import Excerpt, Recall
from tinymem.steps.content import as_text, to_json
from tinymem.steps.step import Message
from tinymem.stores.filter import Beginning, Filter

__all__ = [
    "AnyMemory", "NativeConversation", "archive", "find_session", "fit", "fit_items", "lineage",
    "list_tools", "make_answer", "make_call", "make_result", "name_subagent", "rank_excerpts",
    "read_calls", "run_on", "shorten_content", "steps_apart", "to_sync",
]  # fmt: skip

AGENTS = "/agents/"  # in the name of a conversation of an agent that runs as a tool
NativeT = TypeVar("NativeT")
T = TypeVar("T")
AnyMemory: TypeAlias = HierarchicalMemory | AsyncHierarchicalMemory


class NativeConversation(Conversation, Generic[NativeT]):
    """Objects of a framework, each of which is one message of a chat.

    Thinking stands in its message under the key `reasoning_content`, so that its tokens are counted.
    """

    format: ClassVar[str] = "openai"  # of the messages

    def __init__(self, natives: Iterable[NativeT]) -> None:
        self._items = list(natives)
        super().__init__([self._read(native) for native in self._items])

    def _natives(self, index: int) -> list[Mapping[str, Any]]:
        return [self.messages[index]]

    def _written(self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None) -> list[NativeT]:
        return [*map(self._sent, placed)]

    def _sent(self, entry: Placed) -> NativeT:
        if entry.input is None:
            return self._made(entry.message)
        native = self._items[entry.input]
        return self._shortened(native, entry.message) if entry.shortened else native

    @abstractmethod
    def _read(self, native: NativeT) -> Message:
        """Return the message of a chat that an object is."""

    @abstractmethod
    def _made(self, message: Message) -> NativeT:
        """Make an object of a message that the memory adds."""

    @abstractmethod
    def _shortened(self, native: NativeT, message: Message) -> NativeT:
        """Return a copy of an object with the texts and arguments of `message`."""


def archive(memory: AnyMemory, messages: Sequence[Message], session: str) -> None:
    """Archive messages of a chat."""
    to_sync(memory).archive_messages(messages, session=session, format="openai", metadata=lineage(session))


def fit_items(
    memory: AnyMemory,
    instructions: str | None,
    items: Iterable[Any],
    session: str,
    max_tokens: int | None,
    options: Mapping[str, Any],
) -> list[Any]:
    """Return the items of the Responses API to send; instructions, which are sent beside them, count too."""
    prompt = [{"role": "system", "content": instructions}] if instructions else []
    context = to_sync(memory).fit(
        [*prompt, *items], session=session, max_tokens=max_tokens, format="responses", **options
    )
    sent: list[Any] = context.to()
    return sent[len(prompt) :]


def fit(
    memory: AnyMemory, conversation: Conversation, session: str, max_tokens: int | None, **options: Any
) -> list[Any]:
    """Return the messages to send of a conversation, in its own form; `options` are those of `fit`."""
    known = to_sync(memory)
    options |= {"without": steps_apart(known, session), "metadata": lineage(session)}
    context = known.fit(conversation.messages, session=session, max_tokens=max_tokens, format="openai", **options)
    sent: list[Any] = conversation.write(context.entries)
    return sent


def to_sync(memory: AnyMemory) -> HierarchicalMemory:
    """Return the memory whose calls are not awaited."""
    return memory.memory if isinstance(memory, AsyncHierarchicalMemory) else memory


async def run_on(memory: AnyMemory, function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Call `function(memory, ...)` on the thread of the memory, while the event loop goes on."""
    return await AsyncHierarchicalMemory.over(to_sync(memory)).run(function, *args, **options)


def name_subagent(session: str, label: str) -> str:
    """Return the name of the conversation of an agent that runs as a tool in another one."""
    return f"{session}{AGENTS}{label}"


def lineage(session: str) -> dict[str, str] | None:
    """Return the metadata of the steps of a conversation: the name of the one that it is in, as a tool."""
    parent, _, label = session.rpartition(AGENTS)
    return {"parent": parent} if parent and label else None


def steps_apart(memory: HierarchicalMemory, session: str) -> list[int]:
    """Return the numbers of what is not recalled into a conversation: of those above and below it.

    What an agent that runs as a tool has to say to the one above is the result of the call.
    """
    *above, _ = accumulate(session.split(AGENTS), name_subagent)
    names = [*above, Beginning(name_subagent(session, ""))]
    journal = memory.long_term.journal
    return [*chain.from_iterable(journal.matching(Filter(session=name)) for name in names)]


def list_tools(memory: AnyMemory, filters: Mapping[str, Any]) -> list[tuple[MemoryTool, Message]]:
    """Return the tools of a memory, each with its name, description and parameters as the chat API has them."""
    return [(tool, tool.schema["function"]) for tool in to_sync(memory).tools(**filters)]


def rank_excerpts(recalled: Recall, count: int | None = None) -> list[Excerpt]:
    """Return what was recalled, at most `count` excerpts, the best first."""
    return sorted(recalled.items, key=lambda item: -item.score)[:count]


# -- messages of a chat -----------------------------------------------------------------------------------------------


def make_call(id: str, name: str, arguments: Any) -> Message:
    """Return a call of a tool."""
    text = arguments if isinstance(arguments, str) else to_json(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def make_answer(content: Any, calls: Sequence[Message] = (), thinking: str = "") -> Message:
    """Return what the model said, called and thought."""
    message = answer_of(content or "", [*calls])
    return {**message, "reasoning_content": thinking} if thinking else message


def make_result(id: str, content: Any) -> Message:
    """Return the result of a call."""
    return {"role": "tool", "tool_call_id": id, "content": content}


def read_calls(message: Message) -> list[tuple[str, str, dict[str, Any]]]:
    """Return id, name and arguments of each call in a message; arguments that are no object stand under `input`."""
    found = []
    for call in raw_calls(message):
        name, value = name_and_arguments(call)
        with suppress(ValueError):
            value = json.loads(value)
        found.append((str(call["id"]), name, value if isinstance(value, dict) else {"input": value}))
    return found


def shorten_content(content: Any, message: Message, read: Callable[[Any], Sequence[Message]]) -> Any:
    """Return content of a framework, a text or a list of parts, with the texts of `message`.

    A file gives way to the note that `message` has of it; `read` returns the parts of a chat that one part is.
    """
    if not isinstance(content, (list, tuple)):
        return as_text(message.get("content"))
    parts = [text_part(part) if isinstance(part, str) else part for part in content]

    def parts_of(part: Message) -> Sequence[Message]:
        if part.get("type") in ("text", None):
            return [part]
        return [each for each in read(part) if "text" not in each]

    return rewritten(parts, parts_of, texts_of(message.get("content")), text_part)


def find_session(given: str | None, found: object, how: str) -> str:
    """Return the name of a conversation: the one that was given, or that its framework has.

    Raises:
        InputError: There is neither; `how` says what to do.
    """
    if given is not None:
        return given
    if isinstance(found, str) and found:
        return found
    raise InputError(f"the conversation has no name, which tells it from others: {how}")
