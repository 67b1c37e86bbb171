"""Recall by tokens used as plots, from the summaries in benchmarks/results: benchmarks/plots/curves.svg has all sets,
benchmarks/plots/curve.svg those of the front page.

    python -m benchmarks.recall.curves --write | --check     put both into place, or exit with 1 if others are there
    python -m benchmarks.recall --plot RESULTS.jsonl...      draw results of your own
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.chart import Chart, Panel
from benchmarks.harness.documents import parser_of, settle
from benchmarks.harness.methods import AS_CALLED
from benchmarks.harness.summary import read_summary, summary_path
from benchmarks.recall.table import Entry, entries
from tinymem.errors import InputError, MissingExtraError

__all__ = ["draw", "main", "plot"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.recall.curves"
FRONT = ("locomo-dev", "swe-traces-dev")  # people talking, and an agent at work
SHOWN = {"": "", "static": "static", "minilm": "MiniLM"}  # embedders that are plotted, by a part of their names
ACROSS = 3


def plot(rows: Sequence[Entry], sets: Sequence[str], across: int = ACROSS) -> Chart:
    """A panel for each of `sets`: a line for each method, `tinymem` standing out."""
    budgets = sorted({budget for row in rows if row.data in sets and line_name(row) for budget in row.figures})
    names = [name for row in rows if (name := line_name(row))]
    names = sorted(dict.fromkeys(names), key=lambda name: not name.startswith("tinymem"))  # the same colour everywhere
    thick = [name for name in names if name.startswith("tinymem")]
    panels: list[Panel] = []
    for one in sets:
        found = {line_name(row): row.figures for row in rows if row.data == one}
        lines = {name: [_point(found[name].get(b), budgets) for b in budgets] for name in names if name in found}
        panels.append((one, lines))
    return Chart(panels, [f"{b:,}" for b in budgets], "tokens used", "evidence that comes back", across, thick)


def _point(found: Mapping[str, Any] | None, budgets: Sequence[int]) -> tuple[float, float] | None:
    """Return the place of the tokens used among the budgets (on a scale of logarithms), and the recall."""
    if not found or found["recall"] is None:
        return None
    used = math.log2(max(found["tokens"], 1))
    place = np.interp(used, np.log2(budgets), range(len(budgets)))
    return float(place) + min(0.0, used - math.log2(budgets[0])), found["recall"]


def line_name(row: Entry) -> str:
    """Return the name of a row in the legend; "" for one that is not plotted."""
    if not row.figures or row.method == AS_CALLED:
        return ""
    kinds = [shown for part, shown in SHOWN.items() if part == row.adapter or (part and part in row.adapter.lower())]
    if not kinds:
        return ""
    return f"{row.method} ({kinds[-1]})" if kinds[-1] else row.method


def draw(results: Sequence[Path]) -> list[Path]:
    """Draw these results into a file beside the first, or all of benchmarks/results; return the files drawn."""
    if not results:
        wanted = _wanted(HERE / "results", HERE / "plots")
    else:
        rows = entries(read_summary(path) for path in results)
        first = summary_path(results[0])
        out = first.with_name(f"{first.name.removesuffix('.summary.json')}.svg")
        wanted = {out: plot(rows, list(dict.fromkeys(row.data for row in rows)))}
    settle(PROGRAM, wanted, write=True)
    return [*wanted]


def _wanted(results: Path, out: Path) -> dict[Path, Chart]:
    """Return the plots of all summaries in a folder."""
    rows = entries(read_summary(path) for path in sorted(results.glob("*.summary.json")))
    sets = list(dict.fromkeys(row.data for row in rows))
    front = [one for one in FRONT if one in sets]
    return {out / "curves.svg": plot(rows, sets), out / "curve.svg": plot(rows, front)}


def main(given: Sequence[str] | None = None) -> None:
    """Write or check the plots."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="the folder with the summaries")
    parser.add_argument("--out", type=Path, default=HERE / "plots", help="the folder of the plots")
    args = parser.parse_args(given)
    if not args.write and not args.check:
        parser.error("say --write or --check")
    try:
        settle(PROGRAM, _wanted(args.results, args.out), args.write)
    except (InputError, MissingExtraError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")


if __name__ == "__main__":
    main()
