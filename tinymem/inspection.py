"""What is in a memory, for people: debug_memory, a report in numbers, and visualize_memory, a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinymem.checks import whole_number
from tinymem.picture import MemoryPicture, visualize_memory
from tinymem.survey import Memory, StepLine, Tier, survey
from tinymem.terminal import Column, Line, Shown, Table, many

if TYPE_CHECKING:
    from tinymem.stats import Stats

__all__ = ["DebugReport", "MemoryPicture", "debug_memory", "visualize_memory"]

TIERS = (Column("tier", "bold"), Column("steps", right=True), Column("tokens", "cyan", right=True))
STEPS = (
    Column("step", "bold", right=True),
    Column("tier", "magenta"),
    Column("type"),
    Column("who", "green"),
    Column("tokens", "cyan", right=True),
    Column("length", right=True),
    Column("notes", "yellow"),
    Column("first words", "dim", yields=True),
)


@dataclass(frozen=True)
class DebugReport(Shown):
    """What `debug_memory` gives: `str` is the report as text, and `rich.print` shows it with tables and colours.

    `listed` are the newest steps. `path`, `stats` and `episodes` (how many) are None for a MemoryManager.
    """

    kind: str
    path: str | None
    tiers: tuple[Tier, ...]
    listed: tuple[StepLine, ...]
    episodes: int | None
    stats: Stats | None

    @property
    def steps(self) -> int:
        """How many steps the memory has."""
        return sum(tier.steps for tier in self.tiers)

    @property
    def tokens(self) -> int:
        """The tokens of all steps as sent."""
        return sum(tier.tokens for tier in self.tiers)

    def blocks(self) -> Iterator[Line | Table]:
        """The report: what the memory is, its tiers, its steps."""
        yield [(self.kind, "bold"), (f": {many(self.steps, 'step')}, {many(self.tokens, 'token')}", "")]
        for name, value in self._facts():
            yield [(f"{name:<10}", "dim"), (value, "")]
        yield []
        rows = [(tier.name, f"{tier.steps:,}", f"{tier.tokens:,}") for tier in self.tiers]
        yield Table(TIERS, rows)
        if self.listed:
            yield []
            yield Table(STEPS, [_row(step) for step in self.listed])
        if unlisted := max(0, self.steps - len(self.listed)):
            yield [(f"… {many(unlisted, 'earlier step')}, not listed", "dim")]

    def _facts(self) -> Iterator[tuple[str, str]]:
        if self.stats is not None:
            yield "path", self.path or ""
            yield "namespace", self.stats.namespace
            yield "embedder", self.stats.embedder
            yield "store", self.stats.store
            yield "passages", f"{self.stats.passages:,}"
            yield "waiting", f"{many(self.stats.waiting_steps, 'step')}, not cut into passages yet"
            yield "episodes", f"{self.episodes:,}"
            yield "on disk", f"{self.stats.bytes_on_disk:,} bytes"


def debug_memory(memory: Memory, *, steps: int = 50) -> DebugReport:
    """What `memory`, a HierarchicalMemory or a MemoryManager, holds: tokens by tier, and its newest `steps` one by one.

    Tokens are those of steps as sent, and add up to those of `stats()`: `fixed` is what every context holds (the newest
    system prompt, the current task, pinned steps), `window` the rest of the window, `archive` what left it. Nothing is
    embedded.

    >>> from tinymem import MemoryManager
    >>> window = MemoryManager("You are a careful engineer.")
    >>> step = window.add_message("user", "Find the slow query.")
    >>> print(debug_memory(window))
    MemoryManager: 2 steps, 19 tokens
    <BLANKLINE>
    tier    steps  tokens
    fixed       1      10
    window      1       9
    <BLANKLINE>
    step  tier    type           who   tokens  length  notes  first words
       0  fixed   system_prompt            10      27         You are a careful engineer.
       1  window  message        user       9      20         Find the slow query.

    Raises InputError for what is no memory, ClosedError for a memory that was closed.
    """
    whole_number("steps", steps)
    seen = survey(memory)
    episodes = None if seen.stats is None else seen.episodes(0)[0]
    return DebugReport(seen.kind, seen.path, seen.tiers, seen.newest(steps), episodes, seen.stats)


def _row(step: StepLine) -> tuple[str, ...]:
    notes = ", ".join(name for name in ("pinned", "shortened") if getattr(step, name))
    tokens, length = f"{step.tokens:,}", f"{step.characters:,}"
    return str(step.number), step.tier, step.type, step.who, tokens, length, notes, step.words
