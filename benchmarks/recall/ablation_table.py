"""The tables of benchmarks/tables/ablation.md: what each stage of recall is worth, from results/ablation.json.

python -m benchmarks.recall.ablation_table                     print the tables
python -m benchmarks.recall.ablation_table --write | --check   put them into place, or exit with 1 if others are there
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.documents import parser_of, placed, settle
from benchmarks.harness.scoring import mean
from benchmarks.recall.ablation import FORMAT, HALVES
from benchmarks.recall.variants import FULL
from tinymem.errors import InputError

__all__ = ["main", "tables"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.recall.ablation_table"
MARKS = "<!-- ablation: python -m benchmarks.recall.ablation_table --write -->", "<!-- end of ablation -->"
TITLES = {"held_out": "Haystacks that were held out", "all": "All haystacks, those that were fitted on included"}
SURE = 2.0  # standard errors from which on a difference is set in bold


def read(path: Path) -> dict[str, Any]:
    """The results at `path`; InputError if it holds none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name}: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f"{path.name} has no results of the format {FORMAT!r}")
    return record


def tables(record: Mapping[str, Any]) -> str:
    """Both tables as Markdown: recall with all stages, and what a change makes of it, at each budget."""
    return "\n\n".join(f"**{TITLES[half]}**\n\n{table(record, half)}" for half in HALVES)


def table(record: Mapping[str, Any], half: str) -> str:
    """A row a variant, a column a set; the last has the means of the sets."""
    sets, budgets = record["sets"], [str(budget) for budget in record["budgets"]]
    heads = [f"{one['data'].partition('.')[0]} ({one['queries'][half]})" for one in sets] + ["mean"]
    lines = [f"| @{', @'.join(budgets)} | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for name in sets[0]["figures"]:
        rows = [[(one["figures"][name][b][half], one["figures"][FULL][b][half]) for b in budgets] for one in sets]
        if name == FULL:
            cells = [", ".join(f"{ours[0]:.3f}" for ours, _ in row) for row in rows]
            cells.append(", ".join(f"{mean([row[i][0][0] for row in rows]):.3f}" for i in range(len(budgets))))
        else:
            gains = [[(ours[0] - full[0], ours[1]) for ours, full in row] for row in rows]
            cells = [", ".join(difference(*cell) for cell in row) for row in gains]
            means = [mean([row[i][0] for row in gains]) for i in range(len(budgets))]
            cells.append(", ".join(f"{value:+.3f}" for value in means))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def difference(value: float, error: float) -> str:
    """A difference, in bold where chance hardly explains it."""
    text = f"{value:+.3f}"
    return f"**{text}**" if abs(value) > SURE * error and error else text


def main(given: Sequence[str] | None = None) -> None:
    """Print, write or check the tables."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results" / "ablation.json")
    parser.add_argument(
        "--page", type=Path, default=HERE / "tables" / "ablation.md", help="the document that holds the tables"
    )
    args = parser.parse_args(given)
    try:
        text = tables(read(args.results))
        if not args.write and not args.check:
            print(text)
            return
        wanted = placed(args.page.read_text(encoding="utf-8"), text, *MARKS)
    except (InputError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")
    settle(PROGRAM, {args.page: wanted}, args.write)


if __name__ == "__main__":
    main()
