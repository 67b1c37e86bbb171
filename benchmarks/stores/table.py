"""The tables in docs/scaling.md, from benchmarks/results/postgres.summary.json.

python -m benchmarks.stores.table                       print them
python -m benchmarks.stores.table --write | --check     put them into the page, or exit with 1 if it holds others
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import read_summary
from benchmarks.stores.run import RESULTS

__all__ = ["main", "tables"]

PROGRAM = "benchmarks.stores.table"
PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"
START, END = "<!-- postgres: python -m benchmarks.stores.table --write -->", "<!-- end of postgres -->"


def tables(record: dict[str, Any]) -> str:
    """All tables as Markdown."""
    parts = [_speed(record["speed"]), _rest(record)]
    version = record["server"]["server_version"]
    about = f"({record['date']}, {record['machine']['cores']} cores, PostgreSQL {version}.)"
    return "\n\n".join([*parts, about])


def _rows(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def _speed(found: dict[str, Any]) -> str:
    rows = []
    for one in found.values():
        begins = one["new_host_seconds"], one["known_host_seconds"]
        for engine, label, opening in (("sqlite", "SQLite", ("", "")), ("postgres", "PostgreSQL", begins)):
            times = one[engine]["recall_ms"], one[engine]["context_ms"]
            rows.append((f"{one['passages']:,} passages, {label}", *opening, *times))
    heads = ("memory", "opened by a new host, with a recall, s", "by one that knows it, s", "recall, ms", "context, ms")
    return _rows(heads, rows)


def _rest(record: dict[str, Any]) -> str:
    sizes, adds, filled = record["sizes"], record["writers"]["adds_a_second"], record["filled"]
    said = (
        ("bytes a passage in PostgreSQL, indexes and steps with it", f"{sizes['bytes_a_passage']:,}"),
        ("bytes a passage in SQLite's file", f"{sizes['sqlite_bytes_a_passage']:,}"),
        ("passages a second, with their steps, into PostgreSQL", min(_rates(filled, "postgres"))),
        ("and into SQLite", min(_rates(filled, "sqlite"))),
        ("steps added a second by one writer", adds["1"]),
        ("by four writers on one namespace", adds["4"]),
    )
    return _rows(("", "figure"), said)


def _rates(filled: dict[str, float], engine: str) -> list[float]:
    return [rate for name, rate in filled.items() if name.startswith(engine)]


def main(given: Sequence[str] | None = None) -> None:
    """Print the tables, or put them into the page."""
    args = parser_of(PROGRAM, __doc__).parse_args(given)
    args.page = PAGE
    deliver(PROGRAM, args, lambda: tables(read_summary(RESULTS)), START, END)


if __name__ == "__main__":
    main()
