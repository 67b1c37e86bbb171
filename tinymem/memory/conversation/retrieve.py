"""retrieve_message: the tool by which a model fetches a past message by its id, or searches for one."""

from __future__ import annotations

import logging
from collections.abc import Generator
from copy import deepcopy
from typing import Any

from tinymem.errors import InputError, TinymemError, warn_hourly
from tinymem.memory.conversation.views import UnknownMessageError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.memory.reading import render_part
from tinymem.steps.checks import check_non_negative_int, check_str, check_token_budget
from tinymem.steps.content import as_text, clean
from tinymem.steps.types import MessageStep, shown_time

__all__ = ["Answer", "RetrieveMessage", "message_step"]

logger = logging.getLogger(__name__)

NAME = "retrieve_message"
DEFAULT = 1_000  # tokens of an answer
LEAST = 200  # tokens of an answer: fence, head and hint, and something in between
SHOWN = 60  # characters of an id, a name or an argument that an answer repeats

NO_MESSAGES = "Past messages cannot be read at the moment: go on without them, or try again later."
SCHEMA = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": (
            "Fetch one past message of this conversation by its id (nanoid), or search all past messages (query). "
            "Give one of the two. Messages come back word for word; a search names the numbers of what it finds."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "nanoid": {
                    "type": "string",
                    "description": "Id of the message to fetch, such as V4xGjR8aTn, or number, as #12.",
                },
                "query": {"type": "string", "description": "What to look for, in plain words."},
                "max_tokens": {
                    "type": "integer",
                    "minimum": LEAST,
                    "description": f"Most tokens of the answer; {DEFAULT} unless given.",
                },
                "start": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "With nanoid: character of the message to begin at, to read on in a long one.",
                },
            },
            "required": [],
            "additionalProperties": False,
        },
    },
}


class Answer(str):
    """A str that may be awaited, and then gives itself."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, str]:
        yield from ()
        return str(self)


class RetrieveMessage:
    """The tool over the messages of `memory`; `schema` describes it to the chat API.

    A call may be awaited too, with the same result. It has done its work when it returns, by id in less than a
    millisecond; `asyncio.to_thread(tool, query=...)` keeps a search out of the event loop.

    A model's mistakes (an unknown id, wrong types, both arguments or none) are answered in words and never raised; so
    is a memory that cannot be read, which is logged. Past messages stand in a fence, marked as data. A search brings
    them back as `recall` does, each under its number, which the tool takes in place of the id. An answer has at most
    `max_tokens` (1,000 unless given, and no more than the memory's own). A longer one is cut, and says how to read on.
    """

    def __init__(self, memory: HierarchicalMemory) -> None:
        self._memory = memory
        self.__name__ = NAME

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an entry of the chat API's `tools`; a new dict each time."""
        return deepcopy(SCHEMA)

    def __call__(
        self,
        nanoid: str | None = None,
        query: str | None = None,
        max_tokens: int | None = None,
        start: int | None = None,
        **unknown: object,
    ) -> Answer:
        """Return the message with the id `nanoid`, from character `start` on, or what answers `query`, as text."""
        try:
            if unknown:
                names = ", ".join(sorted(unknown))
                raise InputError(f"{NAME} has no argument {names:.{SHOWN}}, only nanoid, query, max_tokens, start.")
            budget = check_token_budget("max_tokens", DEFAULT if max_tokens is None else max_tokens)
            return Answer(self._answer(nanoid, query, max(LEAST, min(budget, self._memory.max_tokens)), start))
        except UnknownMessageError as error:
            return Answer(f"{error}. To search: {NAME}(query=...).")
        except InputError as error:
            return Answer(error)
        except TinymemError as error:
            warn_hourly(logger, self._memory.path, "%s could not be answered: %s", NAME, error)
            return Answer(NO_MESSAGES)

    def _answer(self, nanoid: str | None, query: str | None, budget: int, start: int | None) -> str:
        id = check_str("nanoid", nanoid or "").strip("[] \n")  # models send null or "" for what they leave open
        wanted = check_str("query", query or "").strip()
        if bool(id) == bool(wanted):
            raise InputError("Give nanoid or query, one of the two.")
        if not wanted:
            return self._fetch(id, check_non_negative_int("start", start or 0), budget)
        recalled = self._memory.recall(wanted, budget, type=MessageStep.type, ids=True)
        text = recalled.with_note(self._memory.long_term.counter, budget)
        return text or f"Nothing that was said bears on {wanted!r:.{SHOWN}}: try other words."

    def _fetch(self, nanoid: str, start: int, budget: int) -> str:
        """Render the message from `start` on, in at most `budget` tokens."""
        step, archive = message_step(self._memory, nanoid), self._memory.long_term
        text = as_text(step.content)
        if start and start >= len(text):
            raise InputError(f"start must be below {len(text)}, which is how many characters the message has.")
        return render_part(
            text,
            start,
            budget,
            head=_head(step),
            read_on=lambda end: f"{NAME}(nanoid={clean(step.id)!r}, start={end})",
            key=archive.key,
            counter=archive.counter,
        )


def message_step(memory: HierarchicalMemory, nanoid: str) -> MessageStep:
    """Return the message of `memory` with this id; raise UnknownMessageError when there is none."""
    id = check_str("nanoid", nanoid)
    try:
        step = memory.get(id)
    except InputError:
        raise UnknownMessageError(f"no message has the id {nanoid!r:.{SHOWN}}") from None
    if not isinstance(step, MessageStep):
        raise UnknownMessageError(f"{nanoid!r:.{SHOWN}} is the id of a step of type {step.type}, not of a message")
    return step


def _head(step: MessageStep) -> str:
    """Render the line above a message: id, role, speaker, date."""
    speaker = " ".join(clean(step.speaker or "").split())
    who = f"{step.role} {speaker:.{SHOWN}}" if speaker else step.role
    return f"[{clean(step.id):.{SHOWN}}, {who}, {shown_time(step)}]"
