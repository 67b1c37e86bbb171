"""Recall by token budget as plots, from the summaries in benchmarks/results: benchmarks/plots/curves.svg has all sets,
benchmarks/plots/curve.svg those of the front page.

python -m benchmarks.recall.curves --write | --check     put both into place, or exit with 1 if others are there
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.chart import line_charts
from benchmarks.harness.documents import parser_of, settle
from benchmarks.harness.summary import read_summary
from benchmarks.recall.table import Entry, entries
from tinymem.errors import InputError

__all__ = ["main", "plot"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.recall.curves"
FRONT = ("locomo-dev", "swe-traces-dev")  # people talking, and an agent at work
SHOWN = {"": "", "static": "static", "minilm": "MiniLM"}  # embedders that are plotted, by a part of their names
ACROSS = 3


def plot(rows: Sequence[Entry], sets: Sequence[str], across: int = ACROSS) -> str:
    """A panel for each of `sets`: a line for each method, `tinymem` standing out."""
    budgets = sorted({budget for row in rows for budget in row.figures})
    names = [name for row in rows if (name := line_name(row))]
    names = sorted(dict.fromkeys(names), key=lambda name: not name.startswith("tinymem"))  # the same colour everywhere
    thick = [name for name in names if name.startswith("tinymem")]
    panels = []
    for one in sets:
        found = {line_name(row): row.figures for row in rows if row.data == one}
        lines = {name: [found[name].get(b, {}).get("recall") for b in budgets] for name in names if name in found}
        panels.append((one, lines))
    return line_charts(panels, [f"{b:,}" for b in budgets], "tokens", "evidence that comes back", across, thick)


def line_name(row: Entry) -> str:
    """Return the name of a row in the legend; "" for one that is not plotted."""
    if not row.figures:
        return ""
    kinds = [shown for part, shown in SHOWN.items() if part == row.adapter or (part and part in row.adapter.lower())]
    return ", ".join(filter(None, (row.method, kinds[-1]))) if kinds else ""


def main(given: Sequence[str] | None = None) -> None:
    """Write or check the plots."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="the folder with the summaries")
    parser.add_argument("--out", type=Path, default=HERE / "plots", help="the folder of the plots")
    args = parser.parse_args(given)
    if not args.write and not args.check:
        parser.error("say --write or --check")
    try:
        rows = entries(read_summary(path) for path in sorted(args.results.glob("*.summary.json")))
        sets = list(dict.fromkeys(row.data for row in rows))
        front = [one for one in FRONT if one in sets]
        wanted = {args.out / "curves.svg": plot(rows, sets), args.out / "curve.svg": plot(rows, front)}
    except (InputError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")
    settle(PROGRAM, wanted, args.write)


if __name__ == "__main__":
    main()
