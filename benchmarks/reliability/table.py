"""The tables of what a memory survives, from the summaries in benchmarks/results.

python -m benchmarks.reliability.table                       print them
python -m benchmarks.reliability.table --write | --check     put them into tables/reliability.md, or exit with 1
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import read_summary

__all__ = ["main", "tables"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.reliability.table"
START, END = "<!-- reliability: python -m benchmarks.reliability.table --write -->", "<!-- end of reliability -->"


def tables(results: Path) -> str:
    """All tables as Markdown, each under what it is of."""
    parts = []
    for name, table in (("crash", _kills), ("processes", _processes), ("forgetting", _forgetting), ("fuzz", _fuzz)):
        record = read_summary(results / f"{name}.summary.json")
        about = f"{record['date']}, commit {record['commit'][:7]}, {record['machine']['cores']} cores"
        parts.append(f"{table(record)}\n\n({about})")
    return "\n\n".join(parts)


def _rows(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    shown = (" | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row) for row in rows)
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    return "\n".join([*lines, *(f"| {row} |" for row in shown)])


def _kills(record: dict[str, Any]) -> str:
    kinds = {**record["operations"], "all": _sums(record["operations"].values())}
    rows = [(name, one["kills"], one["inside"], one["acknowledged"], one["survived"]) for name, one in kinds.items()]
    heads = ("killed during", "kills", "inside an operation", "acknowledged by the killed", "survived")
    return f"**Kills**: `python -m benchmarks.reliability.crash --kills {record['kills']}`\n\n{_rows(heads, rows)}"


def _sums(records: Any) -> dict[str, int]:
    listed = list(records)
    return {key: sum(one[key] for one in listed) for key in listed[0]}


def _processes(record: dict[str, Any]) -> str:
    options = f"--writers {record['writers']} --readers {record['readers']} --seconds {record['seconds']:.0f}"
    kinds = {name: one for name, one in record["operations"].items() if one["max_ms"]}
    rows = [(name, one["count"], one["p50_ms"], one["p95_ms"], one["max_ms"]) for name, one in kinds.items()]
    found = (
        f"{record['acknowledged']:,} steps acknowledged, {record['steps']:,} there, {record['passages']:,} passages, "
        f"{record['in_index']:,} vectors in the index; faults (lost, doubled, torn, errors, hangs): "
        f"{len(record['faults'])}."
    )
    heads = ("operation", "count", "p50 ms", "p95 ms", "longest ms")
    return f"**Processes**: `python -m benchmarks.reliability.processes {options}`\n\n{found}\n\n{_rows(heads, rows)}"


def _forgetting(record: dict[str, Any]) -> str:
    rows = [
        (name, one["steps"], one["needles"], one["found_before"], one["found_after"], one["files"], one["bytes_after"])
        for name, one in record["ways"].items()
    ]
    heads = ("forgotten", "steps", "searched for", "found before", "found after", "files", "bytes searched after")
    command = f"python -m benchmarks.reliability.forgetting --steps {record['steps']}"
    return f"**Forgetting**: `{command}`\n\n{_rows(heads, rows)}"


def _fuzz(record: dict[str, Any]) -> str:
    kinds = {**record["targets"], "all": _sums(record["targets"].values())}
    rows = [(name, one["cases"], one["seconds"]) for name, one in kinds.items()]
    return f"**Fuzzing**: `python -m benchmarks.reliability.fuzz`\n\n{_rows(('reader', 'inputs', 'seconds'), rows)}"


def main(given: Sequence[str] | None = None) -> None:
    """Print, write or check the tables."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="the folder of the summaries")
    parser.add_argument(
        "--page", type=Path, default=HERE / "tables" / "reliability.md", help="the document that holds the tables"
    )
    args = parser.parse_args(given)
    deliver(PROGRAM, args, lambda: tables(args.results), START, END)


if __name__ == "__main__":
    main()
