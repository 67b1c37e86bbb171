"""The methods whose contexts are read: those of `benchmarks.recall`, `whole`, `none`, somebody else's, and files.

- `whole` is the history in the order of time, without its beginning where it is longer than the model's window, and
  `none` is no context at all. Both are asked once a question, whatever the budgets are.
- `MODULE:CLASS` is a memory of your own: made without arguments for each haystack, it gets every `Unit` by `add(unit)`
  and answers `context(question, budget)` with a text, which is cut to the budget. `close()` is called if it is there.
- `NAME=FILE` are lines that other programs wrote, JSON objects with `haystack`, `query` and either `budget` and `text`
  (as `benchmarks.recall` and `benchmarks.peers` write them) or `units`, ids in the order of their rank, which are
  rendered and filled into the budget as the units of the baselines are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.harness.baselines import WholeUnits
from benchmarks.harness.data import Haystack, Method, Question, Recalled, Unit, lines_of
from benchmarks.harness.methods import Setup, method_from
from tinymem.errors import InputError
from tinymem.messages import TiktokenCounter
from tinymem.messages.fitting import fitted

__all__ = ["NONE", "WHOLE", "budgets_of", "label_of", "made"]

WHOLE, NONE = "whole", "none"


class Whole(WholeUnits):
    """The newest units that fit together, in the order of time."""

    def recall(self, question: Question, budget: int) -> Recalled:
        """The end of the history."""
        first, used = len(self._units), 0
        while first > 0 and used + self._costs[first - 1][1] <= budget:
            first -= 1
            used += self._costs[first][1]
        return self._exact([*range(first, len(self._units))], budget)


class Nothing(WholeUnits):
    """No context."""

    def recall(self, question: Question, budget: int) -> Recalled:
        """Nothing."""
        return Recalled("", ())


class Brought:
    """Somebody else's memory."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._counter = TiktokenCounter()

    def add(self, units: Sequence[Unit]) -> None:
        """Give it the next units, one by one."""
        for unit in units:
            self._memory.add(unit)

    def recall(self, question: Question, budget: int) -> Recalled:
        """Ask it, and cut what is too long."""
        text = self._memory.context(question, budget)
        if not isinstance(text, str):
            raise InputError(f"context(question, budget) must return a text, not {type(text).__name__}")
        return Recalled(fitted(text, budget, self._counter), ())

    def close(self) -> None:
        """Close it, if it can be closed."""
        getattr(self._memory, "close", lambda: None)()


class Written(WholeUnits):
    """Contexts or rankings from a file."""

    def __init__(
        self, lines: Mapping[tuple[Question, int | None], Mapping[str, Any]], places: Mapping[str, int]
    ) -> None:
        super().__init__()
        self._written = lines
        self._places = places

    def recall(self, question: Question, budget: int) -> Recalled:
        """The context of that budget, or what of the ranking fits."""
        if (found := self._written.get((question, budget))) is not None:
            return Recalled(fitted(str(found["text"]), budget, self._counter), ())
        return super().recall(question, budget)

    def rank(self, question: Question, most: int) -> Iterable[int]:
        """The places of the ranked units, each once."""
        ranked = self._written.get((question, None))
        if ranked is None:
            raise InputError(f"the file has no line for the question {question.text[:60]!r}")
        return dict.fromkeys(self._places[id] for id in ranked["units"])


def made(name: str, haystack: Haystack, setup: Setup) -> Method:
    """The method of that name for a haystack, empty. InputError if there is none."""
    if name == WHOLE:
        return Whole()
    if name == NONE:
        return Nothing()
    if "=" in name:
        return _written(haystack, _lines_in(Path(name.partition("=")[2])))
    if ":" in name:
        return Brought(_class_named(name)())
    return method_from(name, setup)


def label_of(name: str) -> str:
    """The name in tables: without a file's path."""
    return name.partition("=")[0]


def budgets_of(name: str, budgets: Sequence[int], window: int) -> Sequence[int]:
    """The budgets at which a method is asked."""
    return {WHOLE: (window,), NONE: (0,)}.get(name, budgets)


def _class_named(name: str) -> Callable[[], Any]:
    module, _, attribute = name.partition(":")
    try:
        found: Callable[[], Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"there is no memory {name!r}: {error}") from error
    return found


@cache
def _lines_in(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of a file by their haystacks."""
    found: dict[str, list[dict[str, Any]]] = {}
    for number, text in enumerate(lines_of(path), 1):
        try:
            line = json.loads(text)
            if "text" not in line and not isinstance(line["units"], list):
                raise TypeError("units must be a list of ids")
            found.setdefault(line["haystack"], []).append(line)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path.name}, line {number}: neither a context nor a ranking: {error!r}") from error
    return found


def _written(haystack: Haystack, lines: Mapping[str, Sequence[Mapping[str, Any]]]) -> Written:
    questions = {query.id: query.question for query in haystack.queries}
    table = {}
    for line in lines.get(haystack.id, ()):
        budget = line["budget"] if "text" in line else None
        if line["query"] in questions:
            table[questions[line["query"]], budget] = line
    return Written(table, haystack.places)
