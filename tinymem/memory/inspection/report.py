"""Reports of a memory, for people: its numbers, and its steps as a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinymem.memory.inspection.survey import Memory, StepLine, Tier, survey
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import whole_number
from tinymem.steps.content import as_text
from tinymem.steps.step import Step
from tinymem.steps.terminal import Column, Line, Shown, Table, first_words, many

if TYPE_CHECKING:
    from tinymem.archive.stats import Stats

__all__ = ["DebugReport", "debug_memory", "report_of", "visualize_memory"]

WORDS = 60  # cells of a step's first words
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


@dataclass(frozen=True, repr=False)
class DebugReport(Shown):
    """The report of `debug_memory`: `str` gives it as text, and `rich.print` shows it with tables and colours.

    `tokens` counts the window as it is sent, `count_tokens(memory.to_messages())`; `listed` has the newest steps.
    `path`, `stats` and `episodes` (their number) are None for a MemoryManager.
    """

    kind: str
    tokens: int
    path: str | None
    tiers: tuple[Tier, ...]
    listed: tuple[StepLine, ...]
    episodes: int | None
    stats: Stats | None

    @property
    def steps(self) -> int:
        """The number of steps in the memory."""
        return sum(tier.steps for tier in self.tiers)

    def blocks(self) -> Iterator[Line | Table]:
        """Yield the report: the memory, its tiers, its steps."""
        yield [(self.kind, "bold"), (f": {many(self.steps, 'step')}, {many(self.tokens, 'token')} as sent", "")]
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
    """Print how many tokens each tier of a memory has, and its newest `steps` one by one; return the report too.

    The tiers are `fixed`, the part that every context holds (the newest system prompt, the current task, pinned
    steps), the rest of the `window`, and the `archive`. Nothing is embedded.

    >>> from tinymem import MemoryManager
    >>> window = MemoryManager("You are a careful engineer.")
    >>> step = window.add_message("user", "Find the slow query.")
    >>> report = debug_memory(window)
    MemoryManager: 2 steps, 22 tokens as sent
    <BLANKLINE>
    tier    steps  tokens
    fixed       1      10
    window      1       9
    <BLANKLINE>
    step  tier    type           who   tokens  length  notes  first words
       0  fixed   system_prompt            10      27         You are a careful engineer.
       1  window  message        user       9      20         Find the slow query.

    Args:
        memory: A HierarchicalMemory, a MemoryManager or an AdaptiveMemoryManager.
        steps: How many steps to list.

    Raises:
        InputError: It is no memory.
        ClosedError: The memory was closed.
    """
    report = report_of(memory, steps)
    print(report)  # noqa: T201 (it is what was asked for)
    return report


def report_of(memory: Memory, steps: int = 50) -> DebugReport:
    """Make the report that `debug_memory` prints."""
    whole_number("steps", steps)
    seen = survey(memory)
    episodes = None if seen.stats is None else seen.episodes(0)[0]
    return DebugReport(seen.kind, memory.tokens, seen.path, seen.tiers, seen.newest(steps), episodes, seen.stats)


def visualize_memory(memory: Memory) -> str:
    """List the steps of a memory's window, a line for each, under a heading.

    >>> from tinymem import ActionStep, MemoryManager, TaskStep
    >>> memory = MemoryManager()
    >>> steps = memory.add_steps([TaskStep("Find it."), ActionStep(tool_name="grep", observation="two")])
    >>> print(visualize_memory(memory))
    MemoryManager: 2 steps, 25 tokens
       0  TaskStep: Find it.
       1  ActionStep (obs: 3 chars): grep({}) two

    Raises:
        InputError: It is no memory.
        ClosedError: The memory was closed.
    """
    tiers = {tier.name: tier for tier in survey(memory).tiers}
    total = sum(tier.steps for tier in tiers.values())
    lines = [f"{type(memory).__name__}: {many(total, 'step')}, {many(memory.tokens, 'token')}"]
    if "archive" in tiers and tiers["archive"].steps:
        lines.append(f"      {many(tiers['archive'].steps, 'step')} in the archive")
    return "\n".join([*lines, *map(_listed, memory.steps)])


def _listed(step: Step) -> str:
    observation = step.observation if isinstance(step, ActionStep) else None
    seen = "" if observation is None else f" (obs: {len(as_text(observation)):,} chars)"
    words = first_words(step.text, WORDS)
    return f"{step.step_number:>4}  {type(step).__name__}{seen}{f': {words}' if words else ''}"


def _row(step: StepLine) -> tuple[str, ...]:
    notes = ", ".join(name for name in ("pinned", "shortened") if getattr(step, name))
    tokens, length = f"{step.tokens:,}", f"{step.characters:,}"
    return str(step.number), step.tier, step.type, step.who, tokens, length, notes, step.words
