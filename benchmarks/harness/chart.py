"""Line charts as SVG, drawn by matplotlib (extra `plots`); a file says which figures it was drawn from."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from math import dist
from typing import TYPE_CHECKING, Any, TypeAlias

from tinymem.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Chart", "Panel", "evenly", "merged", "spread"]

Points: TypeAlias = Sequence[tuple[float, float] | None]  # place, in ticks, and value, 0 to 1; None where there is none
Panel: TypeAlias = tuple[str, Mapping[str, Points]]  # title, and a line of points a name
COLOURS = (
    "#1f6feb", "#54aeff", "#d1242f", "#8250df", "#bf8700", "#57606a",
    "#1a7f37", "#e16f24", "#0a7ea4", "#bf3989", "#6e4b1f", "#4ac26b",
)  # fmt: skip
SAME = 0.012  # lines whose points are nowhere further apart lie on each other
GAP = 0.05  # between the labels of two lines
WIDTH, HEIGHT, LEGEND = 5.2, 3.4, 0.25  # inches of a panel, and of a line of the legend
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "tinymem", "font.family": "sans-serif", "font.size": 9}


@dataclass(frozen=True)
class Chart:
    """Panels side by side, `across` in a row (all of them unless given), with one legend; the lines `thick` stand out.

    Lines that lie on each other in every panel are drawn as one, which has the names of all.

    Attributes:
        panels: A title, and lines by name, for each.
        ticks: Names of the places 0, 1, 2 and so on.
        x_title: The title of the horizontal axes.
        y_title: The title of the vertical axes.
        across: Panels in a row.
        thick: Names of lines that stand out.
    """

    panels: Sequence[Panel]
    ticks: Sequence[str]
    x_title: str
    y_title: str
    across: int | None = None
    thick: Collection[str] = field(default=())

    @property
    def digest(self) -> str:
        """The hash of all that is drawn, which stands in the file."""
        drawn = [self.panels, self.ticks, self.x_title, self.y_title, self.across, sorted(self.thick)]
        return f"figures {hashlib.sha256(json.dumps(drawn).encode()).hexdigest()[:16]}"

    def svg(self) -> str:
        """Draw the chart. Raises MissingExtraError without matplotlib."""
        try:
            import matplotlib
            from matplotlib.figure import Figure
        except ImportError as error:
            raise MissingExtraError("a plot", "plots") from error
        groups = sorted(merged(self.panels), key=lambda group: not set(group) & set(self.thick))
        across = max(1, min(self.across or len(self.panels), len(self.panels)))
        rows = -(-len(self.panels) // across)
        legend = LEGEND * -(-len(groups) // across) + 0.2
        out = io.StringIO()
        with matplotlib.rc_context(SETTINGS):
            figure = Figure(figsize=(WIDTH * across, HEIGHT * rows + legend), layout="constrained")
            axes = figure.subplots(rows, across, squeeze=False).ravel()
            for at, (title, lines) in zip(axes, self.panels, strict=False):
                self._draw(at, title, lines, groups)
            for at in axes[len(self.panels) :]:
                at.axis("off")
            found: dict[str, Any] = {}
            for at in axes:
                found |= {label: line for line, label in zip(*at.get_legend_handles_labels(), strict=True)}
            names = [_joined(group) for group in groups]
            figure.legend(
                [found[name] for name in names], names, loc="outside lower center", ncols=across, frameon=False
            )
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Description": self.digest})
        return out.getvalue()

    def _draw(self, axes: Axes, title: str, lines: Mapping[str, Points], groups: Sequence[Sequence[str]]) -> None:
        axes.set_title(title)
        axes.set_ylim(0, 1.02)
        first = min((point[0] for points in lines.values() for point in points if point), default=0.0)
        axes.set_xlim(min(first, 0) - 0.1, len(self.ticks) - 1 + 0.1)
        axes.set_xticks(range(len(self.ticks)), self.ticks)
        axes.set_xlabel(self.x_title)
        axes.set_ylabel(self.y_title)
        axes.grid(axis="y", color="#d8dee4")
        axes.spines[["top", "right"]].set_visible(False)
        ends: dict[str, tuple[float, str]] = {}
        for group, colour in zip(groups, cycle(COLOURS), strict=False):
            shown = [name for name in group if name in lines]
            if not shown:
                continue
            points = [point for point in lines[shown[0]] if point is not None]
            width = 3.0 if set(group) & set(self.thick) else 1.6
            axes.plot(*zip(*points, strict=True), color=colour, linewidth=width, marker=".", label=_joined(group))
            more = f" and {len(shown) - 1} more" if shown[1:] else ""
            ends[f"{shown[0]}{more}"] = points[-1][1], colour
        for name, height in spread({name: end for name, (end, _) in ends.items()}).items():
            place = (len(self.ticks) - 1 + 0.12, height)
            axes.annotate(name, place, color=ends[name][1], fontsize=8, va="center", annotation_clip=False)


def evenly(values: Sequence[float | None]) -> Points:
    """Return a point at each tick.

    >>> evenly([0.5, None, 0.8])
    [(0, 0.5), None, (2, 0.8)]
    """
    return [None if value is None else (place, value) for place, value in enumerate(values)]


def merged(panels: Sequence[Panel]) -> list[list[str]]:
    """Group the names of lines that lie on each other, in every panel that has both and in one at least.

    >>> merged([("a set", {"one": evenly([0.5, 0.8]), "same": evenly([0.5, 0.805]), "other": evenly([0.1, 0.2])})])
    [['one', 'same'], ['other']]
    """
    groups: list[list[str]] = []
    for name in dict.fromkeys(name for _, lines in panels for name in lines):
        home = next((group for group in groups if all(_lie_together(panels, name, one) for one in group)), None)
        if home is None:
            groups.append([name])
        else:
            home.append(name)
    return groups


def _lie_together(panels: Sequence[Panel], name: str, other: str) -> bool:
    both = [(lines[name], lines[other]) for _, lines in panels if name in lines and other in lines]
    pairs = [pair for points in both for pair in zip(*points, strict=True)]
    return bool(both) and all(
        one is other or (one is not None and other is not None and dist(one, other) <= SAME) for one, other in pairs
    )


def _joined(names: Sequence[str]) -> str:
    """Return the names as one, with what stands in brackets behind all of them once: `a, b (x)`."""
    heads, behind = zip(*(name.partition(" (")[::2] for name in names), strict=True)
    return ", ".join(names) if len({*behind}) > 1 or not behind[0] else f"{', '.join(heads)} ({behind[0]}"


def spread(ends: Mapping[str, float]) -> dict[str, float]:
    """Return the heights of labels, near the ends of their lines and never closer to each other than GAP.

    >>> spread({"low": 0.1, "high": 0.9})
    {'low': 0.1, 'high': 0.9}
    """
    placed: dict[str, float] = {}
    lowest = 0.0
    for name in sorted(ends, key=lambda name: ends[name]):
        placed[name] = max(ends[name], lowest)
        lowest = placed[name] + GAP
    highest = 1.0
    for name in reversed([*placed]):
        placed[name] = min(placed[name], highest)
        highest = placed[name] - GAP
    return placed
