"""The tables in docs/scaling.md, from benchmarks/results/postgres.summary.json.

python -m benchmarks.stores.table                       print them
python -m benchmarks.stores.table --write | --check     put them into the page, or exit with 1 if it holds others
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import read_summary
from benchmarks.stores.hosts import PAGE
from benchmarks.stores.run import RESULTS

__all__ = ["main", "tables"]

PROGRAM = "benchmarks.stores.table"
START, END = "<!-- postgres: python -m benchmarks.stores.table --write -->", "<!-- end of postgres -->"


def tables(record: dict[str, Any]) -> str:
    """All tables as Markdown."""
    parts = [_recall(record["recall"]), _speed(record["speed"]), _rest(record)]
    server = record["server"]
    about = (
        f"({record['date']}, {record['machine']['cores']} cores, PostgreSQL {server['server_version']}, pgvector "
        f"{server['pgvector']}, shared_buffers {server['shared_buffers']}.)"
    )
    return "\n\n".join([*parts, about])


def _rows(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def _recall(found: dict[str, Any]) -> str:
    rows = [
        (name.removesuffix(".jsonl.gz"), one["queries"], f"{one['sqlite']:.3f}", f"{one['postgres']:.3f}",
         f"{one['same_ten']:.1%}")
        for name, one in found.items()
    ]  # fmt: skip
    return _rows(("set", "questions", "recall, SQLite", "recall, PostgreSQL", "ten best the same"), rows)


def _speed(found: dict[str, Any]) -> str:
    rows = []
    for one in found.values():
        for engine, label in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")):
            some = one[engine]
            ratio = one["ratio"] if engine == "postgres" else "1"
            figures = some["scored_ms"], some["scored_p95_ms"], ratio, some["recall_ms"], some["cpu_ms_a_recall"]
            rows.append((f"{one['passages']:,} passages, {label}", *figures, round(1000 / some["cpu_ms_a_recall"])))
    heads = ("memory", "candidates to scores, ms", "p95", "ratio", "whole recall, ms", "processor, ms a recall",
             "recalls a second and core")  # fmt: skip
    return _rows(heads, rows)


def _rest(record: dict[str, Any]) -> str:
    sizes, large = record["sizes"], record["speed"]["large"]
    adds, rows = record["writers"]["adds_a_second"], record["copy"]["rows_a_second"]
    said = (
        ("bytes a passage in PostgreSQL, indexes and steps with it", f"{sizes['bytes_a_passage']:,}"),
        ("of which the index of vectors", f"{sizes['of_index_of_vectors']:,}"),
        ("bytes a passage in SQLite's file", f"{sizes['sqlite_bytes_a_passage']:,}"),
        ("seconds to open the large memory on a new host, with the first recall", large["first_recall_seconds"]),
        ("steps added a second by one writer", adds["1"]),
        ("by four writers on one namespace", adds["4"]),
        ("passages a second into tables with their indexes, but that of vectors, by INSERT", rows["insert"]),
        ("by COPY", rows["copy"]),
    )
    return _rows(("", "figure"), said)


def main(given: Sequence[str] | None = None) -> None:
    """Print the tables, or put them into the page."""
    args = parser_of(PROGRAM, __doc__).parse_args(given)
    args.page = PAGE
    deliver(PROGRAM, args, lambda: tables(read_summary(RESULTS)), START, END)


if __name__ == "__main__":
    main()
