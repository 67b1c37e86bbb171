"""Tools by which a model searches a memory and opens what it found."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tinymem.errors import InputError, TinymemError, warn_hourly
from tinymem.steps.checks import a_text, some_tokens, whole_number
from tinymem.steps.content import is_empty
from tinymem.steps.step import Step

if TYPE_CHECKING:
    from tinymem.memory.reading import ReadingMemory

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
        memory: ReadingMemory,
    ) -> None:
        self.name = self.__name__ = name
        self._memory = memory
        self._description, self._properties, self._required, self._answer = description, properties, required, answer

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
            if is_empty(a_text(self._required, given.get(self._required, ""))):
                raise InputError(f"Give {self._required}.")
            return self._answer(**given)
        except InputError as error:
            return str(error)
        except TinymemError as error:
            warn_hourly(logger, self._memory.path, "%s could not be answered: %s", self.name, error)
            return "The memory cannot be read at the moment: go on without it, or try again later."

    async def acall(self, **arguments: Any) -> str:
        """Answer a call, as `call` does, while the event loop goes on."""
        from tinymem.memory.aio.worker import worker_of  # who awaits has imported asyncio, and no other pays for it

        return await worker_of(self._memory).run(partial(self.call, **arguments), "abandon")

    def __call__(self, **arguments: Any) -> str:
        """Answer a call, as `call` does."""
        return self.call(**arguments)

    def __repr__(self) -> str:
        return f"<MemoryTool {self.name}>"


def memory_tools(
    memory: ReadingMemory, filters: Mapping[str, Any], lets_pass: Callable[[Step], bool]
) -> list[MemoryTool]:
    """Return the tools over what filters of `recall` let through; `lets_pass` applies them to a step."""

    def budget(max_tokens: int | None) -> int:
        tokens = some_tokens("max_tokens", DEFAULT if max_tokens is None else max_tokens)
        return max(LEAST, min(tokens, memory.max_tokens))

    def search(query: str, max_tokens: int | None = None) -> str:
        most = budget(max_tokens)
        found = memory.recall(query, most, ids=True, **filters)
        text = found.with_note(memory.long_term.counter, most)
        return text or f"Nothing in memory bears on {query!r:.{SHOWN}}: try other words."

    def open_(id: str, start: int = 0, max_tokens: int | None = None) -> str:
        step = memory.get(id)
        if not lets_pass(step):
            raise InputError("no step with this id")
        return memory.open(step.id, whole_number("start", start), max_tokens=budget(max_tokens))

    searching = (
        "Search everything that was said and done before, in this conversation and earlier ones. "
        "Finds come back word for word, each under the number of its step."
    )
    opening = "Read one step of the past in full, by the number that search_memory shows."
    return [
        MemoryTool("search_memory", searching, _SEARCH, "query", search, memory),
        MemoryTool("open_memory", opening, _OPEN, "id", open_, memory),
    ]
