"""AgentMemory: the scratchpad of an agent that runs code. What it stored, saw, and tried in vain."""

from __future__ import annotations

import keyword
import logging
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from tinymem.archive.scratchpad_format import Saved, Unsaved, as_text, dumped, loaded, sorted_out
from tinymem.errors import InputError, kind_of, own_place, shown, trace_of, warn_hourly
from tinymem.memory.scratchpad.sections import Section, packed
from tinymem.messages.tokens import counter_from
from tinymem.protocols import TokenCounter
from tinymem.steps.checks import a_callable, a_text, some_tokens, whole_number
from tinymem.steps.display import one_line, short_repr
from tinymem.steps.step import Step
from tinymem.steps.types import ScratchpadStep

__all__ = ["AgentMemory", "Archiver", "Unsaved"]

logger = logging.getLogger(__name__)

Archiver: TypeAlias = Callable[[Sequence[Step]], object]
OWN_NAMES = ("memory", "store", "recall", "observe", "fail")


class AgentMemory:
    """Named values, observations and failed approaches, for the code that an agent runs and for its next prompt.

    Values are held by reference, under `variables`; `observations` and `failed_approaches` are lists of texts, oldest
    first. Each may be given to start with, and is copied then. All three may be changed directly; then no update is
    noticed. Safe to use from several threads.

    Lists longer than `max_observations` or `max_failed_approaches` (None: no bound) give their oldest to `archive`, as
    ScratchpadSteps whose metadata says `{"kind": "observation"}` or `{"kind": "failed_approach"}`;
    `HierarchicalMemory.archive` is such a callable. When it raises, they stay in the list, a warning is logged, and the
    next update tries again. Without `archive` they are lost, which is logged at debug level.

    `on_change` is called after every update, and what it raises is raised by that update, which is in effect then.
    Neither callable may change the scratchpad. `verbose` logs updates at level INFO. `counter` is a TokenCounter, or
    the name of a tiktoken encoding or of a model.

    >>> memory = AgentMemory()
    >>> exec("store('rows', [3, 1, 2]); observe('three rows')", memory.to_namespace())
    >>> memory.recall("rows")
    [3, 1, 2]
    >>> print(memory.to_context())
    ## Working Memory
    <BLANKLINE>
    ### Stored Values
    - rows: [3, 1, 2]
    <BLANKLINE>
    ### Observations
    - three rows

    Raises InputError for arguments that make no sense.
    """

    def __init__(
        self,
        variables: Mapping[str, Any] | None = None,
        observations: Iterable[str] | None = None,
        failed_approaches: Iterable[str] | None = None,
        *,
        max_observations: int | None = None,
        max_failed_approaches: int | None = None,
        archive: Archiver | None = None,
        on_change: Callable[[], object] | None = None,
        counter: TokenCounter | str | None = None,
    ) -> None:
        self.variables: dict[str, Any] = _variables(variables)
        self.observations: list[str] = _texts("observations", observations)
        self.failed_approaches: list[str] = _texts("failed_approaches", failed_approaches)
        self._max_observations = _bound("max_observations", max_observations)
        self._max_failed_approaches = _bound("max_failed_approaches", max_failed_approaches)
        self._archive, self._on_change = a_callable("archive", archive), a_callable("on_change", on_change)
        self._counter = counter_from(counter)
        self._lost: dict[str, Unsaved] = {}  # what a dump could not keep
        self._where = own_place()
        # Two locks, so that somebody who holds a lock of their own, and reads here, never waits for an update that
        # waits for that lock in `archive` or `on_change`.
        self._updating, self._lock = threading.RLock(), threading.RLock()

    # -- updates ------------------------------------------------------------------------------------------------------

    def store(self, name: str, value: object) -> None:
        """Hold `value` under `name`, by reference.

        Raises InputError unless the name can be one of a variable beside those that `to_namespace` gives: an
        identifier, no keyword, none of memory, store, recall, observe and fail, and not of the form `__name__`.
        """
        key = _variable(name)
        with self._update():
            self.variables[key] = value
            self._lost.pop(key, None)

    def observe(self, text: str) -> None:
        """Note something that was found out. Raises InputError for what is no string."""
        a_text("text", text)
        with self._update():
            self.observations.append(text)

    def fail(self, text: str) -> None:
        """Note an approach that did not work, so that it is not tried again. Raises InputError for no string."""
        a_text("text", text)
        with self._update():
            self.failed_approaches.append(text)

    def clear(self) -> None:
        """Forget everything. Nothing of it is archived."""
        with self._update():
            for held in (self.variables, self._lost, self.observations, self.failed_approaches):
                held.clear()

    @contextmanager
    def _update(self) -> Iterator[None]:
        with self._updating:
            with self._lock:
                yield
            self._shorten("observation", self.observations, self._max_observations)
            self._shorten("failed_approach", self.failed_approaches, self._max_failed_approaches)
            if self._on_change is not None:
                self._on_change()

    def _shorten(self, kind: str, held: list[str], most: int | None) -> None:
        """Archive the oldest of `held` beyond `most`."""
        over = [] if most is None else held[: max(0, len(held) - most)]
        if over and self._archived(kind, over):
            with self._lock:
                del held[: len(over)]

    def _archived(self, kind: str, texts: Sequence[str]) -> bool:
        if self._archive is None:
            logger.debug("dropped %d of kind %s over the bound: no archive was given", len(texts), kind)
            return True
        try:
            self._archive([ScratchpadStep(as_text(text), metadata={"kind": kind}) for text in texts])
        except Exception as error:
            told = "%d of kind %s stay over the bound: the archive failed\n%s"
            warn_hourly(logger, self._where, told, len(texts), kind, trace_of(error))
            return False
        return True

    # -- reading ------------------------------------------------------------------------------------------------------

    def recall(self, name: str, default: Any = None) -> Any:
        """The very value stored under `name`, or `default`. Raises InputError for a name that is no string."""
        a_text("name", name)
        return self.variables.get(unicodedata.normalize("NFKC", name), default)

    def to_namespace(self) -> dict[str, Any]:
        """A new dict of global names to run code with: the variables, `memory`, and store, recall, observe, fail.

        The functions change this memory; a name that the code assigns does not, unless it is stored.
        """
        with self._lock:
            return {**self.variables, "memory": self, **{name: getattr(self, name) for name in OWN_NAMES[1:]}}

    def to_context(self, max_tokens: int | None = None) -> str:
        """The text for a prompt: stored values, observations and failed approaches, each under a heading where there
        are any; "" when there is nothing.

        Values are shown by the first 100 characters of their repr, and other texts whole. With `max_tokens` the text
        has at most so many tokens: single texts are shortened to half of it, and then the oldest leave, with a note of
        how many: first observations, then values, then failed approaches, and last the newest of either.
        Raises InputError when that is no number of 1 or more.
        """
        room = None if max_tokens is None else some_tokens("max_tokens", max_tokens)
        state = self._state()
        values = [f"{_shown_name(name)}: {short_repr(value, mark='...')}" for name, value in state.variables.items()]
        if state.lost:
            lost = ", ".join(f"{one_line(name)} ({what.type})" for name, what in state.lost.items())
            values.append(f"Not kept over the restart: {lost}")
        sections = (
            Section("Stored Values", values),
            Section("Observations", list(map(as_text, state.observations)), keeps_newest=True),
            Section("Failed Approaches (avoid these)", list(map(as_text, state.failed_approaches)), keeps_newest=True),
        )
        return packed("Working Memory", sections, (1, 0, 2), room, self._counter)

    def _state(self) -> Saved:
        """What is held right now; later changes of the values themselves are seen in it."""
        with self._lock:
            lost = {name: what for name, what in self._lost.items() if name not in self.variables}
            return Saved(dict(self.variables), [*self.observations], [*self.failed_approaches], lost)

    # -- over a restart -----------------------------------------------------------------------------------------------

    @property
    def unsaved(self) -> dict[str, Unsaved]:
        """The values that `dump` cannot keep, and those that an earlier one could not: (type, short repr) by name."""
        return sorted_out(self._state())[1]

    def dump(self) -> str:
        """Everything as ASCII JSON, for `load`.

        Values of None, bool, int, float, str, bytes, datetime, date, list, tuple, set, frozenset and dict, inside each
        other, are kept exactly (what is held twice comes back as two); any other is named under `unsaved`.
        """
        return dumped(self._state())

    @classmethod
    def load(cls, text: str, **options: Any) -> AgentMemory:
        """The scratchpad whose `dump` gave `text`; `options` are those of the class. Nothing is archived yet.

        >>> memory = AgentMemory()
        >>> memory.store("size", (2, 3)); memory.store("total", sum)
        >>> print(AgentMemory.load(memory.dump()).to_context())
        ## Working Memory
        <BLANKLINE>
        ### Stored Values
        - size: (2, 3)
        - Not kept over the restart: total (builtin_function_or_method)

        Raises FormatError, with what is wrong, for a text that is no dump or one of a newer version.
        """
        state = loaded(text)
        memory = cls(**options)
        memory.variables.update(state.variables)
        memory.observations += state.observations
        memory.failed_approaches += state.failed_approaches
        memory._lost.update(state.lost)
        return memory

    def __len__(self) -> int:
        return len(self.variables) + len(self.observations) + len(self.failed_approaches)

    def __bool__(self) -> bool:
        return len(self) > 0 or bool(self._lost)

    def __repr__(self) -> str:
        return (
            f"<AgentMemory: {len(self.variables)} values, {len(self.observations)} observations, "
            f"{len(self.failed_approaches)} failed approaches>"
        )


def _variable(name: str) -> str:
    """The name as Python reads it in code, where letters that look alike are one."""
    a_text("name", name)
    key = unicodedata.normalize("NFKC", name)
    if not key.isidentifier() or keyword.iskeyword(key):
        raise InputError(f"name must be a Python identifier and no keyword, not {shown(name)}")
    if key in OWN_NAMES or (key.startswith("__") and key.endswith("__")):
        raise InputError(f"the name {shown(key)} is taken by the scratchpad or by Python: choose another")
    return key


def _variables(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of the variables that a scratchpad starts with, under names that `store` would take."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"variables must be a mapping of names to values, not {kind_of(given)}")
    return {_variable(name): value for name, value in (given or {}).items()}


def _texts(name: str, given: Iterable[str] | None) -> list[str]:
    """A copy of the texts that a scratchpad starts with."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(() if given is None else given, Iterable):
        raise InputError(f"{name} must be a list of strings, not {kind_of(given)}")
    texts = [] if given is None else list(given)
    for text in texts:
        a_text(f"an item of {name}", text)
    return texts


def _shown_name(name: object) -> str:
    return one_line(name)[:100] if isinstance(name, str) else short_repr(name)


def _bound(name: str, most: int | None) -> int | None:
    return None if most is None else whole_number(name, most)
