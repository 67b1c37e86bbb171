"""The table of benchmarks/tables/pruning.md on pruning and its plot, from benchmarks/results/pruning.json.

python -m benchmarks.pruning.table                     print the table
python -m benchmarks.pruning.table --write | --check   put table and plot into place, or exit with 1 if others are there
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.chart import Chart, Panel, evenly
from benchmarks.harness.data import set_name
from benchmarks.harness.documents import parser_of, placed, settle
from benchmarks.pruning.run import FORMAT
from tinymem.errors import InputError, MissingExtraError

__all__ = ["main", "plot", "table"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.pruning.table"
MARKS = "<!-- pruning: python -m benchmarks.pruning.table --write -->", "<!-- end of pruning -->"
PLOTTED = 5  # strategies of the plot: the first so many, those behind them are variants


def read(path: Path) -> dict[str, Any]:
    """The results at `path`; InputError if it holds none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name}: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f"{path.name} has no results of the format {FORMAT!r}")
    return record


def name_of(one: dict[str, Any]) -> str:
    """The set's name, without endings."""
    return set_name(one["data"])


def table(record: dict[str, Any], results: Path = HERE / "results") -> str:
    """The figures as Markdown, a row a strategy: at each budget the share of all needles, and of those held back.

    Behind them stands what recall brings back of the same needles in about the same tokens, from `results`.
    """
    budgets = [str(budget) for budget in record["budgets"]]
    heads = [f"@{budget}" for budget in budgets] + [f"tokens @{budgets[0]}", "first ms", "again ms"]
    lines = [f"| set | strategy | {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * len(heads)}"]
    for one in record["sets"]:
        shown = f"{name_of(one)}, {one['queries']} needles ({one['held_back']} held back)"
        for name, figures in one["figures"].items():
            cells = [f"{figures[b]['survive']['all']:.3f} ({figures[b]['survive']['odd']:.3f})" for b in budgets]
            first, last = figures[budgets[0]], figures[budgets[-1]]
            cells += [f"{first['tokens']:.0f}", f"{first['first_ms']:.1f}", f"{last['again_ms']:.1f}"]
            lines.append(f"| {shown} | {name} | {' | '.join(cells)} |")
            shown = ""
        if (recalled := results / f"{name_of(one)}.tinymem-static.summary.json").exists():
            found = json.loads(recalled.read_text(encoding="utf-8"))["sets"][0]["figures"]
            near = [_near(budget) for budget in record["budgets"]]
            cells = [f"{found[b]['recall']:.3f}" if b in found else "" for b in near]
            lines.append(f"|  | recall @{', @'.join(near)}, cross-validated | {' | '.join(cells)} |  |  |  |")
    return "\n".join(lines)


def _near(budget: int) -> str:
    """Return the power of two next to a budget: recall is measured at those."""
    return str(1 << round(math.log2(budget)))


def plot(record: dict[str, Any]) -> Chart:
    """The plot: a panel a set, a line a strategy."""
    budgets = [str(budget) for budget in record["budgets"]]
    panels: list[Panel] = []
    for one in record["sets"]:
        chosen = list(one["figures"].items())[:PLOTTED]
        lines = {name: evenly([figures[b]["survive"]["all"] for b in budgets]) for name, figures in chosen}
        panels.append((name_of(one), lines))
    return Chart(panels, budgets, "tokens beside what always stays", "needles that survive", None, ["semantic_pruning"])


def main(given: Sequence[str] | None = None) -> None:
    """Print, write or check table and plot."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results" / "pruning.json")
    parser.add_argument("--page", type=Path, default=HERE / "tables" / "pruning.md", help="the plot goes to ../plots")
    args = parser.parse_args(given)
    try:
        record = read(args.results)
        if not args.write and not args.check:
            print(table(record))
            return
        wanted: dict[Path, str | Chart] = {args.page.parents[1] / "plots" / "pruning.svg": plot(record)}
        wanted[args.page] = placed(args.page.read_text(encoding="utf-8"), table(record), *MARKS)
        settle(PROGRAM, wanted, args.write)
    except (InputError, MissingExtraError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")


if __name__ == "__main__":
    main()
