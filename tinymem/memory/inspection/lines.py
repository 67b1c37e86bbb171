"""The lines of a report: a tier, a step, a session or an episode in short, as a window or a journal has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
           "row_line", "session_lines", "step_line", "window_tiers"]  # fmt: skip

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


def window_tiers(fixed: Collection[str], tokens: Mapping[str, int]) -> tuple[Tier, Tier]:
    """Return the tiers of a window of which these steps are fixed; `tokens` has those of all."""
    first = Tier("fixed", len(fixed), sum(tokens[id] for id in fixed))
    return first, Tier("window", len(tokens) - first.steps, sum(tokens.values()) - first.tokens)


def step_line(step: Step, tier: str, tokens: int, shortened: bool, words: int = WORDS) -> StepLine:
    """Return a step in short, with first words of at most so many cells."""
    text = step.text
    return StepLine(
        number=step.step_number or 0,
        tier=tier,
        type=step.type,
        who=first_words(_who(step), NAME),
        tokens=tokens,
        characters=len(text),
        pinned=step.pinned,
        shortened=shortened,
        words=first_words(text, words),
        id=step.id,
        session=step.session,
        time=step.timestamp,
    )


def row_line(row: StepRow, step: Step, is_fixed: bool, words: int = WORDS) -> StepLine:
    """Return the step of a row in a journal in short."""
    tier = ("fixed" if is_fixed else "window") if row.window else "archive"
    line = step_line(step, tier, row.tokens, row.view is not None, words)
    left = None if row.archived is None else moment(row.archived)
    return replace(line, left=left, milestone=bool(row.milestone))


def _who(step: Step) -> str:
    """Name the speaker, and the tools that were called."""
    if isinstance(step, ActionStep):
        tools = ", ".join(dict.fromkeys(call.name for call in step.tool_calls))
        did = tools or ("code" if step.code is not None else "")
        return ": ".join(filter(None, (step.speaker, did)))
    return step.speaker or (step.role if isinstance(step, MessageStep) else "")


def session_lines(steps: Iterable[tuple[str | None, str, int, float]]) -> tuple[SessionLine, ...]:
    """Sum up the sessions, in the order in which they began; of each step its session, type, tokens and time."""
    by_session: dict[str | None, list[tuple[str, int, float]]] = {}
    for session, type, tokens, time in steps:
        by_session.setdefault(session, []).append((type, tokens, time))
    return tuple(_session_line(session, found) for session, found in by_session.items())


def _session_line(session: str | None, steps: Sequence[tuple[str, int, float]]) -> SessionLine:
    types, tokens, times = zip(*steps, strict=True)
    counted = dict(Counter(types).most_common())
    return SessionLine(session, moment(min(times)), moment(max(times)), len(steps), sum(tokens), counted)


def episode_line(memory: HierarchicalMemory, episode: Episode) -> EpisodeLine:
    """Return an episode in short."""
    rows = memory.long_term.journal.rows(episode.first - 1, before=episode.last + 1, window=False, texts=False)
    tokens = [row.tokens for row in rows]
    words = first_words(episode.summary, WORDS)
    return EpisodeLine(episode.first, episode.last, episode.session, len(tokens), sum(tokens), words)
