"""One report of a memory, for people: tiers, sessions, episodes and steps, as text and as tables of rich.

What a report holds is read from a window or a journal in one place; nothing is embedded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from tinymem.errors import InputError
from tinymem.memory.context.window import fixed_steps
from tinymem.memory.inspection.lines import (
    NAME,
    WORDS,
    EpisodeLine,
    SessionLine,
    StepLine,
    Tier,
    episode_line,
    session_lines,
    step_line,
    tier_lines,
)
from tinymem.protocols import StepRow
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.content import as_text
from tinymem.steps.step import load_step
from tinymem.steps.terminal import Column, Line, ShownText, first_words, pluralize, table_of
from tinymem.window.manager import MemoryManager

if TYPE_CHECKING:
    from rich.table import Table

    from tinymem.archive.stats import Stats
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["MemoryReport", "debug_memory", "report_of", "visualize_memory"]

Memory: TypeAlias = "HierarchicalMemory | MemoryManager"
Row: TypeAlias = Mapping[str, str | int]  # cells by the titles of their columns

LISTED = 50  # steps of a report, unless it is said how many
TIERS = ("fixed", "window", "archive")
SESSIONS, EPISODES = 10, 8  # shown at most, the newest
NAMES = ("session", "who")  # columns that are cut where there is too little room, as dim texts are
STYLES = {"step": "bold", "tier": "magenta", "session": "green", "episode": "green", "who": "green", "tokens": "cyan",
          "notes": "yellow", "summary": "dim", "first words": "dim"}  # fmt: skip


@dataclass(frozen=True, repr=False)
class MemoryReport(ShownText):
    """A report of a memory: `str` gives it as text, and `rich.print` shows it with tables and colours.

    Attributes:
        kind: The name of the memory's class.
        tokens: Those of the window as it is sent, `count_tokens(memory.to_messages())`.
        tiers: The tiers; every step is in one of them.
        listed: The newest steps.
        sessions: All sessions, in the order in which they began.
        episodes: The newest episodes.
        episode_count: The number of all episodes.
        path: The place of the memory; None for a MemoryManager.
        stats: Its numbers; None for a MemoryManager.
    """

    kind: str
    tokens: int
    tiers: tuple[Tier, ...]
    listed: tuple[StepLine, ...]
    sessions: tuple[SessionLine, ...] = ()
    episodes: tuple[EpisodeLine, ...] = ()
    episode_count: int = 0
    path: str | None = None
    stats: Stats | None = None

    @property
    def steps(self) -> int:
        """The number of steps in the memory."""
        return sum(tier.steps for tier in self.tiers)

    def record(self) -> dict[str, Any]:
        """Return the report as values, for JSON."""
        return {"steps": self.steps} | asdict(self)

    def blocks(self) -> Iterator[Line | Table]:
        """Yield the report: the memory, its tiers, sessions, episodes and steps."""
        sizes = f": {pluralize(self.steps, 'step')}, {pluralize(self.tokens, 'token')} as sent"
        yield [(self.kind, "bold"), (sizes, "")]
        for name, value in self._facts().items():
            yield [(f"{name:<10}", "dim"), (value, "")]
        yield from self._section(map(_tier_row, self.tiers))
        if any(line.session is not None for line in self.sessions):
            yield from self._section(map(_session_row, self.sessions[-SESSIONS:]))
            yield from _rest(len(self.sessions) - SESSIONS, "earlier session")
        yield from self._section(map(_episode_row, self.episodes))
        yield from _rest(self.episode_count - len(self.episodes), "earlier episode")
        yield from self._section(map(_step_row, self.listed))
        yield from _rest(self.steps - len(self.listed), "earlier step")

    def _facts(self) -> dict[str, str]:
        if self.stats is None:
            return {}
        return {
            "path": self.path or "",
            "namespace": self.stats.namespace,
            "embedder": self.stats.embedder,
            "store": self.stats.store,
            "passages": f"{self.stats.passages:,}",
            "waiting": f"{pluralize(self.stats.waiting_steps, 'step')}, not embedded yet",
            "episodes": f"{self.episode_count:,}",
            "on disk": f"{self.stats.bytes_on_disk:,} bytes",
        }

    @staticmethod
    def _section(found: Iterable[Row]) -> Iterator[Line | Table]:
        """Yield rows as a table."""
        rows = list(found)
        if rows:
            yield []
            yield table_of([_column(*cell) for cell in rows[0].items()], map(_cells, rows))


def _column(title: str, value: str | int) -> Column:
    """Return the column of a title: numbers stand to the right, and texts are cut."""
    style, right = STYLES.get(title, ""), title == "step" or isinstance(value, int)
    return Column(title, style, right, "cut" if style == "dim" or title in NAMES else "kept")


def _cells(row: Row) -> list[str]:
    return [f"{value:,}" if isinstance(value, int) else value for value in row.values()]


def _tier_row(tier: Tier) -> Row:
    return {"tier": tier.name, "steps": tier.steps, "tokens": tier.tokens}


def _session_row(line: SessionLine) -> Row:
    return {
        "session": "(none)" if line.session is None else first_words(line.session, NAME),
        "first": f"{line.first:%Y-%m-%d}",
        "last": f"{line.last:%Y-%m-%d}",
        "steps": line.steps,
        "tokens": line.tokens,
    }


def _episode_row(line: EpisodeLine) -> Row:
    steps = f"#{line.first} to #{line.last}"
    return {"episode": steps, "steps": line.steps, "tokens": line.tokens, "summary": line.words}


def _step_row(line: StepLine) -> Row:
    notes = ["pinned"] * line.pinned + ["shortened"] * line.shortened
    return {
        "step": str(line.number),
        "tier": line.tier,
        "type": line.type,
        "who": line.who,
        "tokens": line.tokens,
        "length": line.characters,
        "notes": ", ".join(notes),
        "first words": line.words,
    }


def _rest(count: int, what: str) -> Iterator[Line]:
    if count > 0:
        yield [(f"… {pluralize(count, what)}, not listed", "dim")]


# -- the reports ------------------------------------------------------------------------------------------------------


def debug_memory(memory: Memory, *, steps: int = LISTED) -> MemoryReport:
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


def visualize_memory(memory: Memory) -> str:
    """List the steps of a memory's window, a line for each, under a heading.

    >>> from tinymem import ActionStep, MemoryManager, TaskStep
    >>> memory = MemoryManager()
    >>> steps = memory.add_steps([TaskStep("Find it."), ActionStep(tool_name="grep", observation="two")])
    >>> print(visualize_memory(memory))
    MemoryManager: 2 steps, 25 tokens as sent
       0  TaskStep: Find it.
       1  ActionStep (obs: 3 chars): grep({}) two

    Raises:
        InputError: It is no memory.
        ClosedError: The memory was closed.
    """
    heading, *_ = str(report_of(memory, 0)).splitlines()
    lines = [heading]
    for step in memory.steps:
        observation = step.observation if isinstance(step, ActionStep) else None
        size = "" if observation is None else f" (obs: {len(as_text(observation)):,} chars)"
        words = first_words(step.text, WORDS)
        lines.append(f"{step.step_number:>4}  {type(step).__name__}{size}{f': {words}' if words else ''}")
    return "\n".join(lines)


# -- reading ----------------------------------------------------------------------------------------------------------


def report_of(memory: Memory, steps: int = LISTED) -> MemoryReport:
    """Read what a report says of a memory, with its newest `steps`.

    Raises:
        InputError: It is no memory.
        ClosedError: The memory was closed.
    """
    check_non_negative_int("steps", steps)
    kind = type(memory).__name__
    if isinstance(memory, MemoryManager):
        shown, tokens = memory.steps, memory.step_tokens()
        rows = [  # as a journal would have them; 0 tokens for one that another thread adds now
            StepRow(
                step.step_number or 0,
                step.id,
                step.type,
                step.session,
                step.speaker,
                step.timestamp.timestamp(),
                tokens.get(step.id, 0),
                0,
                "",
            )
            for step in shown
        ]
        fixed = {step.id for step in fixed_steps(shown)}
        first = max(0, len(rows) - steps)
        listed = tuple(map(step_line, rows[first:], shown[first:], repeat(fixed)))
        return MemoryReport(kind, memory.tokens, tier_lines(rows, fixed, TIERS[:2]), listed, session_lines(rows))
    from tinymem.memory.hierarchy import HierarchicalMemory  # a window alone needs none of it

    if not isinstance(memory, HierarchicalMemory):
        raise InputError(f"memory must be a HierarchicalMemory or a MemoryManager, not {kind}")
    stats, journal, episodes = memory.stats(), memory.long_term.journal, memory.medium_term.known()
    rows, fixed = journal.rows(texts=False), {step.id for step in fixed_steps(memory.short_term.steps)}
    found = journal.rows(limit=steps, newest=True)[::-1]
    return MemoryReport(
        kind,
        memory.tokens,
        tier_lines(rows, fixed, TIERS),
        tuple(step_line(row, load_step(row.record), fixed) for row in found),
        session_lines(rows),
        tuple(episode_line(memory, episode) for episode in episodes[-EPISODES:]),
        len(episodes),
        str(memory.path),
        stats,
    )
