"""The tables of benchmarks/tables/moments.md, from benchmarks/results/moments.summary.json.

python -m benchmarks.moments.table                     print the tables
python -m benchmarks.moments.table --write | --check   put them into place, or exit with 1 if others are there
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import read_summary
from benchmarks.moments.run import RESULTS

__all__ = ["main", "tables"]

PROGRAM = "benchmarks.moments.table"
PAGE = Path(__file__).parents[1] / "tables" / "moments.md"
MARKS = "<!-- moments: python -m benchmarks.moments.table --write -->", "<!-- end of moments -->"
TITLES = {"needs": "Prompts that need something said before", "nothing": "Prompts that need nothing"}
HEADS = {
    "needs": ("prompts", "needed text there", "got a block", "tokens of a block", "needed of 1,000", "old text leads"),
    "nothing": ("prompts", "got a block", "tokens of a block"),
}
ALL = "**all**"


def tables(record: Mapping[str, Any]) -> str:
    """The figures as Markdown: what prompts got that need something, and those that need nothing."""
    parts = []
    for group, title in TITLES.items():
        heads = ["unrelated sessions", "prompts that are" if group == "needs" else "class", *HEADS[group]]
        lines = [f"| {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * len(HEADS[group])}"]
        for filler, found in record["fillers"].items():
            lines += rows(filler, found[group], group)
        parts.append(f"**{title}**\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def rows(filler: str, by_style: Mapping[str, Mapping[str, int]], group: str) -> Sequence[str]:
    """The rows of one kind of unrelated sessions: a row a style, and one of all."""
    if group == "needs":
        by_style = dict(sorted(by_style.items()))
    every = {key: sum(sums[key] for sums in by_style.values()) for key in next(iter(by_style.values()))}
    shown = [(filler, style, sums) for style, sums in by_style.items()] + [(filler, ALL, every)]
    return [f"| {filler} | {style} | {' | '.join(cells(sums, group))} |" for filler, style, sums in shown]


def cells(sums: Mapping[str, int], group: str) -> list[str]:
    """The cells of a row.

    >>> cells({"prompts": 8, "blocks": 2, "tokens": 300}, "nothing")
    ['8', '2', '150']
    """
    blocks, size = str(sums["blocks"]), f"{sums['tokens'] / max(1, sums['blocks']):.0f}"
    if group == "nothing":
        return [str(sums["prompts"]), blocks, size]
    worth = f"{1_000 * sums['needed'] / max(1, sums['tokens']):.0f}"
    stale = f"{sums['stale']} of {sums['corrected']}" if sums["corrected"] else ""
    return [str(sums["prompts"]), str(sums["found"]), blocks, size, worth, stale]


def main(given: Sequence[str] | None = None) -> None:
    """Print, write or check the tables."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args(given)
    deliver(PROGRAM, args, lambda: tables(read_summary(args.results)), *MARKS)


if __name__ == "__main__":
    main()
