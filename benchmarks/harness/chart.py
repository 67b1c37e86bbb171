"""Line charts as SVG text: no library, and the same figures give the same file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape

__all__ = ["Panel", "line_charts"]

Panel = tuple[str, Mapping[str, Sequence[float | None]]]  # title, and a line of values (0 to 1; None: none) a name
COLOURS = (
    "#1f6feb", "#d1242f", "#8250df", "#bf8700", "#57606a", "#1a7f37",
    "#e16f24", "#0a7ea4", "#bf3989", "#6e4b1f", "#4ac26b", "#a5a5ff",
)  # fmt: skip
WIDTH, HEIGHT, LEFT, TOP, ROW = 300, 220, 44, 34, 18
PITCH_X, PITCH_Y = LEFT + WIDTH + 24, TOP + HEIGHT + 44  # from one panel to the next


def line_charts(
    panels: Sequence[Panel],
    ticks: Sequence[str],
    x_title: str,
    y_title: str,
    across: int | None = None,
    thick: Collection[str] = (),
) -> str:
    """Charts side by side, `across` in a row (all of them unless given), with one legend; the lines `thick` stand out.

    `ticks` name the points of every line, evenly spaced.

    >>> line_charts([("a set", {"a line": [0.5, 1.0]})], ["1", "2"], "tokens", "share").startswith("<svg ")
    True
    """
    across = max(1, min(across or len(panels), len(panels)))
    names = list(dict.fromkeys(name for _, lines in panels for name in lines))
    style = {name: (COLOURS[at % len(COLOURS)], 4 if name in thick else 2.5) for at, name in enumerate(names)}
    bottom = -(-len(panels) // across) * PITCH_Y
    width, height = across * PITCH_X, bottom + ROW * -(-len(names) // across)
    places = [(at % across * PITCH_X, at // across * PITCH_Y) for at in range(max(len(panels), len(names)))]
    parts = [_panel(*place, panel, ticks, x_title, style) for place, panel in zip(places, panels, strict=False)]
    parts.append(_text(12, TOP - 16, y_title, "start"))
    for at, name in enumerate(names):
        x, y = places[at][0] + LEFT, bottom + ROW * (at // across)
        colour, stroke = style[name]
        parts.append(f'<line x1="{x}" y1="{y}" x2="{x + 20}" y2="{y}" stroke="{colour}" stroke-width="{stroke}"/>')
        parts.append(_text(x + 28, y + 4, name, "start"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _panel(
    x: int, y: int, panel: Panel, ticks: Sequence[str], x_title: str, style: Mapping[str, tuple[str, float]]
) -> str:
    title, lines = panel
    left, right, low = x + LEFT, x + LEFT + WIDTH, y + TOP + HEIGHT
    parts = [_text(left + WIDTH // 2, y + TOP - 16, title, "middle")]
    for tenths in range(0, 11, 2):
        at = low - HEIGHT * tenths / 10
        parts.append(f'<line x1="{left}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#d8dee4"/>')
        parts.append(_text(left - 6, at + 4, f"{tenths / 10:.1f}", "end"))
    step = WIDTH / max(1, len(ticks) - 1)
    parts += [_text(left + i * step, low + 16, tick, "middle") for i, tick in enumerate(ticks)]
    parts.append(_text(left + WIDTH // 2, low + 32, x_title, "middle"))
    for name, values in lines.items():
        points = [(left + i * step, low - HEIGHT * value) for i, value in enumerate(values) if value is not None]
        drawn = " ".join(f"{at:.1f},{height:.1f}" for at, height in points)
        colour, stroke = style[name]
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="{stroke}"/>')
    return "\n".join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="#24292f">{escape(text)}</text>'
