"""retrieve_message: the tool by which a model fetches a past message by its id, or searches for one."""

from __future__ import annotations

from collections.abc import Generator

from tinymem.errors import InputError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.memory.reading import render_step
from tinymem.memory.tools import DEFAULT, SHOWN, TOKENS, MemoryTool, answer_tokens
from tinymem.steps.checks import check_non_negative_int, check_str
from tinymem.steps.types import MessageStep

__all__ = ["Answer", "message_step", "retrieve_message_tool"]

NAME = "retrieve_message"
LEAST = 200  # tokens of an answer: fence, head and hint, and something in between
DESCRIPTION = (
    "Fetch one past message of this conversation by its id (nanoid), or search all past messages (query). "
    "Give one of the two. Messages come back word for word; a search names the numbers of what it finds."
)
PROPERTIES = {
    "nanoid": {
        "type": "string",
        "description": "Id of the message to fetch, such as V4xGjR8aTn, or number, as #12.",
    },
    "query": {"type": "string", "description": "What to look for, in plain words."},
    "max_tokens": TOKENS,
    "start": {
        "type": "integer",
        "minimum": 0,
        "description": "With nanoid: character of the message to begin at, to read on in a long one.",
    },
}


class Answer(str):
    """A str that may be awaited, and then gives itself."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, str]:
        yield from ()
        return str(self)


def retrieve_message_tool(memory: HierarchicalMemory) -> MemoryTool:
    """Return the tool over the messages of `memory`.

    Past messages stand in a fence, marked as data, each under its number, which the tool takes in place of the id. An
    answer has at most `max_tokens` (1,000 unless given, and no more than the memory's own). A longer one is cut, and
    says how to read on.
    """

    def answer(nanoid: str = "", query: str = "", max_tokens: int = DEFAULT, start: int = 0) -> str:
        id, wanted = check_str("nanoid", nanoid).strip("[] \n"), check_str("query", query).strip()
        if bool(id) == bool(wanted):  # models send "" for what they leave open
            raise InputError("Give nanoid or query, one of the two.")
        budget = answer_tokens(memory, max_tokens, LEAST)
        if id:
            begin, call = check_non_negative_int("start", start), f"{NAME}(nanoid={{!r}}, start={{}})"
            return render_step(memory.long_term, message_step(memory, id), begin, budget, read_on=call)
        recalled = memory.recall(wanted, budget, type=MessageStep.type, ids=True)
        text = recalled.with_note(memory.long_term.counter, budget)
        return text or f"Nothing that was said bears on {wanted!r:.{SHOWN}}: try other words."

    return MemoryTool(NAME, DESCRIPTION, PROPERTIES, (), answer, memory)


def message_step(memory: HierarchicalMemory, nanoid: str) -> MessageStep:
    """Return the message of `memory` with this id; raise InputError when there is none."""
    id = check_str("nanoid", nanoid)
    try:
        step = memory.get(id)
    except InputError:
        raise InputError(f"no message has the id {nanoid!r:.{SHOWN}}") from None
    if not isinstance(step, MessageStep):
        raise InputError(f"{nanoid!r:.{SHOWN}} is the id of a step of type {step.type}, not of a message")
    return step
