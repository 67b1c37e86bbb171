"""The table of benchmarks/tables/retention.md on retention, from benchmarks/results/retention.summary.json.

python -m benchmarks.pruning.retention_table                     print the table
python -m benchmarks.pruning.retention_table --write | --check   put it into place, or exit with 1 if another is there
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.documents import parser_of, placed, settle
from benchmarks.harness.summary import read_summary
from benchmarks.pruning.retention import BENCHMARK, RESULTS
from benchmarks.pruning.table import name_of
from tinymem.errors import InputError

__all__ = ["main", "table"]

PROGRAM = "benchmarks.pruning.retention_table"
MARKS = "<!-- retention: python -m benchmarks.pruning.retention_table --write -->", "<!-- end of retention -->"


def table(record: Mapping[str, Any]) -> str:
    """The figures as Markdown, a row a way: of the evidence, and of needles where there are any, what is kept."""
    if record.get("benchmark") != BENCHMARK:
        raise InputError(f"these are results of {record.get('benchmark')!r}, not of {BENCHMARK!r}")
    shares = [str(share) for share in sorted(record["shares"], reverse=True)]
    heads = [f"{share} % of {kind}" for kind in ("steps", "bytes") for share in shares]
    lines = [f"| set | goes first | {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * len(heads)}"]
    for one in record["sets"]:
        lines += rows(one, shares)
    return "\n".join(lines)


def rows(one: Mapping[str, Any], shares: Sequence[str]) -> Iterator[str]:
    """The rows of one set."""
    shown = f"{name_of(dict(one))}, {one['queries']} queries"
    for way in one["figures"]["steps"]:
        found = [one["figures"][kind][way][share] for kind in ("steps", "bytes") for share in shares]
        yield f"| {shown} | {way.replace(' first', '')} | {' | '.join(map(cell, found))} |"
        shown = ""


def cell(figures: Mapping[str, float]) -> str:
    """Both figures, or the one that is there.

    >>> cell({"evidence": 0.5, "needles": 0.75})
    '.500 (.750)'
    """
    needles = f" ({figures['needles']:.3f})" if "needles" in figures else ""
    return f"{figures['evidence']:.3f}{needles}".replace("0.", ".")


def main(given: Sequence[str] | None = None) -> None:
    """Print, write or check the table."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=Path(__file__).parents[1] / "tables" / "retention.md")
    args = parser.parse_args(given)
    try:
        text = table(read_summary(args.results))
        if not args.write and not args.check:
            print(text)
            return
        wanted = {args.page: placed(args.page.read_text(encoding="utf-8"), text, *MARKS)}
    except (InputError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")
    settle(PROGRAM, wanted, args.write)


if __name__ == "__main__":
    main()
