"""retrieve_message: the tool by which a model fetches a past message by its id, or searches for one."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Generator, Sequence
from copy import deepcopy
from typing import Any

from tinymem.errors import InputError, TinymemError, warn_hourly
from tinymem.memory.conversation.views import UnknownMessageError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.memory.reading import render_part
from tinymem.recall.render import block, quoted
from tinymem.recall.results import Excerpt
from tinymem.steps.checks import check_non_negative_int, check_str, check_token_budget
from tinymem.steps.content import as_text, clean
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep, shown_time

__all__ = ["Answer", "RetrieveMessage", "message_step"]

logger = logging.getLogger(__name__)

NAME = "retrieve_message"
DEFAULT = 1_000  # tokens of an answer
LEAST = 200  # tokens of an answer: fence, head and hint, and something in between
HEADS = 60  # tokens that the first found message's head and the hint take, about
NEAR = 500  # newest ids among which the one that was meant is looked for
OFFERED = 3  # ids that an answer suggests in place of a wrong one
SHOWN = 60  # characters of an id, a name or an argument that an answer repeats

NO_MESSAGES = "Past messages cannot be read at the moment: go on without them, or try again later."
SCHEMA = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": (
            "Fetch one past message of this conversation by its id (nanoid), or search all past messages (query). "
            "Give one of the two. Messages come back word for word; a search names the ids of what it finds."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "nanoid": {"type": "string", "description": "Id of the message to fetch, such as V4xGjR8aTn."},
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
    is a memory that cannot be read, which is logged. Past messages stand in a fence, marked as data, each under its
    id, role and date. An answer has at most `max_tokens` (1,000 unless given, and no more than the memory's own). A
    longer one is cut, and says how to read on.
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
            return Answer(self._answer(nanoid, query, max_tokens, start))
        except InputError as error:
            return Answer(error)
        except TinymemError as error:
            warn_hourly(logger, self._memory.path, "%s could not be answered: %s", NAME, error)
            return Answer(NO_MESSAGES)

    def _answer(self, nanoid: str | None, query: str | None, max_tokens: int | None, start: int | None) -> str:
        id = check_str("nanoid", nanoid or "").strip("[] \n")  # models send null or "" for what they leave open
        wanted = check_str("query", query or "").strip()
        if bool(id) == bool(wanted):
            raise InputError(f"Give nanoid or query, one of the two. {self._offer()}")
        budget = check_token_budget("max_tokens", DEFAULT if max_tokens is None else max_tokens)
        budget = max(LEAST, min(budget, self._memory.max_tokens))
        if wanted:
            return self._search(wanted, budget)
        return self._fetch(id, check_non_negative_int("start", start or 0), budget)

    # -- by id --------------------------------------------------------------------------------------------------------

    def _fetch(self, nanoid: str, start: int, budget: int) -> str:
        try:
            step = message_step(self._memory, nanoid)
        except InputError as error:
            raise InputError(f"{error}. {self._offer(nanoid)}") from error
        length = len(as_text(step.content))
        if start and start >= length:
            raise InputError(f"start must be below {length}, which is how many characters the message has.")
        return self._part(step, start, budget)

    def _part(self, step: MessageStep, start: int, budget: int) -> str:
        """Render the message from `start` on, in at most `budget` tokens."""
        return render_part(
            as_text(step.content),
            start,
            budget,
            head=_head(step),
            read_on=lambda end: f"{NAME}(nanoid={clean(step.id)!r}, start={end})",
            key=self._memory.long_term.key,
            counter=self._memory.long_term.counter,
        )

    # -- by what it says ----------------------------------------------------------------------------------------------

    def _search(self, query: str, budget: int) -> str:
        least = max(budget - HEADS, DEFAULT)  # a passage over the budget is cut below instead of passed over
        recalled = self._memory.recall(query, least, type=MessageStep.type)
        items = sorted(recalled.items, key=lambda item: -item.score)
        while items:
            text = self._render_list(items)
            if self._memory.long_term.counter.count(text) <= budget:
                return text
            if len(items) == 1:
                return self._part(_message(items[0].step), items[0].start, budget)
            items.pop()
        return f"Nothing that was said bears on {query!r:.{SHOWN}}: try other words. {self._offer()}"

    def _render_list(self, items: Sequence[Excerpt]) -> str:
        """Render excerpts in order of time, each under the head of its message."""
        in_order = sorted(items, key=lambda item: (item.step.step_number or 0, item.start))
        lines = [(_head(_message(item.step)), _excerpt(item)) for item in in_order]
        return f"{block(lines, self._memory.long_term.key)}\nWhole messages: {NAME}(nanoid=...)."

    # -- words --------------------------------------------------------------------------------------------------------

    def _offer(self, nanoid: str | None = None) -> str:
        """Suggest what the model may try instead."""
        ids = [row.id for row in self._memory.long_term.journal.newest(NEAR, type=MessageStep.type)]
        if not ids:
            return "No message is kept yet."
        close = difflib.get_close_matches(nanoid[:SHOWN], ids, OFFERED) if nanoid else []
        named = ", ".join(f"{clean(id):.{SHOWN}}" for id in close or ids[:OFFERED])
        return f"{'Close to it' if close else 'The newest messages'}: {named}. To search: {NAME}(query=...)."


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


def _message(step: Step) -> MessageStep:
    assert isinstance(step, MessageStep)  # as was asked for
    return step


def _head(step: MessageStep) -> str:
    """Render the line above a message: id, role, speaker, date."""
    speaker = " ".join(clean(step.speaker or "").split())
    who = f"{step.role} {speaker:.{SHOWN}}" if speaker else step.role
    return f"[{clean(step.id):.{SHOWN}}, {who}, {shown_time(step)}]"


def _excerpt(item: Excerpt) -> str:
    """Render an excerpt, with … where it was cut, and its mark."""
    cut = item.end < len(item.step.parts()[item.part].text)
    text = quoted("", f"{'…' if item.start else ''}{item.text.strip()}{'…' if cut else ''}")
    return f"{text}{item.mark}"
