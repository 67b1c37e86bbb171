"""The lines of a report: a tier, a step, a session or an episode in short, as a window or a journal has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tinymem.protocols import StepRow
from tinymem.steps.actions import ActionStep
from tinymem.steps.ids import moment
from tinymem.steps.step import Step
from tinymem.steps.terminal import first_words
from tinymem.steps.types import MessageStep

if TYPE_CHECKING:
    from tinymem.archive.episodes import Episode
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["NAME", "WORDS", "EpisodeLine", "SessionLine", "StepLine", "Tier", "episode_line",
           "session_lines", "step_line", "tier_lines"]  # fmt: skip

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
    in its place. `who` is its speaker or role, and the tools that it calls. `left` is when it left the window: None
    while it is in it, and where that was not noted.
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
    id: str
    session: str | None
    time: datetime
    left: datetime | None = None
    milestone: bool = False


@dataclass(frozen=True)
class SessionLine:
    """A session: the times of its first and last step, its number of steps, and their tokens."""

    session: str | None
    first: datetime
    last: datetime
    steps: int
    tokens: int


@dataclass(frozen=True)
class EpisodeLine:
    """An episode: the steps `first` to `last`, as far as they are archived, and the beginning of its summary."""

    first: int
    last: int
    session: str | None
    steps: int
    tokens: int
    words: str


def tier_lines(rows: Sequence[StepRow], fixed: Collection[str], names: Sequence[str]) -> tuple[Tier, ...]:
    """Sum up the tiers with these names; `fixed` are the ids of the steps that every context holds."""
    tokens: dict[str, list[int]] = {name: [] for name in names}
    for row in rows:
        tokens[_tier_of(row, fixed)].append(row.tokens)
    return tuple(Tier(name, len(found), sum(found)) for name, found in tokens.items())


def _tier_of(row: StepRow, fixed: Collection[str]) -> str:
    if not row.window:
        return "archive"
    return "fixed" if row.id in fixed else "window"


def step_line(row: StepRow, step: Step, fixed: Collection[str], words: int = WORDS) -> StepLine:
    """Return a step in short, with first words of at most so many cells."""
    text = step.text
    return StepLine(
        number=row.number,
        tier=_tier_of(row, fixed),
        type=row.type,
        who=first_words(_who(step), NAME),
        tokens=row.tokens,
        characters=len(text),
        pinned=step.pinned,
        shortened=row.view is not None,
        words=first_words(text, words),
        id=row.id,
        session=step.session,
        time=step.timestamp,
        left=None if row.archived is None else moment(row.archived),
        milestone=bool(row.milestone),
    )


def _who(step: Step) -> str:
    """Name the speaker, and the tools that were called."""
    if isinstance(step, ActionStep):
        tools = ", ".join(dict.fromkeys(call.name for call in step.tool_calls))
        did = tools or ("code" if step.code is not None else "")
        return ": ".join(filter(None, (step.speaker, did)))
    return step.speaker or (step.role if isinstance(step, MessageStep) else "")


def session_lines(rows: Iterable[StepRow]) -> tuple[SessionLine, ...]:
    """Sum up the sessions, in the order in which they began."""
    by_session: dict[str | None, list[StepRow]] = {}
    for row in rows:
        by_session.setdefault(row.session, []).append(row)
    return tuple(_session_line(session, found) for session, found in by_session.items())


def _session_line(session: str | None, rows: Sequence[StepRow]) -> SessionLine:
    times = [row.time for row in rows]
    tokens = sum(row.tokens for row in rows)
    return SessionLine(session, moment(min(times)), moment(max(times)), len(rows), tokens)


def episode_line(memory: HierarchicalMemory, episode: Episode) -> EpisodeLine:
    """Return an episode in short."""
    rows = memory.long_term.journal.rows(episode.first - 1, before=episode.last + 1, window=False, texts=False)
    tokens, words = sum(row.tokens for row in rows), first_words(episode.summary, WORDS)
    return EpisodeLine(episode.first, episode.last, episode.session, len(rows), tokens, words)
