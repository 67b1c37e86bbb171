"""Tools by which a model searches a memory and opens what it found."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tinymem.errors import InputError, TinymemError, warn_hourly
from tinymem.steps.checks import check_non_negative_int, check_str, check_token_budget
from tinymem.steps.content import is_empty
from tinymem.steps.step import Step

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["MemoryTool", "answer_tokens", "memory_tools"]

logger = logging.getLogger(__name__)

DEFAULT, LEAST = 1_000, 100  # tokens of an answer
SHOWN = 60  # characters of an argument that an answer repeats

TOKENS = {"type": "integer", "minimum": LEAST, "description": f"Most tokens of the answer; {DEFAULT} unless given."}
_SEARCH = {
    "query": {"type": "string", "description": "What to look for, in plain words."},
    "max_tokens": TOKENS,
}
_OPEN = {
    "id": {"type": "string", "description": "Number of the step, such as #12, as search_memory shows it."},
    "start": {"type": "integer", "minimum": 0, "description": "Character to begin at, to read on in a long one."},
    "max_tokens": TOKENS,
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
        required: Sequence[str],
        answer: Callable[..., str],
        memory: HierarchicalMemory,
    ) -> None:
        self.name = self.__name__ = name
        self._answer, self._memory = answer, memory
        self._description, self._properties, self._required = description, properties, required

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an entry of the chat API's `tools`."""
        properties = copy.deepcopy(dict(self._properties))
        parameters = {"type": "object", "properties": properties, "required": [*self._required]}
        function = {"name": self.name, "description": self._description, "parameters": parameters}
        return {"type": "function", "function": function}

    def call(self, **arguments: Any) -> str:
        """Answer a call of the model with these arguments, as text."""
        try:
            if unknown := ", ".join(sorted(arguments.keys() - self._properties.keys())):
                raise InputError(f"{self.name} has no argument {unknown:.{SHOWN}}, only {', '.join(self._properties)}.")
            given = {name: value for name, value in arguments.items() if value is not None}
            for name in self._required:
                if is_empty(check_str(name, given.get(name, ""))):
                    raise InputError(f"Give {name}.")
            return self._answer(**given)
        except InputError as error:
            return str(error)
        except TinymemError as error:
            warn_hourly(logger, self._memory.path, "%s could not be answered: %s", self.name, error)
            return "The memory cannot be read at the moment: go on without it, or try again later."

    async def acall(self, **arguments: Any) -> str:
        """Answer a call, as `call` does, while the event loop goes on."""
        return await self._memory._worker.run(partial(self.call, **arguments))

    __call__ = call

    def __repr__(self) -> str:
        return f"<MemoryTool {self.name}>"


def memory_tools(
    memory: HierarchicalMemory, lets_pass: Callable[[Step], bool], filters: Mapping[str, Any]
) -> list[MemoryTool]:
    """Return the tools that search a memory and open a step of it.

    Args:
        memory: The memory.
        lets_pass: Applies the filters to a step.
        filters: Those of `recall`.
    """

    def search(query: str, max_tokens: int = DEFAULT) -> str:
        tokens = answer_tokens(memory, max_tokens, LEAST)
        text = memory.recall(query, tokens, ids=True, **filters).with_note(memory.long_term.counter, tokens)
        return text or f"Nothing in memory bears on {query!r:.{SHOWN}}: try other words."

    def open_step(id: str, start: int = 0, max_tokens: int = DEFAULT) -> str:
        if not lets_pass(step := memory.get(id)):
            raise InputError("no step with this id")
        begin = check_non_negative_int("start", start)
        return memory.open(step.id, begin, max_tokens=answer_tokens(memory, max_tokens, LEAST))

    searching = (
        "Search everything that was said and done before, in this conversation and earlier ones. "
        "Finds come back word for word, each under the number of its step."
    )
    opening = "Read one step of the past in full, by the number that search_memory shows."
    return [
        MemoryTool("search_memory", searching, _SEARCH, ["query"], search, memory),
        MemoryTool("open_memory", opening, _OPEN, ["id"], open_step, memory),
    ]


def answer_tokens(memory: HierarchicalMemory, asked: int, least: int) -> int:
    """Return the most tokens of an answer, whatever the model asks for."""
    return max(least, min(check_token_budget("max_tokens", asked), memory.max_tokens))
