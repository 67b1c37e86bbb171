"""The tables of benchmarks/tables/answers.md, from the summaries benchmarks/results/answers*.summary.json.

python -m benchmarks.answers.table                     print the tables
python -m benchmarks.answers.table --write | --check   put them into place, or exit with 1 if others are there
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import read_summary

__all__ = ["main", "tables"]

PROGRAM = "benchmarks.answers.table"
HERE = Path(__file__).parents[1]
MARKS = "<!-- answers: python -m benchmarks.answers.table --write -->", "<!-- end of answers -->"
HEADS = (
    "right", "95 %", "F1", "judged", "tokens", "right per 1,000", "evidence there", "key at", "a value", "refused",
)  # fmt: skip


def tables(records: Sequence[Mapping[str, Any]]) -> str:
    """The figures as Markdown, a table for each run and set."""
    return "\n\n".join(part for record in records for part in _parts(record))


def _parts(record: Mapping[str, Any]) -> list[str]:
    parts = []
    for data, found in groupby(record["groups"], key=lambda group: group["data"]):
        rows = list(found)
        title = f"**{data}**, {rows[0]['asked']} questions, {rows[0]['keyed']} with a key; {record['reader']}"
        lines = [f"| method | budget | {' | '.join(HEADS)} |", f"| --- |{' ---: |' * (len(HEADS) + 1)}"]
        lines += [f"| {row['method']} | {row['budget']:,} | {' | '.join(_cells(row))} |" for row in rows]
        parts.append(f"{title} ({record['protocol']})\n\n" + "\n".join(lines))
    beside = record["agreement"]
    if beside:
        parts.append(
            f"The judge {record['judge']} and the strings agree on "
            f"{beside['both'] - beside['only_judge'] - beside['only_strings']} of {beside['both']} answers. It accepts "
            f"{beside['only_judge']} of the {beside['wrong']} that the strings refuse, and refuses "
            f"{beside['only_strings']} of the {beside['both'] - beside['wrong']} that they accept."
        )
    return parts


def _cells(row: Mapping[str, Any]) -> list[str]:
    low_and_high = "" if row["interval"] is None else "{:.3f} to {:.3f}".format(*row["interval"])
    before = [_share(row["right"]), low_and_high, _share(row["f1"]), _share(row["judged"]), f"{row['tokens']:.0f}"]
    return before + [_share(row[name]) for name in ("per_thousand", "evidence", "place", "named", "refused")]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def main(given: Sequence[str] | None = None) -> None:
    """Print, write or check the tables."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("results", nargs="*", type=Path, metavar="SUMMARY")
    parser.add_argument("--page", type=Path, default=HERE / "tables" / "answers.md")
    args = parser.parse_args(given)
    paths = args.results or sorted((HERE / "results").glob("answers*.summary.json"))
    deliver(PROGRAM, args, lambda: tables([read_summary(path) for path in paths]), *MARKS)


if __name__ == "__main__":
    main()
