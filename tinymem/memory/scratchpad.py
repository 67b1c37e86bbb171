"""AgentMemory: the scratchpad of an agent that runs code, and the one that a memory keeps in its journal."""

from __future__ import annotations

import keyword
import logging
import threading
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from tinymem.archive.scratchpad_format import SCRATCHPAD, Saved, as_text, read_dump, write_dump
from tinymem.errors import InputError, StorageError, describe_type, safe_repr, safe_traceback, warn_hourly
from tinymem.messages.fitting import LEAST, most_characters
from tinymem.messages.tokens import counter_from
from tinymem.protocols import TokenCounter
from tinymem.steps.checks import check_callable, check_str, check_strings, check_token_budget
from tinymem.steps.content import shorten
from tinymem.steps.display import hanging, one_line, short_repr
from tinymem.steps.redaction import Redact
from tinymem.steps.step import Step
from tinymem.steps.types import ScratchpadStep

if TYPE_CHECKING:  # a scratchpad alone needs no archive
    from tinymem.archive.archive import Archive

__all__ = ["AgentMemory", "KeptScratchpad"]

logger = logging.getLogger(__name__)

MOST_NOTES = 100  # observations, and failed approaches, of a kept scratchpad; older ones are archived
FUNCTIONS = ("store", "recall", "observe", "fail")  # that code calls by their names
TITLES = ("Stored Values", "Observations", "Failed Approaches (avoid these)")


class AgentMemory:
    """Named values, observations and failed approaches, for the code that an agent runs and for its next prompt.

    `variables` holds values by reference; `observations` and `failed_approaches` are lists of texts, oldest first. All
    three may be changed directly, but then `on_change` is not called. Safe to use from several threads.

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

    Args:
        variables: Values to start with, by name; copied.
        observations: Observations to start with; copied.
        failed_approaches: Failed approaches to start with; copied.
        on_change: A callable without arguments, called after every update; the update raises what it raises, and
            stays in effect. It may not change the scratchpad, and runs in the thread of the update.
        counter: A TokenCounter, or the name of a tiktoken encoding or of a model.

    Raises:
        InputError: An argument makes no sense.
    """

    def __init__(
        self,
        variables: Mapping[str, Any] | None = None,
        observations: Iterable[str] | None = None,
        failed_approaches: Iterable[str] | None = None,
        *,
        on_change: Callable[[], object] | None = None,
        counter: TokenCounter | str | None = None,
    ) -> None:
        if variables is not None and not isinstance(variables, Mapping):
            raise InputError(f"variables must be a mapping of names to values, not {describe_type(variables)}")
        self.variables: dict[str, Any] = {}
        for name, value in (variables or {}).items():
            self.variables[_check_variable(name)] = value
        self.observations = [] if observations is None else check_strings("observations", observations)
        self.failed_approaches: list[str] = []
        if failed_approaches is not None:
            self.failed_approaches += check_strings("failed_approaches", failed_approaches)
        self._on_change = check_callable("on_change", on_change)
        self._counter = counter_from(counter)
        self._lock = threading.RLock()  # free while `on_change` runs, which may wait for one who reads

    # -- updates ------------------------------------------------------------------------------------------------------

    def store(self, name: str, value: object) -> None:
        """Hold `value` under `name`, by reference.

        Raises:
            InputError: The name is no identifier, a keyword, of the form `__name__`, or one that `to_namespace` uses:
                memory, store, recall, observe or fail.
        """
        key = _check_variable(name)
        with self._update():
            self.variables[key] = value

    def observe(self, text: str) -> None:
        """Note an observation. Raises InputError for anything but a string."""
        check_str("text", text)
        with self._update():
            self.observations.append(text)

    def fail(self, text: str) -> None:
        """Note an approach that failed, so that it is not tried again. Raises InputError for anything but a string."""
        check_str("text", text)
        with self._update():
            self.failed_approaches.append(text)

    def clear(self) -> None:
        """Empty the scratchpad. Nothing is archived."""
        with self._update():
            self.variables.clear()
            self.observations.clear()
            self.failed_approaches.clear()

    @contextmanager
    def _update(self) -> Iterator[None]:
        with self._lock:
            yield
        if self._on_change is not None:
            self._on_change()

    # -- reading ------------------------------------------------------------------------------------------------------

    def recall(self, name: str, default: Any = None) -> Any:
        """Return the value stored under `name`, or `default`. Raises InputError for a name that is no string."""
        check_str("name", name)
        return self.variables.get(unicodedata.normalize("NFKC", name), default)

    def to_namespace(self) -> dict[str, Any]:
        """Return a new dict of global names to run code with: the variables, `memory`, store, recall, observe, fail.

        The functions change this memory; assigning a name does not.
        """
        functions = {name: getattr(self, name) for name in FUNCTIONS}
        with self._lock:
            return {**self.variables, "memory": self, **functions}

    def to_context(self, max_tokens: int | None = None) -> str:
        """Render the scratchpad for a prompt: values, observations and failed approaches under headings; "" when empty.

        Values are shown by the first 100 characters of their repr, other texts whole.

        Args:
            max_tokens: The budget; None: no bound. Texts are shortened until the newest of each section take half of
                it; then each section shows as many of its newest texts as fit, and how many are left out.

        Raises:
            InputError: `max_tokens` is no number of 1 or more.
        """
        room = None if max_tokens is None else check_token_budget("max_tokens", max_tokens)
        state = self._state()
        values: list[str] = []
        for name, value in state.variables.items():
            shown = one_line(name)[:100] if isinstance(name, str) else short_repr(name)
            values.append(f"{shown}: {short_repr(value, mark='...')}")
        sections = (values, list(map(as_text, state.observations)), list(map(as_text, state.failed_approaches)))
        return _pack(sections, room, self._counter)

    def _state(self) -> Saved:
        """Copy what is held now, the values by reference."""
        with self._lock:
            return Saved(dict(self.variables), [*self.observations], [*self.failed_approaches])

    # -- over a restart -----------------------------------------------------------------------------------------------

    def dump(self) -> str:
        """Write everything as ASCII JSON, for `load`.

        Values that JSON holds come back equal, but a tuple as a list: None, bool, int, float, str, list, tuple, and
        dict with keys of str, inside each other. In place of any other comes a text that says what it was.
        """
        return write_dump(self._state())

    @classmethod
    def load(cls, text: str, **options: Any) -> AgentMemory:
        """Read the scratchpad whose `dump` gave `text`; `options` are those of the class.

        >>> memory = AgentMemory()
        >>> memory.store("size", [2, 3]); memory.store("total", sum)
        >>> print(AgentMemory.load(memory.dump()).to_context())
        ## Working Memory
        <BLANKLINE>
        ### Stored Values
        - size: [2, 3]
        - total: '<builtin_function_or_method, not kept over a restart: <built-in function sum>>'

        Raises:
            FormatError: The text is no dump, or one of a newer version.
        """
        state = read_dump(text)
        memory = cls(None, state.observations, state.failed_approaches, **options)
        memory.variables.update(state.variables)
        return memory

    def __len__(self) -> int:
        return len(self.variables) + len(self.observations) + len(self.failed_approaches)

    def __repr__(self) -> str:
        return (
            f"<AgentMemory: {len(self.variables)} values, {len(self.observations)} observations, "
            f"{len(self.failed_approaches)} failed approaches>"
        )


class KeptScratchpad:
    """A scratchpad, `memory`, written to the journal at every update and by `keep`, after `redact`.

    Its oldest notes beyond `most_notes` of a kind go to the `archiver` as ScratchpadSteps, one update at a time: that
    holds the lock of the memory, `while_open`.
    """

    def __init__(
        self,
        archive: Archive,
        archiver: Callable[[Sequence[Step]], object],
        redact: Redact | None,
        while_open: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._archive, self._archiver, self._redact, self._while_open = archive, archiver, redact, while_open
        self.most_notes = MOST_NOTES
        kept = archive.journal.setting(SCRATCHPAD)
        self._kept = AgentMemory().dump() if kept is None else kept
        self._refused: str | None = None  # the newest that could not be written
        self.memory = AgentMemory.load(self._kept, on_change=self._follow_update, counter=archive.counter)

    def _follow_update(self) -> None:
        with self._while_open():
            self._archive_oldest("observation", self.memory.observations)
            self._archive_oldest("failed_approach", self.memory.failed_approaches)
            self.keep()

    def _archive_oldest(self, kind: str, notes: list[str]) -> None:
        """Archive the oldest notes beyond the bound; where that fails they stay, and the next update tries again."""
        oldest = notes[: max(0, len(notes) - self.most_notes)]
        if not oldest:
            return
        try:
            self._archiver([ScratchpadStep(as_text(text), metadata={"kind": kind}) for text in oldest])
        except Exception as error:
            message = "%d of kind %s stay over the bound: the archive failed\n%s"
            warn_hourly(logger, self._archive.folder, message, len(oldest), kind, safe_traceback(error))
        else:
            del notes[: len(oldest)]

    def keep(self) -> None:
        """Write down what changed; values are held by reference, so that needs no update.

        Raises:
            StorageError: It cannot be written, and who made this change was not told so yet.
        """
        text = write_dump(self.memory._state(), self._redact)
        if text == self._kept:
            return
        try:
            self._archive.journal.keep({SCRATCHPAD: text})
        except StorageError:
            is_told, self._refused = text == self._refused, text
            if not is_told:
                raise
        else:
            self._kept = text


def _check_variable(name: str) -> str:
    """Check and normalise a name as Python does in code (NFKC)."""
    check_str("name", name)
    key = unicodedata.normalize("NFKC", name)
    if not key.isidentifier() or keyword.iskeyword(key):
        raise InputError(f"name must be a Python identifier and no keyword, not {safe_repr(name)}")
    if key in ("memory", *FUNCTIONS) or (key.startswith("__") and key.endswith("__")):
        raise InputError(f"the name {safe_repr(key)} is taken by the scratchpad or by Python: choose another")
    return key


def _pack(sections: Sequence[Sequence[str]], room: int | None, counter: TokenCounter) -> str:
    """Render values, observations and failed approaches in at most `room` tokens (None: whole); "" if nothing fits.

    Texts are cut so far that the newest of each section take half of the room, or all where that is little.
    """
    longest = max(map(len, sections))
    whole = _render(sections, longest)
    if room is None or counter.count(whole) <= room:
        return whole
    aim = room // 2 if counter.count(_render(sections, 1, LEAST)) <= room // 2 else room
    length = most_characters(lambda length: counter.count(_render(sections, 1, length)) <= aim, room, 0, close=1)
    counts = range(1, longest + 1)
    most = bisect_left(counts, True, key=lambda count: counter.count(_render(sections, count, length)) > room)
    return _render(sections, most, length)


def _render(sections: Sequence[Sequence[str]], most: int, length: int | None = None) -> str:
    """Render up to `most` of the newest texts of each section, cut to `length` characters; "" where there is none.

    The first line of each text is marked and the others are indented, so that none looks like a heading.
    """
    shown: list[str] = []
    for title, texts in zip(TITLES, sections, strict=True):
        older = max(0, len(texts) - most)
        items = [f"- {hanging(text if length is None else shorten(text, length))}" for text in texts[older:]]
        note = [f"({older} older left out)"] if older else []
        if items:
            shown.append("\n".join([f"### {title}", *note, *items]))
    return "\n\n".join(["## Working Memory", *shown]) if shown else ""
