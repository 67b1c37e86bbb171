"""The content of a memory in numbers and first words, read from a window or a journal; nothing is embedded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from tinymem.errors import InputError
from tinymem.memory.context.window import fixed_steps
from tinymem.steps.actions import ActionStep
from tinymem.steps.ids import moment
from tinymem.steps.serialization import load_step
from tinymem.steps.step import Step
from tinymem.steps.terminal import first_words
from tinymem.steps.types import MessageStep
from tinymem.window.manager import MemoryManager

if TYPE_CHECKING:
    from tinymem.archive.episodes import Episode
    from tinymem.archive.stats import Stats
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.protocols import StepRow

__all__ = ["EpisodeLine", "Memory", "SessionLine", "StepLine", "Survey", "Tier", "line_values", "survey"]

Memory: TypeAlias = "HierarchicalMemory | MemoryManager"
Tallied: TypeAlias = tuple[str | None, str, int, int, float, float]  # as `Journal.tally` gives them

WORDS = 60  # cells of a step's first words
NAME = 24  # cells of a speaker, a tool or a session


@dataclass(frozen=True)
class Tier:
    """The size of a tier: `"fixed"` (in every context), the rest of the `"window"`, or the `"archive"`."""

    name: str
    steps: int
    tokens: int


@dataclass(frozen=True)
class StepLine:
    """A step in short.

    `tokens` (as sent) and `characters` are those of the whole step, also if the window has it `shortened`, or a summary
    in its place. `who` is its speaker or role, and the tools that it calls.
    """

    number: int
    tier: str
    type: str
    who: str
    tokens: int
    characters: int
    pinned: bool
    shortened: bool
    words: str


@dataclass(frozen=True)
class SessionLine:
    """A session: the times of its first and last step, and its number of steps of each type, most frequent first."""

    session: str | None
    first: datetime
    last: datetime
    steps: int
    tokens: int
    types: dict[str, int]


@dataclass(frozen=True)
class EpisodeLine:
    """An episode: the steps `first` to `last`, as far as they are archived, and the beginning of its summary."""

    first: int
    last: int
    session: str | None
    steps: int
    tokens: int
    words: str


class Survey:
    """The content of a memory: of a MemoryManager its window. `stats` and `path` are those of a HierarchicalMemory."""

    path: str | None = None
    stats: Stats | None = None

    def __init__(self, memory: Memory, window: Sequence[Step], tokens: Mapping[str, int]) -> None:
        """Survey `memory`; `tokens` has those of the steps in the window, by id."""
        self.kind = type(memory).__name__
        self._window, self._tokens = window, tokens
        self._fixed = {step.id for step in fixed_steps(window)} & tokens.keys()

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The tiers; every step is in one of them."""
        fixed = Tier("fixed", len(self._fixed), sum(self._tokens[id] for id in self._fixed))
        steps, tokens = len(self._tokens), sum(self._tokens.values())
        return fixed, Tier("window", steps - fixed.steps, tokens - fixed.tokens)

    def newest(self, most: int) -> tuple[StepLine, ...]:
        """Return the newest steps, at most so many, in order."""
        return self.window(most)

    def window(self, most: int) -> tuple[StepLine, ...]:
        """Return the newest steps of the window, fixed ones too, at most so many, in order."""
        shown = self._window[max(0, len(self._window) - most) :]
        return tuple(self._line(step, self._tokens[step.id]) for step in shown)

    def sessions(self) -> list[SessionLine]:
        """Return all sessions, in the order in which they began."""
        times = ((step, step.timestamp.timestamp()) for step in self._window)
        return _sessions((step.session, step.type, 1, self._tokens[step.id], time, time) for step, time in times)

    def episodes(self, most: int) -> tuple[int, tuple[EpisodeLine, ...]]:
        """Count the episodes; return the newest too, at most so many, in order."""
        return 0, ()

    def _line(self, step: Step, tokens: int, shortened: bool = False) -> StepLine:
        tier = "fixed" if step.id in self._fixed else "window" if step.id in self._tokens else "archive"
        return StepLine(**line_values(step, tier, tokens, shortened))


class _OfJournal(Survey):
    """The content of a HierarchicalMemory."""

    def __init__(self, memory: HierarchicalMemory) -> None:
        self.path, self.stats = str(memory.path), memory.stats()
        self._held = self.stats.steps, self.stats.tokens
        self._journal, self._episodes = memory.long_term.journal, memory.medium_term
        self._rows = self._journal.window()
        super().__init__(memory, memory.short_term.steps, {row.id: row.tokens for row in self._rows})

    @property
    def tiers(self) -> tuple[Tier, ...]:
        steps, tokens = self._held
        return *super().tiers, Tier("archive", steps - len(self._tokens), tokens - sum(self._tokens.values()))

    def newest(self, most: int) -> tuple[StepLine, ...]:
        return self._lines(self._journal.newest(most)[::-1])

    def window(self, most: int) -> tuple[StepLine, ...]:
        return self._lines(self._rows[max(0, len(self._rows) - most) :])

    def _lines(self, rows: Sequence[StepRow]) -> tuple[StepLine, ...]:
        return tuple(self._line(load_step(row.record), row.tokens, row.view is not None) for row in rows)

    def sessions(self) -> list[SessionLine]:
        return _sessions(self._journal.tally())

    def episodes(self, most: int) -> tuple[int, tuple[EpisodeLine, ...]]:
        every = self._episodes.known()
        return len(every), tuple(map(self._episode, every[max(0, len(every) - most) :]))

    def _episode(self, episode: Episode) -> EpisodeLine:
        rows = self._journal.outline(episode.first - 1, episode.last)
        archived = [row.tokens for row in rows if not row.window]
        words = first_words(episode.summary, WORDS)
        return EpisodeLine(episode.first, episode.last, episode.session, len(archived), sum(archived), words)


def survey(memory: Memory) -> Survey:
    """Survey `memory`. Raises InputError for what is no memory, ClosedError for one that was closed."""
    if isinstance(memory, MemoryManager):
        steps, counted = memory.steps, memory.step_tokens()  # a step that another thread adds now counts 0
        return Survey(memory, steps, {step.id: counted.get(step.id, 0) for step in steps})
    from tinymem.memory.hierarchy import HierarchicalMemory  # a window alone needs none of it

    if isinstance(memory, HierarchicalMemory):
        return _OfJournal(memory)
    raise InputError(f"memory must be a HierarchicalMemory or a MemoryManager, not {type(memory).__name__}")


def line_values(step: Step, tier: str, tokens: int, shortened: bool, words: int = WORDS) -> dict[str, Any]:
    """Return the fields of a StepLine, with first words of at most so many cells."""
    text = step.text
    return {
        "number": step.step_number or 0,
        "tier": tier,
        "type": step.type,
        "who": first_words(_who(step), NAME),
        "tokens": tokens,
        "characters": len(text),
        "pinned": step.pinned,
        "shortened": shortened,
        "words": first_words(text, words),
    }


def _who(step: Step) -> str:
    """Name the speaker, and the tools that were called."""
    if isinstance(step, ActionStep):
        tools = ", ".join(dict.fromkeys(call.name for call in step.tool_calls))
        did = tools or ("code" if step.code is not None else "")
        return ": ".join(filter(None, (step.speaker, did)))
    return step.speaker or (step.role if isinstance(step, MessageStep) else "")


def _sessions(rows: Iterable[Tallied]) -> list[SessionLine]:
    found: dict[str | None, list[Tallied]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return [_session(session, own) for session, own in found.items()]


def _session(session: str | None, rows: Sequence[Tallied]) -> SessionLine:
    _, kinds, counts, tokens, first, last = zip(*rows, strict=True)
    types: Counter[str] = Counter()
    for kind, count in zip(kinds, counts, strict=True):
        types[kind] += count
    shown = dict(types.most_common())
    return SessionLine(session, moment(min(first)), moment(max(last)), sum(counts), sum(tokens), shown)
