"""Line charts as SVG text: no library, and the same figures give the same file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["Panel", "line_charts"]

Panel = tuple[str, Mapping[str, Sequence[float]]]  # title, and a line of values (0 to 1) for each name
COLOURS = ("#1f6feb", "#d1242f", "#8250df", "#bf8700", "#57606a", "#1a7f37")
WIDTH, HEIGHT, LEFT, TOP, ROW = 300, 220, 44, 34, 18


def line_charts(panels: Sequence[Panel], ticks: Sequence[str], x_title: str, y_title: str) -> str:
    """Charts side by side with one legend; `ticks` name the points of every line, evenly spaced.

    >>> line_charts([("a set", {"a line": [0.5, 1.0]})], ["1", "2"], "tokens", "share").startswith("<svg ")
    True
    """
    names = list(dict.fromkeys(name for _, lines in panels for name in lines))
    colour = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    bottom = TOP + HEIGHT + 44
    width, height = len(panels) * (LEFT + WIDTH + 24), bottom + ROW * len(names)
    parts = [_panel(at * (LEFT + WIDTH + 24), panel, ticks, x_title, colour) for at, panel in enumerate(panels)]
    parts.append(_text(12, TOP - 16, y_title, "start"))
    for at, name in enumerate(names):
        y = bottom + ROW * at
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + 20}" y2="{y}" stroke="{colour[name]}" stroke-width="3"/>')
        parts.append(_text(LEFT + 28, y + 4, name, "start"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _panel(x: int, panel: Panel, ticks: Sequence[str], x_title: str, colour: Mapping[str, str]) -> str:
    title, lines = panel
    left, right = x + LEFT, x + LEFT + WIDTH
    parts = [_text(left + WIDTH // 2, TOP - 16, title, "middle")]
    for tenths in range(0, 11, 2):
        y = _y(tenths / 10)
        parts.append(f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="#d8dee4"/>')
        parts.append(_text(left - 6, y + 4, f"{tenths / 10:.1f}", "end"))
    step = WIDTH / max(1, len(ticks) - 1)
    parts += [_text(left + at * step, TOP + HEIGHT + 16, tick, "middle") for at, tick in enumerate(ticks)]
    parts.append(_text(left + WIDTH // 2, TOP + HEIGHT + 32, x_title, "middle"))
    for name, values in lines.items():
        points = " ".join(f"{left + at * step:.1f},{_y(value):.1f}" for at, value in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour[name]}" stroke-width="2.5"/>')
    return "\n".join(parts)


def _y(value: float) -> float:
    return TOP + HEIGHT * (1 - value)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="#24292f">{escape(text)}</text>'
