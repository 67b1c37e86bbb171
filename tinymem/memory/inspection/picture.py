"""draw_memory: a memory as bars to scale, in text that fits a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from tinymem.errors import InputError
from tinymem.memory.inspection.survey import NAME, EpisodeLine, Memory, SessionLine, StepLine, Tier, survey
from tinymem.steps.checks import whole_number
from tinymem.steps.terminal import Line, Shown, cells, fitted, many, padded, safe

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

__all__ = ["MemoryPicture", "draw_memory"]

WINDOW, SESSIONS, EPISODES = 16, 10, 8  # lines of each section at most, the newest
NARROW = 80  # columns where there is no terminal
BAR = "█"
LETTERS = {
    "system_prompt": "S", "task": "T", "planning": "P", "action": "A", "message": "M", "scratchpad": "N",
    "summary": "U", "final_answer": "F",
}  # fmt: skip
STYLES = {"fixed": "magenta", "window": "cyan", "archive": "blue", "session": "blue", "episode": "green"}


class _Row(NamedTuple):
    """A bar with a label before it and a note after it; `kind` chooses its colour."""

    label: str
    tokens: int
    note: str
    kind: str


def draw_memory(memory: Memory, width: int | None = None) -> MemoryPicture:
    r"""Draw a memory: tiers, window, sessions and episodes as bars. Nothing is embedded.

    The length of a bar is its tokens, on the scale that its section names. A long section shows its newest lines, and
    a line for the rest.

    >>> from tinymem import MemoryManager
    >>> window = MemoryManager("You are a careful engineer.")
    >>> step = window.add_message("user", "Find the slow query.")
    >>> print("\n".join(str(draw_memory(window, 60)).splitlines()[3:6]))
    tiers (one █ is 1 token)
    fixed   10  ██████████  1 step
    window   9  █████████   1 step

    Args:
        memory: A HierarchicalMemory or a MemoryManager.
        width: Columns of a line at most; those of the terminal unless given, 80 without one.

    Raises:
        InputError: It is no memory, or the width is below 1.
        ClosedError: The memory was closed.
    """
    if width is not None and whole_number("width", width) < 1:
        raise InputError("width must be 1 column or more, not 0")
    seen = survey(memory)
    sessions, (count, episodes) = seen.sessions(), seen.episodes(EPISODES)
    return MemoryPicture(
        kind=seen.kind,
        namespace=seen.stats.namespace if seen.stats else None,
        tiers=seen.tiers,
        window=seen.window(WINDOW),
        sessions=tuple(sessions[-SESSIONS:]),
        session_count=len(sessions),
        dates=_dates(sessions),
        episodes=episodes,
        episode_count=count,
        width=shutil.get_terminal_size((NARROW, 24)).columns if width is None else width,
    )


@dataclass(frozen=True, repr=False)
class MemoryPicture(Shown):
    """The picture that `draw_memory` returns: `str` gives it as text, and `rich.print` shows it with colours.

    `window`, `sessions` and `episodes` hold the newest, and the counts say how many there are in all.
    """

    kind: str
    namespace: str | None
    tiers: tuple[Tier, ...]
    window: tuple[StepLine, ...]
    sessions: tuple[SessionLine, ...]
    session_count: int
    dates: str
    episodes: tuple[EpisodeLine, ...]
    episode_count: int
    width: int

    def blocks(self) -> Iterable[Line]:
        """The lines of the picture, none wider than `width`."""
        for line in self._lines():
            yield _cut([(safe(text), style) for text, style in line], self.width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        fitting = replace(self, width=min(self.width, options.max_width))
        yield from Shown.__rich_console__(fitting, console, options)

    def _lines(self) -> Iterator[Line]:
        steps, tokens = sum(tier.steps for tier in self.tiers), sum(tier.tokens for tier in self.tiers)
        name = self.kind if self.namespace is None else f"{self.kind} {self.namespace}"
        yield [(name, "bold"), (f": {many(steps, 'step')}, {many(tokens, 'token')}", "")]
        if self.dates:
            yield [(self.dates, "dim")]
        yield from self._section("tiers", [_Row(t.name, t.tokens, many(t.steps, "step"), t.name) for t in self.tiers])
        held = [tier for tier in self.tiers if tier.name != "archive"]
        before = sum(tier.tokens for tier in held) - sum(step.tokens for step in self.window)
        rest = _rest(sum(tier.steps for tier in held) - len(self.window), "step", before)
        yield from self._section("window", map(self._step, self.window), rest)
        if self.session_count > 1 or any(one.session is not None for one in self.sessions):
            before = tokens - sum(one.tokens for one in self.sessions)
            rest = _rest(self.session_count - len(self.sessions), "session", before)
            yield from self._section("sessions", map(self._session, self.sessions), rest)
        rest = _rest(self.episode_count - len(self.episodes), "episode")
        yield from self._section("episodes", map(self._episode, self.episodes), rest)
        yield from self._legend()

    @staticmethod
    def _step(step: StepLine) -> _Row:
        pin = "*" if step.pinned else " "
        said = f"{step.who}: {step.words}" if step.who else step.words
        return _Row(f"{pin}{LETTERS.get(step.type, '?')} #{step.number}", step.tokens, said, step.tier)

    @staticmethod
    def _session(one: SessionLine) -> _Row:
        name = "(no session)" if one.session is None else fitted(safe(one.session), NAME)
        types = " ".join(f"{count}{LETTERS.get(kind, '?')}" for kind, count in one.types.items())
        return _Row(f"{one.first:%Y-%m-%d} {name}", one.tokens, f"{many(one.steps, 'step')}: {types}", "session")

    @staticmethod
    def _episode(one: EpisodeLine) -> _Row:
        return _Row(f"#{one.first} to #{one.last}", one.tokens, f"{many(one.steps, 'step')}: {one.words}", "episode")

    def _section(self, title: str, found: Iterable[_Row], rest: Sequence[Line] = ()) -> Iterator[Line]:
        """Draw the bars under their title, oldest first, on one scale, after the line for the `rest`."""
        rows = list(found)
        if not rows:
            return
        label = max(cells(safe(row.label)) for row in rows)
        number = max(len(f"{row.tokens:,}") for row in rows)
        room = max(1, (self.width - label - number - 4) * 2 // 5)
        scale = max(1, -(-max(row.tokens for row in rows) // room))
        longest = max(-(-row.tokens // scale) for row in rows)
        yield []
        yield [(title, "bold"), (f" (one {BAR} is {many(scale, 'token')})", "dim")]
        yield from rest
        for row in rows:
            bar = BAR * -(-row.tokens // scale)
            yield [
                (f"{padded(safe(row.label), label)}  {row.tokens:>{number},}  ", ""),
                (padded(bar, longest), STYLES.get(row.kind, "")),
                (f"  {row.note}", "dim"),
            ]

    def _legend(self) -> Iterator[Line]:
        types = {step.type for step in self.window}.union(*(one.types for one in self.sessions))
        if known := [f"{letter} {kind.replace('_', ' ')}" for kind, letter in LETTERS.items() if kind in types]:
            pin = ["* pinned"] if any(step.pinned for step in self.window) else []
            yield []
            yield [(", ".join([*known, *pin]), "dim")]


def _dates(sessions: Sequence[SessionLine]) -> str:
    """Render the days from the first to the last step; "" for none."""
    if not sessions:
        return ""
    first, last = min(one.first for one in sessions).date(), max(one.last for one in sessions).date()
    return f"{first}" if first == last else f"{first} to {last}"


def _rest(count: int, what: str, tokens: int | None = None) -> list[Line]:
    """Return a line for what is not shown, if there is any."""
    held = "" if tokens is None else f", {many(tokens, 'token')}"
    return [[(f"… {many(count, f'earlier {what}')}{held}", "dim")]] if count else []


def _cut(line: Line, width: int) -> Line:
    """Cut the line to `width`."""
    kept: list[tuple[str, str]] = []
    for text, style in line:
        kept.append((fitted(text, width), style))
        width -= cells(kept[-1][0])
    return kept
