"""Tools by which a model searches a memory and opens what it found."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tinymem.errors import InputError, TinymemError, warn_hourly
from tinymem.memory.aio.worker import Worker
from tinymem.protocols import TokenCounter
from tinymem.recall import Recall
from tinymem.steps.checks import check_non_negative_int, check_str, check_token_budget
from tinymem.steps.content import is_empty
from tinymem.steps.step import Step

__all__ = ["MemoryTool", "memory_tools"]

logger = logging.getLogger(__name__)

DEFAULT, LEAST = 1_000, 100  # tokens of an answer
SHOWN = 60  # characters of an argument that an answer repeats

_TOKENS = {"type": "integer", "minimum": LEAST, "description": f"Most tokens of the answer; {DEFAULT} unless given."}
_SEARCH = {
    "query": {"type": "string", "description": "What to look for, in plain words."},
    "max_tokens": _TOKENS,
}
_OPEN = {
    "id": {"type": "string", "description": "Number of the step, such as #12, as search_memory shows it."},
    "start": {"type": "integer", "minimum": 0, "description": "Character to begin at, to read on in a long one."},
    "max_tokens": _TOKENS,
}


class MemoryTool:
    """A tool over a memory, for code with and without `await`.

    A model's mistakes are answered in words and never raised, and so is a memory that cannot be read, which is logged.

    Attributes:
        name: Its name.
        schema: The tool as an entry of the chat API's `tools`; a new dict each time.
    """

    def __init__(
        self,
        name: str,
        description: str,
        properties: Mapping[str, Any],
        required: str,
        answer: Callable[..., str],
        worker: Worker,
        where: object,
    ) -> None:
        self.name = self.__name__ = name
        self._answer, self._worker, self._where = answer, worker, where
        self._description, self._properties, self._required = description, properties, required

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an entry of the chat API's `tools`."""
        properties = copy.deepcopy(dict(self._properties))
        parameters = {"type": "object", "properties": properties, "required": [self._required]}
        function = {"name": self.name, "description": self._description, "parameters": parameters}
        return {"type": "function", "function": function}

    def call(self, **arguments: Any) -> str:
        """Answer a call of the model with these arguments, as text."""
        try:
            if unknown := ", ".join(sorted(arguments.keys() - self._properties.keys())):
                raise InputError(f"{self.name} has no argument {unknown:.{SHOWN}}, only {', '.join(self._properties)}.")
            given = {name: value for name, value in arguments.items() if value is not None}
            if is_empty(check_str(self._required, given.get(self._required, ""))):
                raise InputError(f"Give {self._required}.")
            return self._answer(**given)
        except InputError as error:
            return str(error)
        except TinymemError as error:
            warn_hourly(logger, self._where, "%s could not be answered: %s", self.name, error)
            return "The memory cannot be read at the moment: go on without it, or try again later."

    async def acall(self, **arguments: Any) -> str:
        """Answer a call, as `call` does, while the event loop goes on."""
        return await self._worker.run(partial(self.call, **arguments))

    def __call__(self, **arguments: Any) -> str:
        """Answer a call, as `call` does."""
        return self.call(**arguments)

    def __repr__(self) -> str:
        return f"<MemoryTool {self.name}>"


def memory_tools(
    recall: Callable[..., Recall],
    get: Callable[[str], Step],
    read: Callable[..., str],
    lets_pass: Callable[[Step], bool],
    *,
    counter: TokenCounter,
    most: int,
    worker: Worker,
    where: object,
) -> list[MemoryTool]:
    """Return the tools that search a memory and open a step of it.

    Args:
        recall: `HierarchicalMemory.recall` with the filters of the tools.
        get: Its `get`.
        read: Its `open`.
        lets_pass: Applies the filters to a step.
        counter: Counts tokens.
        most: The most tokens of an answer, whatever the model asks for.
        worker: The thread on which awaited calls are made.
        where: The memory, as warnings know it.
    """

    def budget(max_tokens: int | None) -> int:
        tokens = check_token_budget("max_tokens", DEFAULT if max_tokens is None else max_tokens)
        return max(LEAST, min(tokens, most))

    def search(query: str, max_tokens: int | None = None) -> str:
        tokens = budget(max_tokens)
        text = recall(query, tokens, ids=True).with_note(counter, tokens)
        return text or f"Nothing in memory bears on {query!r:.{SHOWN}}: try other words."

    def open_step(id: str, start: int = 0, max_tokens: int | None = None) -> str:
        if not lets_pass(step := get(id)):
            raise InputError("no step with this id")
        return read(step.id, check_non_negative_int("start", start), max_tokens=budget(max_tokens))

    searching = (
        "Search everything that was said and done before, in this conversation and earlier ones. "
        "Finds come back word for word, each under the number of its step."
    )
    opening = "Read one step of the past in full, by the number that search_memory shows."
    return [
        MemoryTool("search_memory", searching, _SEARCH, "query", search, worker, where),
        MemoryTool("open_memory", opening, _OPEN, "id", open_step, worker, where),
    ]
