"""AgentMemory: the scratchpad of an agent that runs code, and the one that a memory keeps in its journal."""

from __future__ import annotations

import keyword
import logging
import threading
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from tinymem.archive.scratchpad_format import Saved, Unsaved, as_text, classify_values, read_dump, write_dump
from tinymem.errors import InputError, describe_type, new_log_key, safe_repr, safe_traceback, warn_hourly
from tinymem.messages.fitting import longest
from tinymem.messages.tokens import counter_from
from tinymem.protocols import TokenCounter
from tinymem.protocols.settings import SCRATCHPAD
from tinymem.steps.checks import check_callable, check_non_negative_int, check_str, check_strings, check_token_budget
from tinymem.steps.content import shorten
from tinymem.steps.display import hanging, one_line, short_repr
from tinymem.steps.redaction import Redact
from tinymem.steps.step import Step
from tinymem.steps.types import ScratchpadStep

if TYPE_CHECKING:  # a scratchpad alone needs no archive
    from tinymem.archive.archive import Archive

__all__ = ["AgentMemory", "Archiver", "KeptScratchpad", "Unsaved"]

logger = logging.getLogger(__name__)

Archiver: TypeAlias = Callable[[Sequence[Step]], object]
NOTED = 100  # observations, and failed approaches, of a kept scratchpad; older ones are archived
OWN_NAMES = ("memory", "store", "recall", "observe", "fail")


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
        max_observations: How many observations may stay; None: no bound. The oldest ones go to `archive`.
        max_failed_approaches: How many failed approaches may stay, in the same way.
        archive: A callable that takes a list of ScratchpadSteps, such as `HierarchicalMemory.archive`; their metadata
            is `{"kind": "observation"}` or `{"kind": "failed_approach"}`. When it raises, the texts stay in the list, a
            warning is logged, and the next update tries again. Without it they are lost, which is logged at level
            DEBUG.
        on_change: A callable without arguments, called after every update; the update raises what it raises, and
            stays in effect. Neither callable may change the scratchpad.
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
        max_observations: int | None = None,
        max_failed_approaches: int | None = None,
        archive: Archiver | None = None,
        on_change: Callable[[], object] | None = None,
        counter: TokenCounter | str | None = None,
    ) -> None:
        self.variables: dict[str, Any] = {}
        if variables is not None and not isinstance(variables, Mapping):
            raise InputError(f"variables must be a mapping of names to values, not {describe_type(variables)}")
        self.variables |= {_check_variable(name): value for name, value in (variables or {}).items()}
        self.observations: list[str] = check_strings("observations", () if observations is None else observations)
        self.failed_approaches: list[str] = check_strings(
            "failed_approaches", () if failed_approaches is None else failed_approaches
        )
        self._max_observations = _check_bound("max_observations", max_observations)
        self._max_failed_approaches = _check_bound("max_failed_approaches", max_failed_approaches)
        self._archive, self._on_change = check_callable("archive", archive), check_callable("on_change", on_change)
        self._counter = counter_from(counter)
        self._lost: dict[str, Unsaved] = {}  # values that a dump could not keep
        self._where = new_log_key()
        # Two locks, so that reading never waits for an update whose `archive` or `on_change` waits for the reader.
        self._updating, self._lock = threading.RLock(), threading.RLock()

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
            self._lost.pop(key, None)

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
        if over and self._archive_texts(kind, over):
            with self._lock:
                del held[: len(over)]

    def _archive_texts(self, kind: str, texts: Sequence[str]) -> bool:
        if self._archive is None:
            logger.debug("dropped %d of kind %s over the bound: no archive was given", len(texts), kind)
            return True
        try:
            self._archive([ScratchpadStep(as_text(text), metadata={"kind": kind}) for text in texts])
        except Exception as error:
            message = "%d of kind %s stay over the bound: the archive failed\n%s"
            warn_hourly(logger, self._where, message, len(texts), kind, safe_traceback(error))
            return False
        return True

    # -- reading ------------------------------------------------------------------------------------------------------

    def recall(self, name: str, default: Any = None) -> Any:
        """Return the value stored under `name`, or `default`. Raises InputError for a name that is no string."""
        check_str("name", name)
        return self.variables.get(unicodedata.normalize("NFKC", name), default)

    def to_namespace(self) -> dict[str, Any]:
        """Return a new dict of global names to run code with: the variables, `memory`, store, recall, observe, fail.

        The functions change this memory; assigning a name does not.
        """
        with self._lock:
            return {**self.variables, "memory": self, **{name: getattr(self, name) for name in OWN_NAMES[1:]}}

    def to_context(self, max_tokens: int | None = None) -> str:
        """Render the scratchpad for a prompt: values, observations and failed approaches under headings; "" when empty.

        Values are shown by the first 100 characters of their repr, other texts whole.

        Args:
            max_tokens: The budget; None: no bound. Single texts are shortened to half of it; then the oldest leave,
                with a note of how many: observations first, then values, then failed approaches, and last the newest of
                either.

        Raises:
            InputError: `max_tokens` is no number of 1 or more.
        """
        room = None if max_tokens is None else check_token_budget("max_tokens", max_tokens)
        state = self._state()
        names = (one_line(name)[:100] if isinstance(name, str) else short_repr(name) for name in state.variables)
        values = [
            f"{name}: {short_repr(value, mark='...')}"
            for name, value in zip(names, state.variables.values(), strict=True)
        ]
        if state.lost:
            lost = ", ".join(f"{one_line(name)} ({what.type})" for name, what in state.lost.items())
            values.append(f"Not kept over the restart: {lost}")
        observations, failed = list(map(as_text, state.observations)), list(map(as_text, state.failed_approaches))
        return _pack(values, observations, failed, room, self._counter)

    def _state(self) -> Saved:
        """Copy what is held now, the values by reference."""
        with self._lock:
            lost = {name: what for name, what in self._lost.items() if name not in self.variables}
            return Saved(dict(self.variables), [*self.observations], [*self.failed_approaches], lost)

    # -- over a restart -----------------------------------------------------------------------------------------------

    @property
    def unsaved(self) -> dict[str, Unsaved]:
        """The values that `dump` cannot keep, and those that an earlier dump could not: (type, short repr) by name."""
        return classify_values(self._state())[1]

    def dump(self) -> str:
        """Write everything as ASCII JSON, for `load`.

        Values that JSON holds come back equal, but a tuple as a list: None, bool, int, float, str, list, tuple, and
        dict with keys of str, inside each other. Any other is named under `unsaved`, with its repr.
        """
        return write_dump(self._state())

    @classmethod
    def load(cls, text: str, **options: Any) -> AgentMemory:
        """Read the scratchpad whose `dump` gave `text`; `options` are those of the class. This archives nothing.

        >>> memory = AgentMemory()
        >>> memory.store("size", [2, 3]); memory.store("total", sum)
        >>> print(AgentMemory.load(memory.dump()).to_context())
        ## Working Memory
        <BLANKLINE>
        ### Stored Values
        - size: [2, 3]
        - Not kept over the restart: total (builtin_function_or_method)

        Raises:
            FormatError: The text is no dump, or one of a newer version.
        """
        state = read_dump(text)
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


class KeptScratchpad:
    """A scratchpad, `memory`, written to the journal at every update and by `keep`, after `redact`."""

    def __init__(self, archive: Archive, archiver: Archiver, redact: Redact | None = None) -> None:
        self._journal, self._redact = archive.journal, redact
        kept = self._journal.setting(SCRATCHPAD)
        self._kept = AgentMemory().dump() if kept is None else kept
        self.memory = AgentMemory.load(
            self._kept, max_observations=NOTED, max_failed_approaches=NOTED, archive=archiver, on_change=self.keep,
            counter=archive.counter,
        )  # fmt: skip

    def keep(self) -> None:
        """Write down what changed; values are held by reference, so that needs no update."""
        text = write_dump(self.memory._state(), self._redact)
        if text != self._kept:
            self._journal.keep({SCRATCHPAD: text})
            self._kept = text


def _check_variable(name: str) -> str:
    """Check and normalise a name as Python does in code (NFKC)."""
    check_str("name", name)
    key = unicodedata.normalize("NFKC", name)
    if not key.isidentifier() or keyword.iskeyword(key):
        raise InputError(f"name must be a Python identifier and no keyword, not {safe_repr(name)}")
    if key in OWN_NAMES or (key.startswith("__") and key.endswith("__")):
        raise InputError(f"the name {safe_repr(key)} is taken by the scratchpad or by Python: choose another")
    return key


def _check_bound(name: str, most: int | None) -> int | None:
    return None if most is None else check_non_negative_int(name, most)


def _pack(
    values: Sequence[str], observations: Sequence[str], failed: Sequence[str], room: int | None, counter: TokenCounter
) -> str:
    """Render the three sections in at most `room` tokens (None: whole); "" when nothing fits.

    The first line of each text is marked and the others are indented, so that none looks like a heading.
    """
    titles = ("Stored Values", "Observations", "Failed Approaches (avoid these)")
    sections = [[f"- {hanging(text)}" for text in texts] for texts in (values, observations, failed)]

    def render(leavers: Sequence[int] = ()) -> str:
        """Render the sections, without the oldest text of a section for each time that `leavers` names it."""
        gone, shown = Counter(leavers), ["## Working Memory"]
        for at, (title, items) in enumerate(zip(titles, sections, strict=True)):
            note = [f"({gone[at]} older left out)"] if gone[at] else []
            if items:
                shown.append("\n".join([f"### {title}", *note, *items[gone[at] :]]))
        return "\n\n".join(shown) if len(shown) > 1 else ""

    whole = render()
    if room is None or counter.count(whole) <= room:
        return whole
    sections = [
        [_shorten_item(item, text, room // 2, counter) for item, text in zip(items, texts, strict=True)]
        for items, texts in zip(sections, (values, observations, failed), strict=True)
    ]
    order = [1] * (len(observations) - 1) + [0] * len(values) + [2] * (len(failed) - 1)
    order += [1] * bool(observations) + [2] * bool(failed)  # the newest of either leave last
    fits = range(len(order) + 1)
    leaving = bisect_left(fits, True, key=lambda count: counter.count(render(order[:count])) <= room)
    return render(order[:leaving]) if leaving in fits else ""


def _shorten_item(item: str, text: str, room: int, counter: TokenCounter) -> str:
    """Cut the item of a text to head and tail if it has more than `room` tokens."""
    if 4 * len(item) <= room or counter.count(item) <= room:  # no character has more than four tokens
        return item
    return longest(lambda length: f"- {hanging(shorten(text, length))}", room, counter) or "- …"
